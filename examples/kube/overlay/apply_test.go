package overlay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// merged are kinds whose objects many managers write to, and the lists by which they are known.
var merged = map[schema.GroupVersionKind][]string{
	{Version: "v1", Kind: "Pod"}: {
		"spec.containers", "spec.containers.ports", "spec.containers.env", "spec.containers.volumeMounts", "spec.volumes", "spec.tolerations", "spec.imagePullSecrets",
		"spec.hostAliases", "spec.topologySpreadConstraints", "spec.initContainers", "spec.schedulingGates", "spec.resourceClaims", "spec.containers.args",
	},
	{Group: "apps", Version: "v1", Kind: "Deployment"}: {
		"spec.template.spec.containers", "spec.template.spec.containers.ports", "spec.template.spec.containers.env", "spec.template.spec.volumes", "spec.selector",
	},
	{Version: "v1", Kind: "Service"}: {"spec.ports", "spec.selector", "spec.clusterIPs", "spec.ipFamilies", "spec.externalIPs"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}: {
		"spec.template.spec.containers", "spec.template.spec.containers.ports", "spec.volumeClaimTemplates", "spec.template.spec.volumes",
	},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}: {"spec.rules", "spec.tls", "spec.defaultBackend"},
}

// Objects, owners and conflicts are those of kube-apiserver's field manager with the published schemas, after each of many
// random writes by four managers: ports, containers, volumes and the like merge by the published keys.
func TestSSA_KubernetesKindsMergeAsPublished(t *testing.T) {
	all := schemas(t)
	types, err := managedfields.NewTypeConverter(models(t), false)
	require.NoError(t, err)
	for gvk, lists := range merged {
		t.Run(gvk.Kind, func(t *testing.T) {
			m := manager{t: t, gvk: gvk, schema: all[gvk], lists: lists}
			m.ours, err = apply.New([]apply.Version{{APIVersion: gvk.GroupVersion().String(), Schema: all[gvk]}}, nil)
			require.NoError(t, err)
			m.theirs, err = managedfields.NewDefaultCRDFieldManager(types, asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), "", nil)
			require.NoError(t, err)
			const enough = 100
			done := 0
			for seed := uint64(0); done < enough && seed < 40; seed++ {
				done += m.play(rand.New(rand.NewPCG(seed, 3)), 8)
			}
			require.GreaterOrEqual(t, done, enough)
		})
	}
}

// TCP and UDP may have the same port, and a port without a protocol is one of TCP (design rule 21).
func TestSSA_PortsHaveTwoKeys(t *testing.T) {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	fields, err := apply.New([]apply.Version{{APIVersion: "v1", Schema: schemas(t)[gvk]}}, nil)
	require.NoError(t, err)
	service := func(ports string) map[string]any {
		var out map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"dns"},"spec":{"ports":`+ports+`}}`), &out))
		return exact(out).(map[string]any)
	}
	live, err := fields.Apply(apply.Request{New: service(`[{"port":53,"name":"tcp"},{"port":53,"protocol":"UDP","name":"udp"}]`), Manager: "a", APIVersion: "v1"})
	require.NoError(t, err)
	live, err = fields.Apply(apply.Request{Live: live, New: service(`[{"port":53,"protocol":"UDP","targetPort":5353}]`), Manager: "b", APIVersion: "v1"})
	require.NoError(t, err)
	live, err = fields.Apply(apply.Request{Live: live, New: service(`[{"port":53,"protocol":"TCP","targetPort":5354}]`), Manager: "c", APIVersion: "v1"})
	require.NoError(t, err)
	text, err := json.Marshal(live["spec"])
	require.NoError(t, err)
	require.JSONEq(t, `{"ports":[{"port":53,"name":"tcp","protocol":"TCP","targetPort":5354},{"port":53,"protocol":"UDP","name":"udp","targetPort":5353}]}`, string(text))
}

// models are the published schemas as the field manager wants them.
func models(t *testing.T) map[string]*spec.Schema {
	out := map[string]*spec.Schema{}
	for name, s := range published(t) {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		out[name] = &spec.Schema{}
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/definitions/")), out[name]))
	}
	metadata := &spec.Schema{}
	require.NoError(t, json.Unmarshal([]byte(`{"type":"object","properties":{"name":{"type":"string"},"labels":{"type":"object","additionalProperties":{"type":"string"}},
		"managedFields":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object"}}}}`), metadata))
	out["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"] = metadata
	for gvk, typ := range stable(t) {
		name := modelName(typ)
		out[name].AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	}
	return out
}

// manager plays writes to an object of one kind, with both.
type manager struct {
	t      *testing.T
	gvk    schema.GroupVersionKind
	schema *openapi.Schema
	lists  []string
	ours   *apply.Fields
	theirs *managedfields.FieldManager
}

// play does random writes and returns how many succeeded.
func (m *manager) play(r *rand.Rand, steps int) (done int) {
	var live map[string]any
	for step := range steps {
		name := string(rune('a' + r.IntN(4)))
		applies := live == nil || r.IntN(4) > 0
		force := r.IntN(3) == 0
		sent := m.object(r)
		if !applies {
			sent = m.schema.Default(sent)
			sent["metadata"].(map[string]any)["managedFields"] = live["metadata"].(map[string]any)["managedFields"]
		}
		what := fmt.Sprintf("step %d: %s applies %v, force %v: %s\non %s", step, name, applies, force, text(m.t, sent), text(m.t, live))
		ours, ourConflicts := m.write(live, sent, name, applies, force)
		theirs, theirConflicts := m.writeTheirs(live, sent, name, applies, force)
		require.Equal(m.t, theirConflicts, ourConflicts, what)
		if ourConflicts != nil {
			continue
		}
		done++
		require.Equal(m.t, owners(m.t, theirs), owners(m.t, ours), what)
		require.Equal(m.t, text(m.t, m.settled(theirs)), text(m.t, m.settled(ours)), what)
		live = m.schema.Default(ours)
	}
	return done
}

// settled is an object without who owns it and what is empty.
func (m *manager) settled(tree map[string]any) any {
	out := runtime.DeepCopyJSON(tree)
	delete(out["metadata"].(map[string]any), "managedFields")
	return withoutEmpty(out)
}

func (m *manager) write(live, sent map[string]any, name string, applies, force bool) (map[string]any, []string) {
	request := apply.Request{
		Live: copied(live), New: copied(sent), Manager: name, APIVersion: m.gvk.GroupVersion().String(), Time: meta.NewTime(time.Now()), Force: force,
	}
	do := m.ours.Update
	if applies {
		do = m.ours.Apply
	}
	out, err := do(request)
	if err == nil {
		return copied(out), nil
	}
	conflicts := []string{}
	require.True(m.t, status.IsConflict(err), "%v", err)
	for _, c := range status.From(err).Status().Details.Causes {
		conflicts = append(conflicts, c.Field)
	}
	slices.Sort(conflicts)
	return nil, conflicts
}

func (m *manager) writeTheirs(live, sent map[string]any, name string, applies, force bool) (map[string]any, []string) {
	old := &unstructured.Unstructured{Object: copied(live)}
	if live == nil {
		old.Object = map[string]any{}
		old.SetGroupVersionKind(m.gvk)
	}
	in := &unstructured.Unstructured{Object: copied(sent)}
	if !applies {
		return m.theirs.UpdateNoErrors(old, in, name).(*unstructured.Unstructured).Object, nil
	}
	out, err := m.theirs.Apply(old, in, name, force)
	if err == nil {
		return out.(*unstructured.Unstructured).Object, nil
	}
	conflicts := []string{}
	var failed *apierrors.StatusError
	require.True(m.t, errors.As(err, &failed) && apierrors.IsConflict(err), "%v\n%s", err, text(m.t, sent))
	for _, c := range failed.Status().Details.Causes {
		conflicts = append(conflicts, c.Field)
	}
	slices.Sort(conflicts)
	return nil, conflicts
}

// object makes up an object that has the lists of its kind.
func (m *manager) object(r *rand.Rand) map[string]any {
	spec, _ := m.schema.Property("spec")
	out := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": m.value(r, spec, "spec")}
	gv, kind := m.gvk.ToAPIVersionAndKind()
	out["apiVersion"], out["kind"] = gv, kind
	return out
}

// value makes up a value. Few are there to choose from, so that managers often agree and often do not.
func (m *manager) value(r *rand.Rand, s *openapi.Schema, path string) any {
	switch {
	case s.OrNumber:
		return []any{"1", "2Gi"}[r.IntN(2)]
	case s.IntOrString:
		return []any{int64(r.IntN(2)), "http"}[r.IntN(2)]
	case s.Type == openapi.Object && s.AdditionalProperties != nil:
		out := map[string]any{}
		for range r.IntN(3) {
			out[string(rune('p'+r.IntN(3)))] = m.value(r, s.AdditionalProperties, path)
		}
		return out
	case s.Type == openapi.Object:
		return m.fields(r, s, path)
	case s.Type == openapi.Array:
		out := []any{}
		for range r.IntN(4) {
			v := m.value(r, s.Items, path)
			if !slices.ContainsFunc(out, func(other any) bool { return sameItem(s, v, other) }) {
				out = append(out, v)
			}
		}
		return out
	case s.Type == openapi.Integer:
		return int64(r.IntN(3))
	case s.Type == openapi.Boolean:
		return r.IntN(2) == 0
	case len(s.Enum) > 0:
		return s.Enum[r.IntN(min(2, len(s.Enum)))]
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case s.Type == openapi.String:
		return string(rune('a' + r.IntN(3)))
	}
	return map[string]any{"x": int64(r.IntN(2))}
}

// fields are some of those of an object: what a key of a list might be, what leads to a list that merges, and a few others.
func (m *manager) fields(r *rand.Rand, s *openapi.Schema, path string) map[string]any {
	out := map[string]any{}
	for _, p := range s.Properties {
		below := path + "." + p.Name
		leads := slices.ContainsFunc(m.lists, func(list string) bool { return list == below || strings.HasPrefix(list, below+".") })
		chance := 14
		switch {
		case slices.Contains(s.Required, p.Name), p.Schema.DefaultValue == "", leads && p.Schema.Type == openapi.Object:
			chance = 1
		case leads, p.Schema.DefaultValue != nil:
			chance = 2
		case p.Schema.Type == openapi.Object || p.Schema.Type == openapi.Array:
			chance = 25
		}
		if p.Name == "metadata" || p.Name == "status" || r.IntN(chance) > 0 {
			continue
		}
		out[p.Name] = m.value(r, p.Schema, below)
	}
	return out
}

// sameItem tells whether two items of a list are one by its rules.
func sameItem(s *openapi.Schema, a, b any) bool {
	x, isObject := a.(map[string]any)
	y, _ := b.(map[string]any)
	if s.ListType != openapi.ListMap || !isObject {
		return s.ListType == openapi.ListSet && a == b
	}
	return !slices.ContainsFunc(s.ListMapKeys, func(name string) bool {
		p, _ := s.Items.Property(name)
		v, w := x[name], y[name]
		if v == nil {
			v = p.DefaultValue
		}
		if w == nil {
			w = p.DefaultValue
		}
		return v != w
	})
}

// owners are the entries of managedFields without their times.
func owners(t *testing.T, tree map[string]any) map[string]string {
	out := map[string]string{}
	list, _ := tree["metadata"].(map[string]any)["managedFields"].([]any)
	for _, e := range list {
		e := e.(map[string]any)
		var set fieldpath.Set
		require.NoError(t, set.FromJSON(strings.NewReader(text(t, e["fieldsV1"]))))
		out[fmt.Sprint(e["manager"], " ", e["operation"], " ", e["apiVersion"])] = set.String()
	}
	return out
}

// asIs converts and makes nothing.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return errors.New("not asked for") }
func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", errors.New("not asked for")
}

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in.DeepCopyObject(), nil
}
func (asIs) Default(runtime.Object) {}
func (asIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, nil
}

func copied(tree map[string]any) map[string]any {
	if tree == nil {
		return nil
	}
	return runtime.DeepCopyJSON(tree)
}

func text(t *testing.T, v any) string {
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

// exact makes integers of whole numbers.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			v[k] = exact(child)
		}
	case []any:
		for i, child := range v {
			v[i] = exact(child)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// withoutEmpty drops null and what is empty: where a manager gives up the last thing in a map or list, kube-apiserver leaves
// null or nothing, and we leave it empty.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, child := range v {
			if child = withoutEmpty(child); child != nil {
				out[name] = child
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = withoutEmpty(child)
		}
		return out
	}
	return v
}
