package flowcontrol

import (
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// Matches reports whether a schema is about a request. Source: APF-04.
func (s *FlowSchemaSpec) Matches(a *authz.Attributes) bool {
	for i := range s.Rules {
		if s.Rules[i].matches(a) {
			return true
		}
	}
	return false
}

// Flow returns what tells the flow of a request from others of the schema.
func (s *FlowSchemaSpec) Flow(a *authz.Attributes) string {
	switch {
	case s.DistinguisherMethod == nil:
		return ""
	case s.DistinguisherMethod.Type == ByUser:
		return a.User.Name
	case s.DistinguisherMethod.Type == ByNamespace:
		return a.Namespace
	}
	return ""
}

func (r *Rule) matches(a *authz.Attributes) bool {
	meant := false
	for i := range r.Subjects {
		if meant = r.Subjects[i].matches(&a.User); meant {
			break
		}
	}
	if !meant { // as most are not
		return false
	}
	if !a.ResourceRequest {
		return slices.ContainsFunc(r.NonResourceRules, func(r NonResourceRule) bool { return r.matches(a) })
	}
	for i := range r.ResourceRules {
		if r.ResourceRules[i].matches(a) {
			return true
		}
	}
	return false
}

func (s *Subject) matches(u *authn.User) bool {
	switch {
	case s.Kind == SubjectUser && s.User != nil:
		return s.User.Name == "*" || s.User.Name == u.Name
	case s.Kind == SubjectGroup && s.Group != nil:
		return s.Group.Name == "*" || slices.Contains(u.Groups, s.Group.Name)
	case s.Kind == SubjectServiceAccount && s.ServiceAccount != nil:
		account, ok := strings.CutPrefix(u.Name, authn.ServiceAccountPrefix)
		namespace, name, _ := strings.Cut(account, ":")
		return ok && namespace == s.ServiceAccount.Namespace && (s.ServiceAccount.Name == "*" || s.ServiceAccount.Name == name)
	}
	return false
}

func (r *ResourceRule) matches(a *authz.Attributes) bool {
	if !has(r.Verbs, a.Verb) || !has(r.APIGroups, a.Group) {
		return false
	}
	if a.Namespace == "" && !r.ClusterScope || a.Namespace != "" && !has(r.Namespaces, a.Namespace) {
		return false
	}
	return slices.ContainsFunc(r.Resources, func(one string) bool {
		if a.Subresource == "" || one == "*" {
			return one == "*" || one == a.Resource
		}
		resource, subresource, _ := strings.Cut(one, "/")
		return resource == a.Resource && subresource == a.Subresource
	})
}

func (r *NonResourceRule) matches(a *authz.Attributes) bool {
	return has(r.Verbs, a.Verb) && slices.ContainsFunc(r.NonResourceURLs, func(one string) bool {
		if one == "*" || one == a.Path {
			return true
		}
		below := strings.TrimSuffix(strings.TrimSuffix(one, "*"), "/") + "/" // as in Kubernetes, what is below a path belongs to it
		return strings.HasPrefix(a.Path, below)
	})
}

// has reports whether a list has a word, or * for all.
func has(list []string, word string) bool {
	return slices.Contains(list, word) || slices.Contains(list, "*")
}
