package main

import (
	"context"
	"crypto/x509"
	"errors"
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
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/accessflags"
	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/internal/certfile"
)

// authorities are those of client certificates, as their files say them.
type authorities struct {
	users, proxies *certificates.Authenticator // nil without a flag
}

// errShared is why two files cannot be used together (A3).
var errShared = errors.New("--requestheader-client-ca-file and --client-ca-file have an authority in common, so every user could be a proxy; give --requestheader-allowed-names")

// authorities opens the files of authorities. If every certificate of the one for proxies is that of a
// proxy, the other one must not have an authority in common with it, now or later.
func (o *options) authorities(log logr.Logger) (*authorities, error) {
	var apart certfile.Apart
	var users, proxies certfile.Rule
	if len(o.proxy.names) == 0 {
		users, proxies = apart.Rule(false, errShared), apart.Rule(true, errShared)
	}
	a := &authorities{}
	var err error
	if a.proxies, err = o.proxy.open(log, proxies); err != nil {
		return nil, err
	}
	if o.clientCAFile != "" {
		a.users, err = certificates.Open(o.clientCAFile, certificates.WithRule(users), certificates.WithReloadError(reloadFailed(log, "client-ca-file")))
		if err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	return a, nil
}

// pool returns the function of the authorities that a handshake names, or nil.
func (a *authorities) pool(log logr.Logger, o *options) (func() *x509.CertPool, error) {
	switch {
	case a.users == nil:
		return nil, nil
	case a.proxies == nil:
		return a.users.Authorities, nil
	}
	both, err := certfile.OpenAuthorities(reloadFailed(log, "client-ca-file"), nil, o.clientCAFile, o.proxy.caFile)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file and --requestheader-client-ca-file: %w", err)
	}
	return both.Pool, nil
}

// access builds authentication from the flags.
func (o *options) access(log logr.Logger, accounts *serviceaccount.Tokens, signed *authnflags.Authentication, from *authorities) ([]kindwright.Option, error) {
	var who []authn.Authenticator
	var checks []health.Check
	proxy, err := o.proxy.authenticator(from.proxies)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		who = append(who, proxy) // before the users' own certificates, as in Kubernetes
		checks = append(checks, fileCheck("requestheader-client-ca-file", from.proxies.Healthy))
	}
	if from.users != nil {
		who = append(who, from.users)
		checks = append(checks, fileCheck("client-ca-file", from.users.Healthy))
	}
	if o.tokenFile != "" {
		tokens, err := token.Open(o.tokenFile, token.WithReloadError(reloadFailed(log, "token-auth-file")))
		if err != nil {
			return nil, fmt.Errorf("--token-auth-file: %w", err)
		}
		who = append(who, tokens)
		checks = append(checks, fileCheck("token-auth-file", tokens.Healthy))
	}
	if accounts != nil {
		who = append(who, accounts)
		checks = append(checks, o.accounts.Checks()...)
	}
	if o.bootstrap {
		who = append(who, bootstrap.New())
	}
	who = append(who, signed.Authenticators()...)
	hook, err := o.tokenWebhook.Open(log, o.tunnels.selector, o.accounts.Audiences()...)
	if err != nil {
		return nil, err
	}
	if hook != nil {
		who = append(who, hook) // last: it knows nothing by itself
	}
	return []kindwright.Option{
		kindwright.Authenticate(who...),
		kindwright.Access{
			NoAnonymous: signed.NoAnonymous,
			Audiences:   o.accounts.Audiences(),
			OpenPaths:   o.openPaths(),
		},
		kindwright.CheckHealth(signed.Health()),
		kindwright.CheckHealth(health.Health, checks...),
		kindwright.Before("body", o.accounts.Documents(accounts, log, o.externalAddress())),
	}, nil
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
	issuers := jwt.Options{
		TakenIssuers: o.accounts.Issuers(), Audiences: o.accounts.Audiences(), Logger: log, ServerID: o.host(),
		UnverifiedEmail: true, OptionalIssuers: true, // as in Kubernetes
	}
	if o.features[gateIssuerEgress].on {
		issuers.Egress = o.tunnels.selector
	}
	return o.authn.Open(authnflags.Options{
		Options: issuers,
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
		"Node":        func() (authz.Authorizer, error) { return node.New("", o.nodeRights()...), nil },
	}
}

// nodeRights are what features give nodes.
func (o *options) nodeRights() (out []node.Option) {
	if o.features[gateTrustBundles].on {
		out = append(out, node.TrustBundles())
	}
	if o.features[gatePodCertificates].on {
		out = append(out, node.PodCertificates())
	}
	return out
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
		Types: o.authorizers(), TypeNames: true, Egress: o.tunnels.selector, Logger: log, ServerID: o.host(),
		Release: o.release(), Gates: strings.Join(o.libraryGates, ","),
	})
}
