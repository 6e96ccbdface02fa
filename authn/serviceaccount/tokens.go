package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/proof"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Options set how tokens are issued and checked.
type Options struct {
	// Issuers are the names of the issuer, usually a URL. The first is written into tokens, and all
	// are accepted, so that the name can be changed. At least one is required.
	Issuers []string

	// Audiences are those of the server. Tokens have them unless a request names others, and a token
	// must have one of them to be accepted. Default: Issuers.
	Audiences []string

	// Signer signs tokens. Without it no tokens are issued.
	Signer Signer

	// Keys are the public keys that tokens may be signed with. They are required.
	Keys KeySource

	// MaxLifetime shortens longer tokens, with a warning. 0 means no limit.
	MaxLifetime time.Duration

	// Extend makes a token valid for a year that is bound to a Pod, has no audiences but those of the
	// server and is asked for with 3607 seconds, whatever MaxLifetime says. Nodes ask for such tokens,
	// and old programs in Pods read their token once.
	Extend bool

	// MaxExtended shortens the lifetime that Extend gives. 0 means a year.
	MaxExtended time.Duration

	// Legacy accepts the tokens in Secrets of the type kubernetes.io/service-account-token, which have
	// the issuer [LegacyIssuer], no audiences and no end.
	Legacy bool

	// TrustLegacy accepts a legacy token without a look at its Secret and its account. Deleting them has
	// no effect on it.
	TrustLegacy bool
}

// Tokens issues and checks tokens. What it does never changes, and it may belong to several servers.
type Tokens struct {
	counts    counts
	options   Options
	audiences []string
	used      *usage
}

// New returns tokens with these options. It reports options that contradict each other.
func New(o Options) (*Tokens, error) {
	var problems []error
	if len(o.Issuers) == 0 {
		problems = append(problems, errors.New("an issuer is required"))
	}
	for i, name := range o.Issuers {
		switch {
		case name == "":
			problems = append(problems, errors.New("an issuer is empty"))
		case slices.Contains(o.Issuers[:i], name):
			problems = append(problems, fmt.Errorf("the issuer %q is given twice", name))
		}
	}
	if o.Keys == nil {
		problems = append(problems, errors.New("there is no key that tokens of service accounts may be signed with"))
	}
	if o.MaxLifetime < 0 {
		problems = append(problems, fmt.Errorf("the longest lifetime %s is negative", o.MaxLifetime))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("tokens of service accounts: %w", err)
	}
	t := &Tokens{options: o, audiences: o.Audiences, used: newUsage()}
	if len(t.audiences) == 0 {
		t.audiences = o.Issuers
	}
	return t, nil
}

// Audiences returns the audiences of the server.
func (t *Tokens) Audiences() []string { return slices.Clone(t.audiences) }

// AcceptsLegacy reports whether tokens in Secrets are accepted and looked up.
func (t *Tokens) AcceptsLegacy() bool { return t != nil && t.options.Legacy && !t.options.TrustLegacy }

// Get returns an object of a server, as new as every write that was answered. The error is a NotFound if
// there is none. It has the form of the method of [watch.Binding].
type Get func(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error)

var _ watch.Bindable[authn.Authenticator] = (*Tokens)(nil)

// Name returns "service-accounts".
func (t *Tokens) Name() string { return "service-accounts" }

// Authenticate fails: the objects of a server are not known.
func (t *Tokens) Authenticate(*http.Request) (authn.User, bool, error) {
	return authn.User{}, false, errors.New("the authenticator of service accounts belongs to no server")
}

// Bind returns the authenticator for one server.
func (t *Tokens) Bind(b watch.Binding) (authn.Authenticator, error) {
	return t.Authenticator(b.Get), nil
}

// Authenticator returns an authenticator that looks objects up with get. It leaves the tokens of other
// issuers to other authenticators.
//
// A token is an error from the moment at which its account or the object that it is bound to is gone,
// even if there is another of the same name. A deleted object that still has finalizers, or time to end
// in, counts until its deletion timestamp.
func (t *Tokens) Authenticator(get Get) authn.Authenticator {
	return &checker{Tokens: t, get: get, proofs: proof.New[*proven](maxProven)}
}
