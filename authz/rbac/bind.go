package rbac

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// DefaultGroupDomain is the domain of Kubernetes' own groups.
const DefaultGroupDomain = "k8s.io"

// Group returns the API group of the kinds for a domain.
func Group(domain string) string { return "rbac.authorization." + domain }

// Authorizer is the authorizer of a server. It is a description until the server binds it, and
// allows nothing before.
type Authorizer struct{ domain string }

// New returns an authorizer for kindwright.Authorize. The domain is that of the server's own groups;
// "" means [DefaultGroupDomain]. The server must serve the four kinds, such as kinds.RBAC.
func New(domain string) *Authorizer {
	if domain == "" {
		domain = DefaultGroupDomain
	}
	return &Authorizer{domain}
}

// Name returns "rbac".
func (*Authorizer) Name() string { return "rbac" }

// Authorize fails: only a server's bound authorizer knows roles.
func (*Authorizer) Authorize(context.Context, authz.Attributes) (authz.Decision, string, error) {
	return authz.Deny, "", fmt.Errorf("%w: rbac is not bound to a server", authz.ErrUnavailable)
}

// Bind returns an index of the server's roles and bindings.
func (z *Authorizer) Bind(b watch.Binding) (authz.Authorizer, error) {
	x := NewIndex(z.domain)
	for _, resource := range []string{"clusterroles", "roles", "clusterrolebindings", "rolebindings"} {
		f := &feed{index: x, role: resource == "clusterroles" || resource == "roles", cluster: strings.HasPrefix(resource, "cluster")}
		if err := b.Observe(meta.GroupResource{Group: x.group, Resource: resource}, f); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// feed tells the index of the objects of one kind.
type feed struct {
	index         *Index
	role, cluster bool
}

// Filled replaces all objects of the kind.
func (f *feed) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	f.index.changeAll(func() {
		present := map[ref]bool{}
		for e := range entries {
			present[refOf(e)] = true
			f.put(e)
		}
		for _, r := range f.known() {
			if !present[r] {
				f.drop(r)
			}
		}
	})
}

// Changed puts or drops one object.
func (f *feed) Changed(prev, next *watch.Entry) {
	f.index.change(func() {
		if next != nil {
			f.put(next)
		} else {
			f.drop(refOf(prev))
		}
	})
}

// known returns the objects of the kind that the index has.
func (f *feed) known() []ref {
	var out []ref
	add := func(r ref) {
		if (r.namespace == "") == f.cluster {
			out = append(out, r)
		}
	}
	if f.role {
		for r := range f.index.roles {
			add(r)
		}
	} else {
		for r := range f.index.bindings {
			add(r)
		}
	}
	return out
}

// put reads an entry. One that cannot be read grants nothing.
func (f *feed) put(e *watch.Entry) {
	data := e.AppendJSON(nil)
	if f.role {
		var body struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Rules           []PolicyRule     `json:"rules"`
			AggregationRule *AggregationRule `json:"aggregationRule"`
		}
		if json.Unmarshal(data, &body) != nil {
			f.drop(refOf(e))
			return
		}
		if r := refOf(e); f.cluster {
			f.index.setClusterRole(r.name, newClusterRole(body.Rules, body.Metadata.Labels, body.AggregationRule))
		} else {
			f.index.setRole(r, compile(body.Rules))
		}
		return
	}
	var body struct {
		Subjects []Subject `json:"subjects"`
		RoleRef  RoleRef   `json:"roleRef"`
	}
	if json.Unmarshal(data, &body) != nil {
		f.drop(refOf(e))
		return
	}
	f.index.setBinding(&binding{ref: refOf(e), role: body.RoleRef, subjects: body.Subjects})
}

func (f *feed) drop(r ref) {
	if f.role {
		f.index.dropRole(r)
	} else {
		f.index.dropBinding(r)
	}
}

// refOf names the object of an entry. The texts are copies, or they would keep the entry in memory.
func refOf(e *watch.Entry) ref {
	facts := e.Facts()
	return ref{string([]byte(facts.Namespace)), string([]byte(facts.Name))}
}

var (
	_ authz.Authorizer                 = (*Authorizer)(nil)
	_ watch.Bindable[authz.Authorizer] = (*Authorizer)(nil)
	_ watch.Observer                   = (*feed)(nil)
)
