package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/bootstrap"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/token"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/node"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/internal/accessflags"
	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/internal/certfile"
)

// access builds authentication from the flags. It also returns the authorities whose
// client certificates are accepted, or nil.
func (o *options) access(log logr.Logger, accounts *serviceaccount.Tokens, signed *authnflags.Authentication) ([]kindwright.Option, func() *x509.CertPool, error) {
	var who []authn.Authenticator
	var authorities func() *x509.CertPool
	proxy, err := o.proxy.authenticator(log, o.clientCAFile)
	if err != nil {
		return nil, nil, err
	}
	if proxy != nil {
		who = append(who, proxy) // before the users' own certificates, as in Kubernetes
	}
	if o.clientCAFile != "" {
		a, err := certificates.Open(o.clientCAFile, certificates.WithReloadError(reloadFailed(log, "client-ca-file")))
		if err != nil {
			return nil, nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		authorities = a.Authorities
		who = append(who, a)
	}
	if o.clientCAFile != "" && o.proxy.caFile != "" { // a handshake names both
		both, err := certfile.OpenAuthorities(reloadFailed(log, "client-ca-file"), o.clientCAFile, o.proxy.caFile)
		if err != nil {
			return nil, nil, fmt.Errorf("--client-ca-file and --requestheader-client-ca-file: %w", err)
		}
		authorities = both.Pool
	}
	if o.tokenFile != "" {
		tokens, err := token.Open(o.tokenFile, token.WithReloadError(reloadFailed(log, "token-auth-file")))
		if err != nil {
			return nil, nil, fmt.Errorf("--token-auth-file: %w", err)
		}
		who = append(who, tokens)
	}
	if accounts != nil {
		who = append(who, accounts)
	}
	if o.bootstrap {
		who = append(who, bootstrap.New())
	}
	who = append(who, signed.Authenticators()...)
	hook, err := o.tokenWebhook.Open(log, o.accounts.Audiences()...)
	if err != nil {
		return nil, nil, err
	}
	if hook != nil {
		who = append(who, hook) // last: it knows nothing by itself
	}
	return []kindwright.Option{
		kindwright.Authenticate(who...),
		kindwright.Access{
			NoAnonymous: signed.NoAnonymous,
			OpenPaths:   o.openPaths(),
		},
		kindwright.CheckHealth(signed.Health()),
		kindwright.Before("body", o.accounts.Documents(accounts, log, o.externalAddress())),
	}, authorities, nil
}

// openPaths are open without authorization if everything is allowed, as anonymous requests are not.
// Otherwise the authorizers decide; the default roles open some paths.
func (o *options) openPaths() []string {
	if !slices.Contains(o.authorization.Modes(), "AlwaysAllow") {
		return []string{} // nil would be the library's own
	}
	return []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
}

// signed accepts the tokens of issuers, and anonymous requests of some paths.
func (o *options) signed(log logr.Logger) (*authnflags.Authentication, error) {
	return o.authn.Open(authnflags.Options{
		Options: jwt.Options{
			TakenIssuers: o.accounts.Issuers(), Logger: log, ServerID: o.host(),
			UnverifiedEmail: true, OptionalIssuers: true, // as in Kubernetes
		},
		Release: o.release(), Gates: strings.Join(o.libraryGates, ","),
	})
}

// reloadFailed returns a function that logs why a changed file cannot be read.
func reloadFailed(log logr.Logger, flag string) func(error) {
	return func(err error) {
		log.Error(err, "a changed file cannot be read; its last good state counts", "flag", flag)
	}
}

// authorizers makes the authorizers of the modes that this program has itself.
func (o *options) authorizers() map[string]func() (authz.Authorizer, error) {
	return map[string]func() (authz.Authorizer, error){
		"AlwaysAllow": func() (authz.Authorizer, error) { return alwaysAllow{}, nil },
		"AlwaysDeny":  func() (authz.Authorizer, error) { return authz.AlwaysDeny(), nil },
		"RBAC":        func() (authz.Authorizer, error) { return rbac.New(""), nil },
		"Node":        func() (authz.Authorizer, error) { return node.New(""), nil },
	}
}

// alwaysAllow allows everything but anonymous requests, also to users without groups: a review may name
// such a user, who would have the group of the authenticated.
type alwaysAllow struct{}

var _ authz.RuleResolver = alwaysAllow{}

func (alwaysAllow) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if nobody(a.User) {
		return authz.NoOpinion, "", nil
	}
	return authz.Allow, "", nil
}

func (alwaysAllow) Rules(_ context.Context, u authn.User, _ string) (authz.Rules, error) {
	if nobody(u) {
		return authz.Rules{}, nil
	}
	every := []string{"*"}
	return authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: every, APIGroups: every, Resources: every}},
		Paths:     []authz.NonResourceRule{{Verbs: every, NonResourceURLs: every}},
	}, nil
}

// nobody reports whether a user is anonymous, or was never named.
func nobody(u authn.User) bool { return u.IsAnonymous() || u.Name == "" && len(u.Groups) == 0 }

// modes lists them.
func modes() []string { return slices.Sorted(maps.Keys((&options{}).authorizers())) }

// authorize opens the authorizer that the flags name.
func (o *options) authorize(log logr.Logger) (*config.Authorizer, error) {
	return o.authorization.Open(accessflags.Options{
		Types: o.authorizers(), TypeNames: true, Logger: log, ServerID: o.host(),
		Release: o.release(), Gates: strings.Join(o.libraryGates, ","),
	})
}
