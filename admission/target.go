package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// Operation is what a write does to the stored object, which can differ from the verb that was
// asked for: a PUT may create, an apply may update.
// Source: READ-12, ADM-10.
type Operation string

// The operations, spelled as in an AdmissionReview.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// bit returns the operation's place in a set of operations, 0 for an unknown one.
func (o Operation) bit() uint8 {
	switch o {
	case Create:
		return 1
	case Update:
		return 2
	case Delete:
		return 4
	case Connect:
		return 8
	}
	return 0
}

// Target is what a plugin knows of a write when it is asked whether it handles it.
type Target struct {
	Operation   Operation
	Resource    meta.GroupVersionResource
	Subresource string // empty for the object itself
	Namespace   string // as in Request
}

// Rule selects writes. An empty list selects everything.
type Rule struct {
	Operations []Operation

	// Groups are API groups; "" is the core group and "*" is every group.
	Groups []string

	// Resources are spelled as in a webhook configuration: "pods" is the object itself, "pods/status"
	// one subresource, "pods/*" all subresources of pods, "*/scale" one subresource of every resource,
	// "*" every resource without its subresources, and "*/*" everything.
	Resources []string
}

// matcher is a Rule ready for use.
type matcher struct {
	operations uint8
	groups     []string // nil: every group
	resources  []resourceName
}

// resourceName is one of Rule.Resources.
type resourceName struct{ name, subresource string }

func (r Rule) compile() (matcher, error) {
	var m matcher
	for _, o := range r.Operations {
		if o.bit() == 0 {
			return m, fmt.Errorf("a rule names the unknown operation %q", o)
		}
		m.operations |= o.bit()
	}
	if m.operations == 0 {
		m.operations = Create.bit() | Update.bit() | Delete.bit() | Connect.bit()
	}
	for _, g := range r.Groups {
		if g != "" && g != "*" && meta.CheckDNSSubdomain(g) != "" {
			return m, fmt.Errorf("a rule names the group %q; write \"apps\", \"\" for the core group, or \"*\", without a version", g)
		}
	}
	if !slices.Contains(r.Groups, "*") {
		m.groups = slices.Clone(r.Groups)
	}
	for _, text := range r.Resources {
		name, subresource, divided := strings.Cut(text, "/")
		if name == "" || divided && subresource == "" || strings.Contains(subresource, "/") {
			return m, fmt.Errorf("a rule names the resource %q; write \"pods\", \"pods/status\" or \"*/*\"", text)
		}
		if name != "*" && meta.CheckDNSSubdomain(name) != "" {
			return m, fmt.Errorf("a rule names the resource %q; write the plural in lower case, such as \"pods\", or \"*\"", text)
		}
		m.resources = append(m.resources, resourceName{name, subresource})
	}
	return m, nil
}

func (m *matcher) matches(t *Target) bool {
	if m.operations&t.Operation.bit() == 0 {
		return false
	}
	if len(m.groups) > 0 && !slices.Contains(m.groups, t.Resource.Group) {
		return false
	}
	if len(m.resources) == 0 {
		return true
	}
	for i := range m.resources {
		r := &m.resources[i]
		if (r.name == "*" || r.name == t.Resource.Resource) && r.covers(t.Subresource) {
			return true
		}
	}
	return false
}

// covers reports whether the name includes the subresource of a write. "pods/*" is every
// subresource but not the object. "*/*" is both, as in Kubernetes.
func (r *resourceName) covers(subresource string) bool {
	if r.subresource == "*" {
		return subresource != "" || r.name == "*"
	}
	return r.subresource == subresource
}

// compile makes the matchers of a plugin's rules, and reports every problem with them.
func compile(rules []Rule) ([]matcher, error) {
	var problems []error
	out := make([]matcher, 0, len(rules))
	for _, r := range rules {
		m, err := r.compile()
		problems = append(problems, err)
		out = append(out, m)
	}
	return out, errors.Join(problems...)
}
