package match

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
)

// Resources says which requests are matched: those that a rule selects, no exclusion does, and the
// selectors match. Without rules, every request is selected.
// Source: POL-01.
type Resources struct {
	NamespaceSelector    *meta.LabelSelector `json:"namespaceSelector,omitempty" protobuf:"bytes,1,opt,name=namespaceSelector" doc:"The labels of the namespaces of the objects, or of the object if it is a namespace. Other cluster-scoped objects always match."`
	ObjectSelector       *meta.LabelSelector `json:"objectSelector,omitempty" protobuf:"bytes,2,opt,name=objectSelector" doc:"The labels of the objects. An update matches by the labels before or after."`
	ResourceRules        []NamedRule         `json:"resourceRules,omitempty" protobuf:"bytes,3,rep,name=resourceRules" list:"atomic" doc:"Which operations on which resources are matched."`
	ExcludeResourceRules []NamedRule         `json:"excludeResourceRules,omitempty" protobuf:"bytes,4,rep,name=excludeResourceRules" list:"atomic" doc:"Which of them are not."`
	MatchPolicy          *string             `json:"matchPolicy,omitempty" protobuf:"bytes,7,opt,name=matchPolicy,casttype=MatchPolicyType" doc:"Exact matches the versions that the rules name; Equivalent, the default, also other versions of the same objects."`
}

// NamedRule is a rule for some objects of a resource, or for all of them.
type NamedRule struct {
	ResourceNames []string `json:"resourceNames,omitempty" protobuf:"bytes,1,rep,name=resourceNames" list:"atomic" doc:"The names of the objects; empty for all."`

	RuleWithOperations `json:",inline" protobuf:"bytes,2,opt,name=ruleWithOperations"`
}

// RuleWithOperations selects operations on resources.
type RuleWithOperations struct {
	Operations []string `json:"operations,omitempty" protobuf:"bytes,1,rep,name=operations,casttype=OperationType" list:"atomic" doc:"CREATE, UPDATE, DELETE, CONNECT, or * for all."`

	Rule `json:",inline" protobuf:"bytes,2,opt,name=rule"`
}

// Rule selects resources. In each list, * selects everything.
type Rule struct {
	APIGroups   []string `json:"apiGroups,omitempty" protobuf:"bytes,1,rep,name=apiGroups" list:"atomic" doc:"The API groups."`
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,2,rep,name=apiVersions" list:"atomic" doc:"The versions of the groups."`
	Resources   []string `json:"resources,omitempty" protobuf:"bytes,3,rep,name=resources" list:"atomic" doc:"pods, pods/log, pods/*, */scale, * for all without their subresources, */* for everything."`
	Scope       *string  `json:"scope,omitempty" protobuf:"bytes,4,opt,name=scope,casttype=ScopeType" doc:"Cluster, Namespaced or *."`
}

// The values of MatchPolicy.
const (
	Exact      = "Exact"
	Equivalent = "Equivalent"
)

// The values of Scope.
const (
	ClusterScope    = "Cluster"
	NamespacedScope = "Namespaced"
	AllScopes       = "*"
)

// Default fills in what may be left out.
func (m *Resources) Default() {
	if m == nil {
		return
	}
	point(&m.MatchPolicy, Equivalent)
	point(&m.NamespaceSelector, meta.LabelSelector{})
	point(&m.ObjectSelector, meta.LabelSelector{})
	for _, rules := range [][]NamedRule{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			point(&rules[i].Scope, AllScopes)
		}
	}
}

func point[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

// Matcher is a Resources ready for use. It is immutable.
type Matcher struct {
	namespaces, objects meta.Selector
	rules, exclude      []rule
	equivalent          bool
}

// rule is a NamedRule ready for use.
type rule struct {
	NamedRule
	resources []resourceName
}

// resourceName is one of Rule.Resources.
type resourceName struct{ name, subresource string }

// Compile returns the matcher of m. It fails if a selector is invalid.
func Compile(m *Resources) (*Matcher, error) {
	out := &Matcher{
		rules: compileRules(m.ResourceRules), exclude: compileRules(m.ExcludeResourceRules),
		equivalent: m.MatchPolicy != nil && *m.MatchPolicy == Equivalent,
	}
	for _, s := range []struct {
		to   *meta.Selector
		from *meta.LabelSelector
		name string
	}{{&out.namespaces, m.NamespaceSelector, "namespace"}, {&out.objects, m.ObjectSelector, "object"}} {
		if s.from == nil {
			s.from = &meta.LabelSelector{} // everything
		}
		var err error
		if *s.to, err = meta.SelectorFrom(s.from); err != nil {
			return nil, fmt.Errorf("%s selector: %w", s.name, err)
		}
	}
	return out, nil
}

func compileRules(rules []NamedRule) []rule {
	out := make([]rule, len(rules))
	for i, r := range rules {
		out[i].NamedRule = r
		for _, text := range r.Resources {
			name, subresource, _ := strings.Cut(text, "/")
			out[i].resources = append(out[i].resources, resourceName{name, subresource})
		}
	}
	return out
}

// Names returns the plural names of the resources that the rules are about. all reports that they are
// about every resource.
func (m *Matcher) Names() (names []string, all bool) {
	if len(m.rules) == 0 {
		return nil, true
	}
	for _, r := range m.rules {
		for _, n := range r.resources {
			if n.name == "*" {
				return nil, true
			}
			if !slices.Contains(names, n.name) {
				names = append(names, n.name)
			}
		}
	}
	return names, false
}

// Match reports whether a request is matched, and in which form its objects are to be shown. An error
// says that the request is selected by the rules, and that something about it is unknown.
func (m *Matcher) Match(ctx context.Context, r *admission.Request) (as admission.Form, ok bool, err error) {
	if !m.objects.Empty() {
		now, before := r.Labels()
		if !(labelled(r.Object) && m.objects.Matches(now)) && !(labelled(r.OldObject) && m.objects.Matches(before)) {
			return as, false, nil
		}
	}
	if as, ok = m.ruled(r); !ok || m.namespaces.Empty() || !r.HasNamespace() {
		return as, ok, nil
	}
	labels, err := r.NamespaceLabels(ctx)
	if err != nil {
		return as, false, err
	}
	return as, m.namespaces.Matches(labels), nil
}

// ruled returns the form in which the rules select a request, whatever its objects are.
func (m *Matcher) ruled(r *admission.Request) (as admission.Form, ok bool) {
	if _, excluded := m.selects(m.exclude, r); excluded {
		return as, false
	}
	if len(m.rules) == 0 {
		return admission.Form{Resource: r.Resource, Kind: r.Kind}, true
	}
	return m.selects(m.rules, r)
}

// Concerns reports whether the rules select a request. It does not look at its objects, and the request
// may have none yet.
func (m *Matcher) Concerns(r *admission.Request) bool {
	_, ok := m.ruled(r)
	return ok
}

// labelled reports whether an object has labels that a selector can be about, or could have them. The options of a
// connection cannot: as in Kubernetes, no selector matches them.
func labelled(object map[string]any) bool {
	_, ok := object["metadata"].(map[string]any)
	return ok
}

// selects returns the form in which one of the rules selects a request: as it was asked, if one selects
// that, or an equivalent one.
func (m *Matcher) selects(rules []rule, r *admission.Request) (admission.Form, bool) {
	own := admission.Form{Resource: r.Resource, Kind: r.Kind}
	for i := range rules {
		if rules[i].selects(r, own.Resource) {
			return own, true
		}
	}
	if !m.equivalent || r.Server == nil || !slices.ContainsFunc(rules, func(one rule) bool { return one.operation(r.Operation) }) {
		return own, false
	}
	forms := r.Server.Forms(r.Resource)
	if len(forms) < 2 {
		return own, false
	}
	for i := range rules {
		for _, f := range forms {
			if f.Resource == r.Resource || !rules[i].selects(r, f.Resource) {
				continue
			}
			if r.Subresource != "" && r.Subresource != "status" {
				f.Kind = r.Kind // the document of a subresource is the same in every form
			}
			return f, true
		}
	}
	return own, false
}

func (r *rule) selects(of *admission.Request, as meta.GroupVersionResource) bool {
	return r.operation(of.Operation) && has(r.APIGroups, as.Group) && has(r.APIVersions, as.Version) &&
		r.resource(as.Resource, of.Subresource) && r.scope(of, as) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, of.Name))
}

func (r *rule) operation(o admission.Operation) bool { return has(r.Operations, string(o)) }

func has(list []string, word string) bool {
	return slices.Contains(list, word) || slices.Contains(list, "*")
}

func (r *rule) resource(name, subresource string) bool {
	for _, n := range r.resources {
		if (n.name == "*" || n.name == name) && (n.subresource == "*" || n.subresource == subresource) {
			return true
		}
	}
	return false
}

// scope counts a Namespace as cluster-scoped, although it is its own namespace.
func (r *rule) scope(of *admission.Request, as meta.GroupVersionResource) bool {
	if r.Scope == nil || *r.Scope == AllScopes {
		return true
	}
	return (of.Namespace == "" || isNamespaces(as)) == (*r.Scope == ClusterScope)
}

// isNamespaces tells the one cluster-scoped resource that selectors of namespaces are about. One
// whose name the server has yet to generate has no namespace.
func isNamespaces(r meta.GroupVersionResource) bool {
	return r == meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}
