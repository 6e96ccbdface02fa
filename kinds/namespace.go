package kinds

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Namespace is a place for names, of the core group (NS-01).
type Namespace struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   NamespaceSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"How the namespace is kept."`
	Status NamespaceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Where the namespace is in its life. Read-only."`
}

// NamespaceSpec holds what keeps a namespace.
type NamespaceSpec struct {
	Finalizers []string `json:"finalizers,omitempty" protobuf:"bytes,1,rep,name=finalizers" list:"atomic" doc:"What must be done before the namespace can go; changed through the finalize subresource."`
}

// NamespaceStatus is the state of a namespace.
type NamespaceStatus struct {
	Phase      string               `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase" doc:"Active or Terminating." enum:"Active,Terminating"`
	Conditions []NamespaceCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,2,rep,name=conditions" list:"map,key=type" doc:"What stands in the way of the namespace's end."`
}

// NamespaceCondition says one thing about the end of a namespace (NS-09).
type NamespaceCondition struct {
	Type               string    `json:"type" protobuf:"bytes,1,opt,name=type" doc:"Such as NamespaceContentRemaining."`
	Status             string    `json:"status" protobuf:"bytes,2,opt,name=status" doc:"True, False or Unknown."`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitempty" protobuf:"bytes,4,opt,name=lastTransitionTime" doc:"When the status last changed."`
	Reason             string    `json:"reason,omitempty" protobuf:"bytes,5,opt,name=reason" doc:"One word for programs."`
	Message            string    `json:"message,omitempty" protobuf:"bytes,6,opt,name=message" doc:"A sentence for people."`
}

// The phases of a namespace (NS-06).
const (
	NamespaceActive      = "Active"
	NamespaceTerminating = "Terminating"
)

// FinalizerKubernetes in spec.finalizers keeps a namespace until its content is gone.
const FinalizerKubernetes = "kubernetes"

// NamespaceNameLabel is on every namespace, with its name, so that selectors can name namespaces.
const NamespaceNameLabel = "kubernetes.io/metadata.name"

// NamespaceOption changes how namespaces are served.
type NamespaceOption func(*namespaces)

// InitialNamespaces replaces the list of namespaces that are made at start. Default: default, kube-system, kube-public
// and kube-node-lease.
func InitialNamespaces(names ...string) NamespaceOption {
	return func(n *namespaces) { n.initial = slices.Clone(names) }
}

// ProtectedNamespaces replaces the list of namespaces that cannot be deleted (NS-08). Default: default, kube-system and
// kube-public.
func ProtectedNamespaces(names ...string) NamespaceOption {
	return func(n *namespaces) { n.protected = slices.Clone(names) }
}

// Namespaces serves the kind Namespace with its life cycle. Objects of namespaced kinds can then be created only in
// namespaces that exist and are not ending (NS-07), and deleting a namespace deletes what is in it (NS-02).
func Namespaces(opts ...NamespaceOption) registry.Definition {
	n := &namespaces{
		initial:   []string{"default", "kube-system", "kube-public", "kube-node-lease"},
		protected: []string{"default", "kube-system", "kube-public"},
	}
	for _, o := range opts {
		o(n)
	}
	return n
}

// NoNamespaceChecks lets objects be created in namespaces that do not exist or are ending, and namespaces be deleted that are
// protected (NS-07): what kube-apiserver does without its admission plugin NamespaceLifecycle. Namespaces still end as they
// do, and what is created in one meanwhile may stay behind.
func NoNamespaceChecks() NamespaceOption { return func(n *namespaces) { n.unchecked = true } }

// NoNamespaceController leaves the end of namespaces to somebody else, as kube-apiserver leaves it to kube-controller-manager: a
// namespace that is deleted is Terminating, with all that is in it, until somebody takes `kubernetes` off spec.finalizers through
// the subresource finalize (NS-06). What is in it then stays, out of the reach of those who create, until a server with a controller is
// started on the store.
func NoNamespaceController() NamespaceOption { return func(n *namespaces) { n.unended = true } }

type namespaces struct {
	initial, protected []string
	unchecked          bool
	unended            bool // nobody empties and removes what is being deleted
}

var namespaceResource = meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Define makes it a registry.Definition.
func (n *namespaces) Define(registry.Env) (registry.Bundle, error) {
	r, err := n.resource()
	if err != nil {
		return registry.Bundle{}, err
	}
	b := registry.Bundle{Resources: []*registry.Resource{r}, Fork: n.work}
	b.Gate, b.Hooks = n.work()
	return b, nil
}

// work is what one server does about namespaces.
func (n *namespaces) work() (registry.NamespaceGate, []registry.Hook) {
	hooks := []registry.Hook{{Name: "start-system-namespaces", Start: n.createInitial}}
	if !n.unended {
		hooks = append(hooks, registry.Hook{Name: "namespace-lifecycle", Run: n.terminate})
	}
	return phaseGate{open: n.unchecked}, hooks
}

func (n *namespaces) resource() (*registry.Resource, error) {
	kind := registry.Kind[Namespace]{
		Version: "v1", Plural: "namespaces", Names: registry.Names{ShortNames: []string{"ns"}}, Scope: registry.ClusterScoped, Doc: "A namespace is a place for the names of objects, which go when it is deleted.",
		Rules:  registry.Rules[Namespace]{Name: meta.CheckDNSLabel, Default: defaultNamespace, Validate: validateNewNamespace, ValidateUpdate: validateNamespaceUpdate, BeforeDelete: n.refuseProtected},
		Writes: registry.WriteRules{NoGeneration: true},

		Status: registry.Status{Metadata: []string{"labels", "annotations", "finalizers", "ownerReferences"}},

		Table: registry.Table{Columns: []openapi.Column{
			{Name: "Name", Type: "string", Format: "name", Description: "The name of the namespace.", Path: []string{"metadata", "name"}},
			{Name: "Status", Type: "string", Description: "Whether the namespace is ending.", Path: []string{"status", "phase"}},
			{Name: "Age", Type: "date", Description: "How long the namespace has existed.", Path: []string{"metadata", "creationTimestamp"}},
		}},
		Subresources: []registry.Endpoint{registry.Subresource{Name: "finalize", Verbs: []string{"update"}, Merge: mergeFinalize, Fields: [][]string{{"spec"}}}},
	}
	r, err := kind.Resource()
	if err != nil {
		return nil, err
	}
	r.Hooks.Mark, r.Hooks.Held, r.Hooks.Companions = markTerminating, hasSpecFinalizers, phaseCompanions
	r.Reset, r.ResetFields = resetNamespace, [][]string{{"spec"}, {"status"}}
	r.Selectable = []string{"name", "status.phase"}
	r.Computed = map[string]func(registry.Tree) string{"name": nameOf} // clients of old ask so
	return r, nil
}

func defaultNamespace(_ context.Context, ns *Namespace) {
	if ns.Name == "" || ns.Labels[NamespaceNameLabel] == ns.Name {
		return
	}
	labels := maps.Clone(ns.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[NamespaceNameLabel] = ns.Name
	ns.Labels = labels
}

// resetNamespace keeps spec.finalizers and status on the main path; a new namespace is active and held by the built-in
// finalizer, beside those it is created with.
func resetNamespace(old, sent registry.Tree) registry.Tree {
	out := maps.Clone(sent)
	if old == nil {
		spec, _ := sent["spec"].(map[string]any)
		finalizers, _ := spec["finalizers"].([]any)
		if !slices.Contains(finalizers, any(FinalizerKubernetes)) {
			finalizers = append(slices.Clone(finalizers), FinalizerKubernetes)
		}
		out["spec"] = map[string]any{"finalizers": finalizers}
		out["status"] = map[string]any{"phase": NamespaceActive}
		return out
	}
	for _, field := range []string{"spec", "status"} {
		delete(out, field)
		if v, ok := old[field]; ok {
			out[field] = v
		}
	}
	return out
}

// mergeFinalize lets the finalize subresource change spec.finalizers alone.
func mergeFinalize(old, sent registry.Tree) registry.Tree {
	out := maps.Clone(old)
	delete(out, "spec")
	if spec, _ := sent["spec"].(map[string]any); len(spec) > 0 {
		out["spec"] = spec
	}
	return out
}

// validateNamespaceUpdate sees to it that the phase tells the truth, which is whether the namespace is being deleted, and
// that finalizers have names that somebody can own. What was otherwise before stays as it is.
func validateNamespaceUpdate(_ context.Context, ns, old *Namespace, f *status.Fields) {
	if phase := ns.Status.Phase; phase != old.Status.Phase {
		switch ending := ns.DeletionTimestamp != nil; {
		case ending && phase != NamespaceTerminating:
			f.At("status", "phase").Invalid(phase, "must be Terminating: the namespace is being deleted")
		case !ending && phase != NamespaceActive:
			f.At("status", "phase").Invalid(phase, "must be Active: the namespace is not being deleted")
		}
	}
	checkFinalizers(ns.Spec.Finalizers, old.Spec.Finalizers, f)
}

func validateNewNamespace(_ context.Context, ns *Namespace, f *status.Fields) {
	if ns.ResourceVersion == "" {
		checkFinalizers(ns.Spec.Finalizers, nil, f)
	}
}

// checkFinalizers sees to it that what holds a namespace has a name that somebody can own.
func checkFinalizers(now, before []string, f *status.Fields) {
	for i, name := range now {
		if slices.Contains(before, name) {
			continue
		}
		at := f.At("spec", "finalizers").Index(i)
		if why := meta.CheckQualifiedName(name); why != "" {
			at.Invalid(name, why)
		} else if !strings.Contains(name, "/") && !slices.Contains(systemFinalizers(), name) {
			at.Invalid(name, "must be a name with a domain, such as example.dev/hold")
		}
	}
}

// systemFinalizers are those without a domain in their names.
func systemFinalizers() []string {
	return []string{FinalizerKubernetes, registry.FinalizerOrphan, registry.FinalizerForeground}
}

func markTerminating(t registry.Tree) registry.Tree {
	out := maps.Clone(t)
	state, _ := t["status"].(map[string]any)
	state = maps.Clone(state)
	if state == nil {
		state = map[string]any{}
	}
	state["phase"] = NamespaceTerminating
	out["status"] = state
	return out
}

func hasSpecFinalizers(t registry.Tree) bool {
	spec, _ := t["spec"].(map[string]any)
	held, _ := spec["finalizers"].([]any)
	return len(held) > 0
}

func (n *namespaces) refuseProtected(_ context.Context, ns *Namespace) error {
	if !n.unchecked && slices.Contains(n.protected, ns.Name) {
		return status.Forbidden(namespaceResource.GroupResource(), ns.Name, "this namespace may not be deleted")
	}
	return nil
}
