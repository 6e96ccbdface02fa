package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	trees "github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Namespace is a scope for object names. It belongs to the core group.
//
// Source: NS-01.
type Namespace struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   NamespaceSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"The finalizers of the namespace."`
	Status NamespaceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"The state of the namespace. Read-only."`
}

// NamespaceSpec lists the finalizers that keep a namespace.
type NamespaceSpec struct {
	Finalizers []string `json:"finalizers,omitempty" protobuf:"bytes,1,rep,name=finalizers" list:"atomic" doc:"What must finish before the namespace can go; changed through the finalize subresource."`
}

// NamespaceStatus is the state of a namespace.
type NamespaceStatus struct {
	Phase      string               `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase" doc:"Active or Terminating." enum:"Active,Terminating"`
	Conditions []NamespaceCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,2,rep,name=conditions" list:"map,key=type" doc:"What delays the deletion of the namespace."`
}

// NamespaceCondition reports the progress of a terminating namespace.
//
// Source: NS-09.
type NamespaceCondition struct {
	Type               string    `json:"type" protobuf:"bytes,1,opt,name=type" doc:"Such as NamespaceContentRemaining."`
	Status             string    `json:"status" protobuf:"bytes,2,opt,name=status" doc:"True, False or Unknown."`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitempty" protobuf:"bytes,4,opt,name=lastTransitionTime" doc:"When the status last changed."`
	Reason             string    `json:"reason,omitempty" protobuf:"bytes,5,opt,name=reason" doc:"One word for programs."`
	Message            string    `json:"message,omitempty" protobuf:"bytes,6,opt,name=message" doc:"A sentence for people."`
}

// The phases of a namespace.
//
// Source: NS-06.
const (
	NamespaceActive      = "Active"
	NamespaceTerminating = "Terminating"
)

// FinalizerKubernetes in spec.finalizers keeps a namespace until its contents are gone.
const FinalizerKubernetes = "kubernetes"

// NamespaceNameLabel holds the name of a namespace, so that label selectors can select by name. The
// server sets it on every namespace.
const NamespaceNameLabel = "kubernetes.io/metadata.name"

// NamespaceOption changes how namespaces are served.
type NamespaceOption func(*namespaces)

// InitialNamespaces replaces the list of namespaces created at startup. The default is default,
// kube-system, kube-public and kube-node-lease.
func InitialNamespaces(names ...string) NamespaceOption {
	return func(n *namespaces) { n.initial = slices.Clone(names) }
}

// ProtectedNamespaces replaces the list of namespaces that cannot be deleted. The default is
// default, kube-system and kube-public.
//
// Source: NS-08.
func ProtectedNamespaces(names ...string) NamespaceOption {
	return func(n *namespaces) { n.protected = slices.Clone(names) }
}

// Namespaces serves the kind Namespace with its life cycle. Objects can then only be created in
// namespaces that exist and are not terminating, and deleting a namespace deletes its contents.
//
// Source: NS-02, NS-07.
func Namespaces(opts ...NamespaceOption) registry.Definition {
	n := &namespaces{
		initial:   []string{"default", "kube-system", "kube-public", "kube-node-lease"},
		protected: []string{"default", "kube-system", "kube-public"},
	}
	for _, o := range opts {
		if o != nil {
			o(n)
		}
	}
	return n
}

// NoNamespaceChecks allows objects in missing or terminating namespaces, and allows protected
// namespaces to be deleted, like kube-apiserver without the NamespaceLifecycle admission plugin.
// Deleting a namespace still deletes its contents, but objects created meanwhile may stay behind.
//
// Source: NS-07.
func NoNamespaceChecks() NamespaceOption { return func(n *namespaces) { n.unchecked = true } }

// NoNamespaceController leaves the removal of namespaces to an external controller, as
// kube-apiserver leaves it to kube-controller-manager. A deleted namespace stays Terminating with
// its contents until the controller removes `kubernetes` from spec.finalizers through the finalize
// subresource.
//
// Objects that the external controller did not delete stay in the store, where nothing can be
// created beside them, until a server with its own controller opens the store.
//
// Source: NS-06.
func NoNamespaceController() NamespaceOption { return func(n *namespaces) { n.unended = true } }

type namespaces struct {
	initial, protected []string
	unchecked          bool
	unended            bool // an external controller removes namespaces
}

var namespaceResource = meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Define implements registry.Definition.
func (n *namespaces) Define(registry.Env) (registry.Bundle, error) {
	for _, name := range slices.Concat(n.initial, n.protected) {
		if why := meta.CheckDNSLabel(name); why != "" {
			return registry.Bundle{}, fmt.Errorf("namespaces: the name %q %s", name, why)
		}
	}
	r, err := n.resource()
	if err != nil {
		return registry.Bundle{}, err
	}
	b := registry.Bundle{Resources: []*registry.Resource{r}, Fork: n.work}
	b.Gate, b.Hooks = n.work()
	return b, nil
}

// work returns the gate and hooks of one server.
func (n *namespaces) work() (admission.NamespaceGate, []registry.Hook) {
	hooks := []registry.Hook{{Name: "start-system-namespaces", Start: n.createInitial}}
	if !n.unended {
		hooks = append(hooks, registry.Hook{Name: "namespace-lifecycle", Run: n.terminate, Leader: true})
	}
	return phaseGate{open: n.unchecked}, hooks
}

func (n *namespaces) resource() (*registry.Resource, error) {
	kind := registry.Kind[Namespace]{
		Version: "v1", Plural: "namespaces", Names: registry.Names{ShortNames: []string{"ns"}},
		Scope: registry.ClusterScoped, Doc: "A namespace is a scope for object names. Deleting it deletes the objects in it.",
		Rules: registry.Rules[Namespace]{
			Name: meta.CheckDNSLabel, Default: defaultNamespace,
			Validate: validateNewNamespace, ValidateUpdate: validateNamespaceUpdate,
			BeforeDelete: n.refuseProtected,
		},
		Writes: registry.WriteRules{NoGeneration: true},

		Status: registry.Status{Metadata: namespaceMetadata()},

		Table: registry.Table{Columns: []openapi.Column{
			{Name: "Name", Type: "string", Format: "name", Description: "The name of the namespace.", Path: []string{"metadata", "name"}},
			{Name: "Status", Type: "string", Description: "Whether the namespace is terminating.", Path: []string{"status", "phase"}},
			{
				Name: "Age", Type: "date", Description: "How long the namespace has existed.",
				Path: []string{"metadata", "creationTimestamp"},
			},
		}},
		Subresources: []registry.Endpoint{registry.Subresource{
			Name: "finalize", Verbs: []string{"update"},
			Merge: mergeFinalize, Fields: finalizeFields(),
		}},
	}
	r, err := kind.Resource()
	if err != nil {
		return nil, err
	}
	r.Hooks.Mark, r.Hooks.Held, r.Hooks.Companions = markTerminating, hasSpecFinalizers, phaseCompanions
	r.Reset, r.ResetFields = resetNamespace, [][]string{{"status"}}
	r.Hooks.Complete = completeNamespace
	r.Blank = registry.Tree{"spec": map[string]any{}, "status": map[string]any{}}
	r.Selectable = []string{"name", "status.phase"}
	r.Computed = map[string]func(registry.Tree) string{"name": nameOf} // older clients select by this field
	return r, nil
}

// defaultNamespace fills in the phase, and the label with the name.
func defaultNamespace(_ context.Context, ns *Namespace) {
	if ns.Status.Phase == "" {
		ns.Status.Phase = NamespaceActive
	}
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

// completeNamespace adds the built-in finalizer to those that a new namespace is created with. Nobody
// owns it unless they sent it.
func completeNamespace(_ context.Context, t, old registry.Tree) (registry.Tree, error) {
	spec, _ := t["spec"].(map[string]any)
	finalizers, _ := spec["finalizers"].([]any)
	if old != nil || slices.Contains(finalizers, any(FinalizerKubernetes)) {
		return t, nil
	}
	out := maps.Clone(t)
	out["spec"] = map[string]any{"finalizers": append(slices.Clone(finalizers), FinalizerKubernetes)}
	return out, nil
}

// resetNamespace protects spec.finalizers and status from ordinary updates. A new namespace is
// active.
func resetNamespace(old, sent registry.Tree) registry.Tree {
	out := maps.Clone(sent)
	if old == nil {
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

// namespaceMetadata lists the metadata that each subresource of a namespace takes.
func namespaceMetadata() []string {
	return []string{"labels", "annotations", "finalizers", "ownerReferences"}
}

// finalizeFields lists what the finalize subresource takes. Clients that force the end of a namespace
// send it there without the finalizers of its spec and, as kube-apiserver lets them, of its metadata.
func finalizeFields() [][]string {
	out := [][]string{{"spec"}}
	for _, field := range namespaceMetadata() {
		out = append(out, []string{"metadata", field})
	}
	return out
}

// mergeFinalize restricts the finalize subresource to spec and metadata.
func mergeFinalize(old, sent registry.Tree) registry.Tree {
	out := maps.Clone(old)
	for _, path := range finalizeFields()[1:] {
		out = trees.Keep(out, sent, path...)
	}
	delete(out, "spec")
	if spec, _ := sent["spec"].(map[string]any); len(spec) > 0 {
		out["spec"] = spec
	}
	return out
}

// validateNamespaceUpdate checks that the phase matches the deletion timestamp and that new
// finalizers are valid. Values that were invalid before are accepted.
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

// checkFinalizers rejects new finalizers that are not qualified names.
func checkFinalizers(now, before []string, f *status.Fields) {
	had := make(map[string]bool, len(before))
	for _, name := range before {
		had[name] = true
	}
	for i, name := range now {
		if had[name] {
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

// systemFinalizers returns the only finalizers without a domain.
func systemFinalizers() []string {
	return []string{FinalizerKubernetes, meta.FinalizerOrphanDependents, meta.FinalizerDeleteDependents}
}

// markTerminating says that a namespace ends. It has no grace period: what is in it takes its own time.
func markTerminating(t registry.Tree) registry.Tree {
	out := trees.Without(maps.Clone(t), "metadata", "deletionGracePeriodSeconds")
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
