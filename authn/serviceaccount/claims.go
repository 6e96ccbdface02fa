package serviceaccount

import (
	"errors"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
)

// claims are those of a token.
// Source: SAT-02.
type claims struct {
	Audience  audiences `json:"aud,omitempty"`
	Expiry    seconds   `json:"exp,omitempty"`
	IssuedAt  seconds   `json:"iat,omitempty"`
	Issuer    string    `json:"iss,omitempty"`
	ID        any       `json:"jti,omitempty"` // others write numbers
	Private   *private  `json:"kubernetes.io,omitempty"`
	NotBefore seconds   `json:"nbf,omitempty"`
	Subject   string    `json:"sub,omitempty"`

	legacy
}

// private are Kubernetes' own claims.
type private struct {
	Namespace string    `json:"namespace,omitempty"`
	Node      *objectID `json:"node,omitempty"`
	Pod       *objectID `json:"pod,omitempty"`
	Secret    *objectID `json:"secret,omitempty"`
	Account   objectID  `json:"serviceaccount"`
	WarnAfter seconds   `json:"warnafter,omitempty"`
}

// objectID is one object, which another of the same name is not.
type objectID struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// legacy are the claims of a token in a Secret.
type legacy struct {
	Namespace string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Account   string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// seconds is a time of RFC 7519.
type seconds int64

// lastSecond is the end of the year 9999. A later time is one in another unit.
const lastSecond = 253402300799

// UnmarshalJSON reads a number. It drops a fraction.
func (s *seconds) UnmarshalJSON(text []byte) error {
	var number float64
	if err := json.Unmarshal(text, &number); err != nil || !(number >= 0 && number <= lastSecond) {
		return errors.New("not a time in seconds")
	}
	*s = seconds(number)
	return nil
}

// at returns the time.
func (s seconds) at() time.Time { return time.Unix(int64(s), 0) }

// audiences are written as a list, and read as a list or one text.
type audiences []string

// UnmarshalJSON reads a text or a list of texts.
func (a *audiences) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*a = audiences{""}
		return json.Unmarshal(text, &(*a)[0])
	}
	var list []string
	err := json.Unmarshal(text, &list)
	*a = list
	return err
}

// among returns the audiences that a list has.
func (a audiences) among(list []string) []string { return authn.MatchingAudiences(a, list) }

// skew is how much the clocks of the servers of a cluster may differ.
const skew = time.Minute

// inSecret reports whether the token is one in a Secret.
func (c *claims) inSecret() bool { return c.Issuer == LegacyIssuer && c.Private == nil }

// check reports claims that contradict each other.
func (c *claims) check() error {
	if c.inSecret() {
		switch l := &c.legacy; {
		case l.Namespace == "" || l.Account == "" || l.UID == "" || l.Secret == "" || c.Subject != userName(l.Namespace, l.Account):
			return errContradiction
		case len(c.Audience) > 0 || c.Expiry != 0 || c.NotBefore != 0:
			return errContradiction
		}
		return nil
	}
	p := c.Private
	if p == nil || p.Namespace == "" || p.Account.Name == "" || p.Account.UID == "" || c.Subject != userName(p.Namespace, p.Account.Name) {
		return errContradiction
	}
	if c.Expiry == 0 {
		return errors.New("it does not expire")
	}
	return nil
}

var errContradiction = errors.New("its claims contradict each other")

// checkTime reports a token that does not count at a time.
func (c *claims) checkTime(now time.Time) error {
	switch {
	case c.Expiry != 0 && !now.Before(c.Expiry.at()):
		return errors.New("it has expired")
	case now.Add(skew).Before(c.NotBefore.at()), now.Add(skew).Before(c.IssuedAt.at()):
		return errors.New("it is not valid yet")
	}
	return nil
}

// Groups of every service account. The second one ends with the namespace.
const (
	group          = "system:serviceaccounts"
	namespaceGroup = group + ":"
)

// Keys of further facts about a user.
const (
	extraID      = "authentication.kubernetes.io/credential-id"
	extraPod     = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
	extraNode    = "authentication.kubernetes.io/node-name"
	extraNodeUID = "authentication.kubernetes.io/node-uid"
)

// userName is the name of an account as a user.
func userName(namespace, name string) string {
	return authn.ServiceAccountPrefix + namespace + ":" + name
}

// credentialID is what audit records and users have of the claim jti.
func credentialID(id string) string { return "JTI=" + id }

// user returns the account as a user.
// Source: SAT-04.
func (c *claims) user() authn.User {
	u := authn.User{Name: c.Subject, Method: "serviceaccount", Issuer: c.Issuer}
	if c.inSecret() {
		u.UID, u.Groups = c.legacy.UID, []string{group, namespaceGroup + c.legacy.Namespace}
		return u
	}
	p := c.Private
	u.UID, u.Groups, u.Expires, u.Extra = p.Account.UID, []string{group, namespaceGroup + p.Namespace}, c.Expiry.at(), map[string][]string{}
	set := func(key, value string) {
		if value != "" {
			u.Extra[key] = []string{value}
		}
	}
	if id, ok := c.ID.(string); ok && id != "" {
		set(extraID, credentialID(id))
	}
	if p.Pod != nil {
		set(extraPod, p.Pod.Name)
		set(extraPodUID, p.Pod.UID)
	}
	if p.Node != nil {
		set(extraNode, p.Node.Name)
		set(extraNodeUID, p.Node.UID)
	}
	return u
}
