package kube

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// accountClaims are the claims of a token of a service account.
type accountClaims struct {
	jwt.Claims

	Audience []string      `json:"aud,omitempty"` // a list, even of one
	Private  privateClaims `json:"kubernetes.io"`
}

// privateClaims are Kubernetes' own.
type privateClaims struct {
	Namespace string           `json:"namespace,omitempty"`
	Account   objectRef        `json:"serviceaccount,omitzero"`
	Pod       *objectRef       `json:"pod,omitempty"`
	Secret    *objectRef       `json:"secret,omitempty"`
	Node      *objectRef       `json:"node,omitempty"`
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
}

// objectRef is one object, which another of the same name is not.
type objectRef struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

func accountName(namespace, name string) string {
	return authn.ServiceAccountPrefix + namespace + ":" + name
}

// skew is how much the clocks of the servers of a cluster may differ.
const skew = time.Minute

// Authenticator authenticates service accounts by tokens that a server with the same issuer and keys
// has made. It leaves the tokens of other issuers to other authenticators.
//
// A token is an error from the moment at which its account or the object that it is bound to is
// gone, even if there is another of the same name. A deleted object that still has finalizers, or
// time to end in, counts until its deletion timestamp. What a signature proved is remembered; whether
// the objects exist is asked at every request.
func (t *Tokens) Authenticator() (authn.Authenticator, error) {
	a := &accountTokens{tokens: t, keys: map[string]crypto.PublicKey{}}
	keys := t.Keys
	if len(keys) == 0 && t.Key != nil {
		keys = []crypto.PublicKey{t.Key.Public()}
	}
	for _, key := range keys {
		algorithm, err := algorithmOf(key)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(a.algorithms, algorithm) {
			a.algorithms = append(a.algorithms, algorithm)
		}
		id, err := keyID(key)
		if err != nil {
			return nil, err
		}
		a.keys[id] = key
	}
	if len(a.keys) == 0 {
		return nil, errors.New("there is no key that tokens of service accounts may be signed with")
	}
	return a, nil
}

// accountTokens is the authenticator before a server has bound it.
type accountTokens struct {
	tokens     *Tokens
	keys       map[string]crypto.PublicKey // by id
	algorithms []jose.SignatureAlgorithm
}

var _ watch.Bindable[authn.Authenticator] = (*accountTokens)(nil)

// Name is the name of the readiness check.
func (a *accountTokens) Name() string { return "service-accounts" }

// Authenticate fails: the objects of a server are not known.
func (a *accountTokens) Authenticate(*http.Request) (authn.User, bool, error) {
	return authn.User{}, false, errors.New("the authenticator of service accounts belongs to no server")
}

// Bind returns the authenticator for one server.
func (a *accountTokens) Bind(b watch.Binding) (authn.Authenticator, error) {
	out := &accounts{accountTokens: a, get: b.Get, proven: map[[sha256.Size]byte]*accountClaims{}}
	_, err := rand.Read(out.secret[:])
	return out, err
}

// maxProven bounds the tokens whose signatures are remembered. A check of one takes 100 µs.
const maxProven = 10_000

// accounts authenticates service accounts of one server.
type accounts struct {
	*accountTokens

	get    func(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error)
	secret [32]byte // of the hashes of tokens

	mu     sync.RWMutex
	proven map[[sha256.Size]byte]*accountClaims // by the hash of the token
}

// Authenticate returns the account whose token the request has.
func (a *accounts) Authenticate(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if !ok || err != nil {
		return authn.User{}, false, err
	}
	claims, err := a.claims(token)
	if claims == nil || err != nil {
		return authn.User{}, false, err
	}
	audiences, err := a.check(r.Context(), claims)
	if err == nil {
		err = a.checkObjects(r.Context(), &claims.Private)
	}
	if err != nil {
		return authn.User{}, false, fmt.Errorf("token of %s: %w", claims.Subject, err)
	}
	return claims.user(audiences), true, nil
}

// claims returns what a token says if it is signed, nil if it is not of our issuers.
func (a *accounts) claims(token string) (*accountClaims, error) {
	h := hmac.New(sha256.New, a.secret[:])
	_, _ = h.Write([]byte(token)) // a hash never fails to write
	key := [sha256.Size]byte(h.Sum(nil))
	a.mu.RLock()
	claims := a.proven[key]
	a.mu.RUnlock()
	if claims != nil {
		return claims, nil
	}
	claims, err := a.verify(token)
	if claims == nil || err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for old := range a.proven { // evict any entry: its token is verified anew
		if len(a.proven) < maxProven {
			break
		}
		delete(a.proven, old)
	}
	a.proven[key] = claims
	return claims, nil
}

// verify checks the signature of a token.
func (a *accounts) verify(token string) (*accountClaims, error) {
	var said struct {
		Issuer string `json:"iss"`
	}
	parsed, err := jwt.ParseSigned(token, a.algorithms)
	if err != nil || parsed.UnsafeClaimsWithoutVerification(&said) != nil || !a.issued(said.Issuer) {
		return nil, nil //nolint:nilerr // another authenticator may know it
	}
	key := a.keys[parsed.Headers[0].KeyID]
	if key == nil {
		return nil, errors.New("token of a service account: it is signed with a key that is not known")
	}
	claims := &accountClaims{}
	if err := parsed.Claims(key, claims); err != nil {
		return nil, errors.New("token of a service account: the signature is wrong")
	}
	p := &claims.Private
	if claims.Subject != accountName(p.Namespace, p.Account.Name) || p.Account.UID == "" || p.Namespace == "" {
		return nil, errors.New("token of a service account: its claims contradict each other")
	}
	return claims, nil
}

func (a *accounts) issued(issuer string) bool {
	return issuer != "" && (issuer == a.tokens.Issuer || slices.Contains(a.tokens.OtherIssuers, issuer))
}

// check checks the time and the audiences, and returns those that count.
func (a *accounts) check(ctx context.Context, c *accountClaims) ([]string, error) {
	now := time.Now()
	switch {
	case c.Expiry == nil || !now.Before(c.Expiry.Time()):
		return nil, errors.New("it has expired")
	case c.NotBefore != nil && now.Add(skew).Before(c.NotBefore.Time()), c.IssuedAt != nil && now.Add(skew).Before(c.IssuedAt.Time()):
		return nil, errors.New("it is not valid yet")
	}
	asked, ok := authn.AudiencesFrom(ctx)
	if !ok {
		asked = a.tokens.audiences()
	}
	meant := slices.DeleteFunc(slices.Clone(c.Audience), func(one string) bool { return !slices.Contains(asked, one) })
	if len(meant) == 0 {
		return nil, errors.New("it is for other audiences")
	}
	return meant, nil
}

// checkObjects checks that the account and what the token is bound to still exist.
func (a *accounts) checkObjects(ctx context.Context, p *privateClaims) error {
	for _, o := range []struct {
		resource, namespace string
		ref                 *objectRef
	}{
		{"serviceaccounts", p.Namespace, &p.Account}, {"pods", p.Namespace, p.Pod}, {"secrets", p.Namespace, p.Secret}, {"nodes", "", p.Node},
	} {
		if o.ref == nil || o.resource == "nodes" && p.Pod != nil { // the node of a pod is no condition
			continue
		}
		e, err := a.get(ctx, meta.GroupVersionResource{Version: "v1", Resource: o.resource}, o.namespace, o.ref.Name)
		if status.IsNotFound(err) {
			return fmt.Errorf("%s %q is gone", o.resource, o.ref.Name)
		} else if err != nil {
			return err
		}
		facts := e.Facts()
		if string(facts.UID) != o.ref.UID || facts.Deleted != nil && !time.Now().Before(*facts.Deleted) {
			return fmt.Errorf("%s %q is gone, although there is one of this name", o.resource, o.ref.Name)
		}
	}
	return nil
}

// user returns the account as a user (SAT-04).
func (c *accountClaims) user(audiences []string) authn.User {
	p := &c.Private
	u := authn.User{
		Name: c.Subject, UID: p.Account.UID, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.Namespace},
		Audiences: audiences, Expires: c.Expiry.Time(), Method: "serviceaccount", Extra: map[string][]string{},
	}
	set := func(key, value string) {
		if value != "" {
			u.Extra["authentication.kubernetes.io/"+key] = []string{value}
		}
	}
	if c.ID != "" {
		set("credential-id", "JTI="+c.ID)
	}
	if p.Pod != nil {
		set("pod-name", p.Pod.Name)
		set("pod-uid", p.Pod.UID)
	}
	if p.Node != nil {
		set("node-name", p.Node.Name)
		set("node-uid", p.Node.UID)
	}
	return u
}
