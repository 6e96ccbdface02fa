package bootstrap

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// What a Secret with a token is.
const (
	Namespace  = "kube-system"
	NamePrefix = "bootstrap-token-" // before the id of the token
	Type       = "bootstrap.kubernetes.io/token"
)

// Who has a token.
const (
	UserPrefix = "system:bootstrap:"    // before the id of the token
	Group      = "system:bootstrappers" // of all
	extra      = Group + ":"            // how other groups begin
	groupForm  = "[a-z0-9:-]{0,255}[a-z0-9]"
)

var (
	tokenForm  = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	extraGroup = regexp.MustCompile(`^` + extra + groupForm + `$`)
)

// Secret is what an authenticator reads of a Secret.
type Secret struct {
	Type    string
	Data    map[string][]byte
	Deleted bool // it has a deletion timestamp
}

// Tokens authenticates bootstrap tokens. It reads the Secret of a token at each request, so a Secret
// that is deleted or has changed counts at once. Read returns a Secret of [Namespace], and an error for
// which status.IsNotFound holds if there is none. Tokens is as safe for concurrent use as Read.
type Tokens struct {
	Read func(ctx context.Context, name string) (Secret, error)
}

// Authenticate returns the user of the request's bearer token. It leaves what is not in the form of a
// bootstrap token, and tokens without a Secret, to other authenticators. A token whose Secret is not in
// order is an error.
// Source: SAT-07, SAT-08, SAT-09.
func (t Tokens) Authenticate(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if !ok || err != nil {
		return authn.User{}, false, err
	}
	parts := tokenForm.FindStringSubmatch(token)
	if parts == nil {
		return authn.User{}, false, nil
	}
	id, secret := parts[1], parts[2]
	s, err := t.Read(r.Context(), NamePrefix+id)
	if status.IsNotFound(err) {
		return authn.User{}, false, nil
	}
	var u authn.User
	if err == nil {
		u, err = s.user(id, secret, time.Now())
	}
	if err != nil {
		return authn.User{}, false, fmt.Errorf("bootstrap token %s: %w", id, err)
	}
	return u, true, nil
}

// user returns who has the token, if the Secret allows it at a time.
func (s Secret) user(id, secret string, now time.Time) (u authn.User, err error) {
	switch {
	case s.Deleted:
		return u, errors.New("the Secret is being deleted")
	case s.Type != Type:
		return u, errors.New("the Secret has another type")
	case subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(secret)) != 1:
		return u, errors.New("token-secret is another one")
	case string(s.Data["token-id"]) != id:
		return u, errors.New("token-id is not that of the Secret's name")
	case string(s.Data["usage-bootstrap-authentication"]) != "true":
		return u, errors.New("the token is not for authentication")
	}
	if text, ok := s.Data["expiration"]; ok && len(text) > 0 {
		if u.Expires, err = time.Parse(time.RFC3339, string(text)); err != nil {
			return u, errors.New("expiration is no time")
		}
		if !u.Expires.After(now) {
			return u, errors.New("expired")
		}
	}
	u.Name, u.Groups = UserPrefix+id, []string{Group}
	if text := string(s.Data["auth-extra-groups"]); text != "" {
		known := map[string]bool{Group: true}
		for group := range strings.SplitSeq(text, ",") {
			if !extraGroup.MatchString(group) {
				return u, errors.New("auth-extra-groups has one that does not begin with " + extra + " or has other characters")
			}
			if !known[group] {
				known[group], u.Groups = true, append(u.Groups, group)
			}
		}
	}
	return u, nil
}

// New returns an authenticator for kindwright.Authenticate. It reads the Secrets of the server that it
// is given to, which must serve them in version v1 of the core group.
func New() authn.Authenticator { return unbound{} }

// unbound is the authenticator before a server has bound it.
type unbound struct{}

var _ watch.Bindable[authn.Authenticator] = unbound{}

// Name returns "bootstrap-tokens".
func (unbound) Name() string { return "bootstrap-tokens" }

// Authenticate fails: the Secrets of a server are not known.
func (unbound) Authenticate(*http.Request) (authn.User, bool, error) {
	return authn.User{}, false, errors.New("the authenticator of bootstrap tokens belongs to no server")
}

// Bind returns the authenticator for one server.
func (unbound) Bind(b watch.Binding) (authn.Authenticator, error) {
	of := meta.GroupVersionResource{Version: "v1", Resource: "secrets"}
	return Tokens{Read: func(ctx context.Context, name string) (Secret, error) {
		e, err := b.Get(ctx, of, Namespace, name)
		if err != nil {
			return Secret{}, err
		}
		return parse(e.AppendJSON(nil))
	}}, nil
}

// parse reads a Secret in the form that Kubernetes and kinds.Secret have.
func parse(text []byte) (Secret, error) {
	var s struct {
		Metadata struct {
			DeletionTimestamp *string `json:"deletionTimestamp"`
		} `json:"metadata"`
		Type string            `json:"type"`
		Data map[string][]byte `json:"data"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Secret{}, errors.New("the Secret cannot be read")
	}
	return Secret{Type: s.Type, Data: s.Data, Deleted: s.Metadata.DeletionTimestamp != nil}, nil
}
