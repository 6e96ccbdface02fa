package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// each calls yield with the scopes that count for a user in a namespace: those of the cluster and
// those of the namespace. It stops when yield returns true.
func (x *Index) each(u *authn.User, namespace string, yield func(*scope) bool) bool {
	if x.eachIn(u, "", yield) {
		return true
	}
	return namespace != "" && x.eachIn(u, namespace, yield)
}

func (x *Index) eachIn(u *authn.User, namespace string, yield func(*scope) bool) bool {
	if s := x.scopes.find(scopeKey{name: u.Name, namespace: namespace}); s != nil && yield(s) {
		return true
	}
	for _, group := range u.Groups {
		if s := x.scopes.find(scopeKey{group: true, name: group, namespace: namespace}); s != nil && yield(s) {
			return true
		}
	}
	return false
}

// Authorize allows what a binding grants, and has no opinion about anything else. The reason names
// the binding, the role and the subject. Without a grant, it names the roles that bindings of the
// user name and that do not exist.
//
// A namespaced binding grants nothing outside its namespace, and no paths.
// Source: RBAC-05, RBAC-10.
func (x *Index) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	q, namespace := newQuery(&a), a.Namespace
	if !a.ResourceRequest {
		namespace = ""
	}
	var found *grant
	broken := false
	x.each(&a.User, namespace, func(s *scope) bool {
		found = s.state.Load().find(&q)
		broken = broken || s.broken.Load() > 0
		return found != nil
	})
	switch {
	case found != nil:
		return authz.Allow, found.why(), nil
	case broken:
		missing := x.missing(&a.User, namespace)
		authz.NoteError(ctx, errors.New(missing))
		return authz.NoOpinion, "RBAC: " + missing, nil
	}
	return authz.NoOpinion, "", nil
}

// maxMissing limits how many missing roles a reason names.
const maxMissing = 8

// missing says which roles do not exist, in the words of Kubernetes.
func (x *Index) missing(u *authn.User, namespace string) string {
	var all []string
	x.each(u, namespace, func(s *scope) bool {
		for _, h := range s.state.Load().holdings {
			if h.role.permissions.Load() != nil {
				continue
			}
			plural := "clusterrole"
			if h.role.ref.namespace != "" {
				plural = "role"
			}
			text := fmt.Sprintf("%s.%s %q not found", plural, x.group, h.role.ref.name)
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
			if len(all) == maxMissing {
				return true
			}
		}
		return false
	})
	slices.Sort(all)
	if len(all) == 1 {
		return all[0]
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// Rules lists what a user may do in a namespace, in the cluster and with paths.
func (x *Index) Rules(_ context.Context, u authn.User, namespace string) (authz.Rules, error) {
	var out authz.Rules
	for _, part := range x.held(&u, namespace) {
		for _, r := range part.permissions.rules {
			if len(r.Resources) > 0 {
				out.Resources = append(out.Resources, authz.ResourceRule{
					Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
				})
			}
			if len(r.NonResourceURLs) > 0 && part.cluster {
				out.Paths = append(out.Paths, authz.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
			}
		}
	}
	broken := false
	x.each(&u, namespace, func(s *scope) bool { broken = s.broken.Load() > 0; return broken })
	if broken {
		out.Why = x.missing(&u, namespace)
	}
	return out, nil
}

// held is a role that a user has, in the cluster or in the namespace that was asked about.
type held struct {
	ref         ref
	permissions *permissions
	cluster     bool
}

// held returns the roles of a user, each once, those of the cluster first.
func (x *Index) held(u *authn.User, namespace string) []held {
	var out []held
	seen := map[*role]bool{}
	x.each(u, namespace, func(s *scope) bool {
		for _, h := range s.state.Load().holdings {
			p := h.role.permissions.Load()
			if p == nil || seen[h.role] {
				continue
			}
			seen[h.role] = true
			out = append(out, held{h.role.ref, p, s.key.namespace == ""})
		}
		return false
	})
	slices.SortFunc(out, func(a, b held) int {
		if a.cluster != b.cluster {
			if a.cluster {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.ref.namespace, b.ref.namespace), cmp.Compare(a.ref.name, b.ref.name))
	})
	return out
}

var (
	_ authz.Authorizer   = (*Index)(nil)
	_ authz.RuleResolver = (*Index)(nil)
)
