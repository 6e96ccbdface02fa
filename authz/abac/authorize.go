package abac

import (
	"context"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// Policies authorizes by policies. It must not be changed while it is in use.
type Policies []Policy

var (
	_ authz.Authorizer   = Policies(nil)
	_ authz.RuleResolver = Policies(nil)
)

// Authorize allows what one of the policies matches, and has no opinion about anything else.
// Source: ABAC-03 to ABAC-05.
func (list Policies) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	for i := range list {
		if list[i].matches(&a) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "No policy matched.", nil
}

func (p *Policy) matches(a *authz.Attributes) bool {
	if !p.isFor(&a.User) || p.Readonly && !readOnly(a.Verb) {
		return false
	}
	if !a.ResourceRequest {
		return p.matchesPath(a.Path)
	}
	return covers(p.Namespace, a.Namespace) && covers(p.Resource, a.Resource) && covers(p.APIGroup, a.Group)
}

func covers(pattern, value string) bool { return pattern == "*" || pattern == value }

func readOnly(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

// isFor reports whether the policy is about a user. An asterisk never stands for an anonymous
// request: "everybody" in a file has always meant everybody with a name.
func (p *Policy) isFor(u *authn.User) bool {
	switch {
	case p.User == "" && p.Group == "":
		return false
	case (p.User == "*" || p.Group == "*") && !u.In(authn.GroupAuthenticated):
		return false
	case p.User != "" && !covers(p.User, u.Name):
		return false
	}
	return p.Group == "" || p.Group == "*" || u.In(p.Group)
}

// Rules lists what the policies allow a user in a namespace.
func (list Policies) Rules(_ context.Context, u authn.User, namespace string) (authz.Rules, error) {
	var out authz.Rules
	for i := range list {
		p := &list[i]
		if !p.isFor(&u) {
			continue
		}
		verbs, methods := []string{"*"}, []string{"*"}
		if p.Readonly {
			verbs, methods = []string{"get", "list", "watch"}, []string{"get"}
		}
		if p.Resource != "" && covers(p.Namespace, namespace) {
			resources := []string{p.Resource}
			if p.Resource != "*" {
				resources = append(resources, p.Resource+"/*")
			}
			out.Resources = append(out.Resources, authz.ResourceRule{Verbs: verbs, APIGroups: []string{p.APIGroup}, Resources: resources})
		}
		if path := p.NonResourcePath; path != "" {
			if strings.HasSuffix(path, "*") {
				path = strings.TrimRight(path, "*") + "*"
			}
			out.Paths = append(out.Paths, authz.NonResourceRule{Verbs: methods, NonResourceURLs: []string{path}})
		}
	}
	return out, nil
}
