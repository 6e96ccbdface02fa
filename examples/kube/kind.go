package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyplugin "github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// A kind is one of Kubernetes' types with what its tags cannot express.
type kind[T any] struct {
	registry.Kind[T]
	cluster *cluster

	// fields can be named by selectors, beside the name and the namespace.
	fields []string

	// reads are further such fields, which an object always has a text for.
	reads map[string]reading

	// fill applies defaults. It runs on every write, so it must not change its own result. asked
	// does the same for values that depend on the user.
	fill  func(*T)
	asked func(context.Context, *T)

	// statusKeeps are the metadata that a write of the status does not change. It changes all
	// others.
	statusKeeps []string

	// unowned are the paths that nobody manages although a path writes them, by subresource; "" is the main path.
	unowned map[string][][]string

	// unenumerated leaves it to the rules to check the values of enumerations.
	unenumerated bool

	// companions are committed together with an object; see registry.Hooks.
	companions func(old, next registry.Tree) ([]storage.Op, error)

	// objects are those of other kinds that are committed together with an object; see registry.Hooks.
	objects func(old, next registry.Tree) ([]registry.Companion, error)
}

// Define implements registry.Definition.
func (k kind[T]) Define(env registry.Env) (registry.Bundle, error) {
	env.Overlay = k.cluster.overlay
	k.Status.Metadata = takenWithStatus(k.statusKeeps)
	k.Selectable = selectableOf[T](k.fields)
	rules, warning := k.Rules.Validate, k.cluster.unenforced(k.Group, k.Plural)
	enumerated := k.cluster.enumerations.in(reflect.TypeFor[T]())
	k.Rules.Validate = func(ctx context.Context, obj *T, f *status.Fields) {
		if warning != "" {
			registry.Warn(ctx, warning)
		}
		if !k.unenumerated {
			enumerated.check(reflect.ValueOf(obj).Elem(), f)
		}
		if k.Group == admissionv1.GroupName {
			k.cluster.checkStatic(ctx, any(obj), f)
		}
		if rules != nil {
			rules(ctx, obj, f)
		}
	}
	warned(&k.Rules)
	if source, _ := podsOf(any(new(T))); source.spec != nil || reflect.TypeFor[T]() == reflect.TypeFor[corev1.ReplicationController]() {
		k.Rules.Complete = ungated(k.cluster, k.Rules.Complete)
	}
	b, err := k.Kind.Define(env)
	if err != nil {
		return b, err
	}
	k.limitOwners(b.Resources[0])
	k.addReads(b.Resources[0])
	return b, k.asWritten(b.Resources[0])
}

// limitOwners sets of what nobody becomes the manager.
func (k kind[T]) limitOwners(r *registry.Resource) {
	r.Unowned = k.unowned[""]
	for i := range r.Subresources {
		s := &r.Subresources[i]
		s.Unowned = append(s.Unowned, k.unowned[s.Name]...)
	}
}

// reading reads a field for selectors from a stored object. It runs several times for each write.
type reading func(t registry.Tree) string

// truthAt reads a boolean, which may be absent.
func truthAt(path ...string) reading {
	return func(t registry.Tree) string { return strconv.FormatBool(tree.At(t, path...) == true) }
}

// textAt reads a text, which may be absent.
func textAt(path ...string) reading {
	return func(t registry.Tree) string { return word(tree.At(t, path...)) }
}

// numberAt reads a whole number, which may be absent.
func numberAt(path ...string) reading {
	return func(t registry.Tree) string {
		n, _ := tree.At(t, path...).(int64)
		return strconv.FormatInt(n, 10)
	}
}

func (k kind[T]) addReads(r *registry.Resource) {
	for _, field := range slices.Sorted(maps.Keys(k.reads)) {
		r.Selectable = append(r.Selectable, field)
		if r.Computed == nil {
			r.Computed = map[string]func(registry.Tree) string{}
		}
		r.Computed[field] = k.reads[field]
	}
}

// staticSuffix ends the names of policies and webhooks that come from files.
const staticSuffix = ".static.k8s.io"

// checkStatic rejects new objects with a name that is kept for those of files, or warns of the name.
func (c *cluster) checkStatic(ctx context.Context, obj any, f *status.Fields) {
	o, ok := obj.(metav1.Object)
	if !ok || !strings.HasSuffix(o.GetName(), staticSuffix) {
		return
	}
	why := fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", staticSuffix)
	switch {
	case !c.StaticNames:
		registry.Warn(ctx, "metadata.name: "+why)
	case o.GetResourceVersion() == "": // new
		f.At("metadata", "name").Invalid(o.GetName(), why)
	}
}

// unenforced returns the warning for objects that protect a cluster elsewhere and have no effect
// here, or "".
func (c *cluster) unenforced(group, plural string) string {
	what := map[string]string{
		"admissionregistration.k8s.io": "webhooks and admission policies",
	}[group]
	if group == flowcontrolv1.GroupName && !c.LevelsCount {
		what = "flow schemas and priority levels"
	}
	if group == "" && plural == "limitranges" && c.without(LimitRangerName) {
		what = "limits"
	}
	if group == "" && plural == "resourcequotas" && c.without(ResourceQuotaName) {
		what = "quotas"
	}
	if group == rbacv1.GroupName && !c.RolesCount {
		what = "roles"
	}
	for prefix, plugin := range map[string]string{
		"validatingadmissionpolic": policyplugin.Name, "mutatingadmissionpolic": policyplugin.MutatingName,
		"validatingwebhook": webhook.ValidatingName, "mutatingwebhook": webhook.MutatingName,
	} {
		if strings.HasPrefix(plural, prefix) && !c.without(plugin) {
			what = ""
		}
	}
	if what == "" || !c.WarnUnenforced {
		return ""
	}
	return plural + ": this server stores " + what + ", and does not enforce them"
}

// everyMetadata are the metadata fields that a client may change.
func everyMetadata() []string {
	return []string{"labels", "annotations", "finalizers", "ownerReferences"}
}

// takenWithStatus returns the metadata that a write of the status may change: all but a few.
func takenWithStatus(but []string) []string {
	return slices.DeleteFunc(everyMetadata(), func(field string) bool { return slices.Contains(but, field) })
}

// asWritten makes stored objects hold the empty fields that clients with Go types send.
func (k kind[T]) asWritten(r *registry.Resource) error {
	empties := emptiesOf(reflect.TypeFor[T](), map[reflect.Type]*empties{})
	r.Hooks.Companions, r.Hooks.Objects = k.companions, k.objects
	r.Hooks.Default = func(ctx context.Context, t registry.Tree) (registry.Tree, error) { return k.settle(ctx, t, empties) }
	empty, err := treeOf(new(T), empties)
	if err != nil {
		return err
	}
	r.Blank = maps.Clone(empty)
	delete(r.Blank, "metadata")
	if r.Reset == nil || empty["status"] == nil {
		return nil
	}
	reset := r.Reset
	r.Reset = func(old, sent registry.Tree) registry.Tree {
		out := reset(old, sent)
		if _, has := out["status"]; !has {
			out = maps.Clone(out)
			out["status"] = empty["status"]
		}
		return out
	}
	return nil
}

// decode decodes an object into a Go type, without its managed fields: no rule here looks at them, and
// they are often longer than the rest.
func decode[T any](t registry.Tree) (*T, error) {
	obj := new(T)
	if err := json.FromTree(tree.Without(t, "metadata", "managedFields"), obj); err != nil {
		return nil, fmt.Errorf("read as %s: %w", reflect.TypeFor[T](), err)
	}
	return obj, nil
}

// settle decodes an object into T and encodes it again. Kubernetes' types write some empty fields,
// such as the resources of a container, and every typed client sends them back. An object that has
// them from the beginning does not change when it comes back.
func (k kind[T]) settle(ctx context.Context, t registry.Tree, empties *empties) (registry.Tree, error) {
	obj, err := decode[T](t)
	if err != nil {
		return nil, err
	}
	if k.fill != nil {
		k.fill(obj)
	}
	if k.asked != nil {
		k.asked(ctx, obj)
	}
	out, err := treeOf(obj, empties)
	if err != nil {
		return nil, err
	}
	return withMetadata(out, t), nil
}

// treeOf encodes an object of a Go type, which has these empties, as a tree.
func treeOf[T any](obj *T, empties *empties) (registry.Tree, error) {
	empties.fill(reflect.ValueOf(obj).Elem())
	v, err := json.TreeOf(obj)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", obj, err)
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("write %T: it is no JSON object", obj)
	}
	return t, nil
}

// withMetadata returns t with the metadata of another tree. The library manages metadata, except
// for what kinds set there.
func withMetadata(t, of registry.Tree) registry.Tree {
	out := maps.Clone(t)
	before, _ := of["metadata"].(map[string]any)
	now, _ := t["metadata"].(map[string]any)
	metadata := maps.Clone(before)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if v := now[field]; v != nil && !json.Equal(v, before[field]) {
			metadata[field] = v
		}
	}
	out["metadata"] = metadata
	return out
}
