package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/token"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/authz"
)

// access builds authentication and authorization from the flags. It also returns the authorities whose
// client certificates are accepted, or nil.
func (o *options) access(log logr.Logger) ([]kindwright.Option, func() *x509.CertPool, error) {
	var who []authn.Authenticator
	var authorities func() *x509.CertPool
	if o.clientCAFile != "" {
		a, err := certificates.Open(o.clientCAFile, certificates.WithReloadError(reloadFailed(log, "client-ca-file")))
		if err != nil {
			return nil, nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		authorities = a.Authorities
		who = append(who, a)
	}
	if o.tokenFile != "" {
		tokens, err := token.Open(o.tokenFile, token.WithReloadError(reloadFailed(log, "token-auth-file")))
		if err != nil {
			return nil, nil, fmt.Errorf("--token-auth-file: %w", err)
		}
		who = append(who, tokens)
	}
	return []kindwright.Option{
		kindwright.Authenticate(who...),
		kindwright.Authorize(o.authorizers()...),
		kindwright.Access{
			NoAnonymous: !o.anonymous,
			OpenPaths:   []string{"/healthz", "/livez", "/readyz", "/version", "/version/"},
		},
	}, authorities, nil
}

// reloadFailed returns a function that logs why a changed file cannot be read.
func reloadFailed(log logr.Logger, flag string) func(error) {
	return func(err error) {
		log.Error(err, "a changed file cannot be read; its last good state counts", "flag", flag)
	}
}

// authorizers returns the authorizers for the modes on the command line.
func (o *options) authorizers() []authz.Authorizer {
	var out []authz.Authorizer
	for _, mode := range o.modes {
		switch mode {
		case "AlwaysAllow":
			out = append(out, known{everything: true})
		case "AlwaysDeny":
			out = append(out, authz.AlwaysDeny())
		case "RBAC", "Node":
			out = append(out, known{})
		}
	}
	return out
}

// known allows something to authenticated callers: everything, or only the server's documents and
// reviews of themselves. It has no opinion about other requests.
type known struct{ everything bool }

// Authorize implements authz.Authorizer.
func (k known) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if a.User.IsAnonymous() || !a.User.In(authn.GroupAuthenticated) {
		return authz.NoOpinion, "", nil
	}
	if k.everything || isDiscovery(a) || isSelfReview(a) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// isDiscovery reports whether a request reads documents about the server.
func isDiscovery(a authz.Attributes) bool {
	if a.Resource != "" || a.Verb != "get" {
		return false
	}
	for _, p := range []string{"/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"} {
		if a.Path == p || strings.HasPrefix(a.Path, p+"/") {
			return true
		}
	}
	return false
}

// isSelfReview reports whether callers ask about themselves.
func isSelfReview(a authz.Attributes) bool {
	if a.Verb != "create" || a.Subresource != "" {
		return false
	}
	switch a.Group {
	case "authorization.k8s.io":
		return a.Resource == "selfsubjectaccessreviews" || a.Resource == "selfsubjectrulesreviews"
	case "authentication.k8s.io":
		return a.Resource == "selfsubjectreviews"
	}
	return false
}

// Rules lists what Authorize allows, for kubectl auth can-i --list.
func (k known) Rules(_ context.Context, u authn.User, _ string) (authz.Rules, error) {
	if u.IsAnonymous() {
		return authz.Rules{}, nil
	}
	if k.everything {
		every := []string{"*"}
		return authz.Rules{
			Resources: []authz.ResourceRule{{Verbs: every, APIGroups: every, Resources: every}},
			Paths:     []authz.NonResourceRule{{Verbs: every, NonResourceURLs: every}},
		}, nil
	}
	create := []string{"create"}
	return authz.Rules{
		Resources: []authz.ResourceRule{
			{
				Verbs: create, APIGroups: []string{"authorization.k8s.io"},
				Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
			},
			{Verbs: create, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
		},
		Paths: []authz.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{
			"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/healthz/*", "/livez", "/livez/*", "/openapi", "/openapi/*", "/readyz", "/readyz/*", "/version", "/version/*",
		}}},
	}, nil
}

var (
	_ authz.Authorizer   = known{}
	_ authz.RuleResolver = known{}
)
