package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
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
	"sigs.k8s.io/yaml"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// A fieldWrite is one write to an object by a manager, in the format of the scenarios of package
// apply.
type fieldWrite struct {
	Apply, Update, Patch, Create string
	Config, Object               map[string]any
	Sub, Version                 string
	Force, Untrack               bool
	Entries                      []any
}

func (w fieldWrite) manager() string { return w.Apply + w.Update + w.Patch + w.Create }

func (w fieldWrite) version() string {
	if w.Version == "" {
		return "v1"
	}
	return w.Version
}

func (w fieldWrite) String() string {
	text, err := json.Marshal(w)
	return fmt.Sprint(string(text), err)
}

// fieldManagers holds the ownership rules of widgets: ours and kube-apiserver's.
type fieldManagers struct {
	schemas map[string]*openapi.Schema
	ours    *apply.Fields
	theirs  map[string]*managedfields.FieldManager // by version and subresource
}

// TestFieldManagerScenarios also plays the scenarios of package apply with kube-apiserver's field
// manager. Objects, owners and conflicts must match after every step.
func TestFieldManagerScenarios(t *testing.T) {
	m := newFieldManagers(t)
	files, err := filepath.Glob("../../apply/testdata/scenarios/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var scenarios []struct {
			Name  string
			Steps []fieldWrite
		}
		require.NoError(t, yaml.Unmarshal(data, &scenarios, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }))
		for _, s := range scenarios {
			t.Run(s.Name, func(t *testing.T) {
				if why := differs(s.Name); why != "" {
					t.Log("differs on purpose:", why)
					return
				}
				m.play(t, s.Steps)
			})
		}
	}
}

// differs returns the reason why a scenario must end differently from kube-apiserver.
func differs(name string) string {
	return map[string]string{
		"what else a reset changes belongs to who asked for it": "SSA-15: kube-apiserver stops tracking the object",
		"integers in a set are told apart exactly":              "it reads the numbers in paths as floats",
	}[name]
}

// TestFieldManagerRandomly makes random writes by several managers to both.
func TestFieldManagerRandomly(t *testing.T) {
	m := newFieldManagers(t)
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		var steps []fieldWrite
		for range 12 {
			steps = append(steps, m.random(r))
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { m.play(t, steps) }) {
			return
		}
	}
}

// random returns a random write.
func (m *fieldManagers) random(r *rand.Rand) fieldWrite {
	manager := string(rune('a' + r.IntN(5)))
	w := fieldWrite{Version: []string{"v1", "v1", "v2"}[r.IntN(3)]}
	s := m.schemas[w.version()]
	spec, _ := s.Property("spec")
	fields := map[string]any{"spec": randomValue(r, spec, 0)}
	switch r.IntN(6) {
	case 0:
		w.Update, w.Object = manager, fields
	case 1:
		w.Patch, w.Object = manager, fields
	case 2:
		w.Apply, w.Sub = manager, "status"
		state, _ := s.Property("status")
		w.Config = map[string]any{"status": randomValue(r, state, 0)}
	default:
		w.Apply, w.Config, w.Force = manager, fields, r.IntN(3) == 0
	}
	return w
}

// randomValue returns a small random value that a schema allows. It chooses from few values, so
// that managers often agree and often do not.
func randomValue(r *rand.Rand, s *openapi.Schema, depth int) any {
	word := func() string { return string(rune('a' + r.IntN(3))) }
	switch s.Type {
	case openapi.Object:
		return randomObject(r, s, depth)
	case openapi.Array:
		out := []any{}
		for range r.IntN(4) {
			v := randomValue(r, s.Items, depth+1)
			if s.ListType == "" || !slices.ContainsFunc(out, func(other any) bool { return sameItem(s, v, other) }) {
				out = append(out, v)
			}
		}
		return out
	case openapi.Integer:
		return int64(r.IntN(3))
	case openapi.Number:
		return []any{int64(1), 1.5, 2.25}[r.IntN(3)]
	case openapi.Boolean:
		return r.IntN(2) == 0
	case openapi.String:
		return word()
	}
	return []any{word(), int64(r.IntN(3))}[r.IntN(2)]
}

func randomObject(r *rand.Rand, s *openapi.Schema, depth int) map[string]any {
	out := map[string]any{}
	for _, p := range s.Properties {
		if slices.Contains(s.Required, p.Name) || r.IntN(4+depth) == 0 {
			out[p.Name] = randomValue(r, p.Schema, depth+1)
		}
	}
	for range r.IntN(3) {
		switch name := string(rune('p' + r.IntN(3))); {
		case s.AdditionalProperties != nil:
			out[name] = randomValue(r, s.AdditionalProperties, depth+1)
		case s.PreserveUnknown && depth < 4:
			out[name] = []any{int64(r.IntN(2)), name, randomObject(r, s, depth+1), []any{int64(r.IntN(2))}}[r.IntN(4)]
		}
	}
	return out
}

// sameItem reports whether two items of a list are the same by its merge rules.
func sameItem(s *openapi.Schema, a, b any) bool {
	if s.ListType == openapi.ListSet {
		return a == b
	}
	x, y := a.(map[string]any), b.(map[string]any)
	for _, name := range s.ListMapKeys {
		p, _ := s.Items.Property(name)
		v, w := x[name], y[name]
		if v == nil {
			v = p.DefaultValue
		}
		if w == nil {
			w = p.DefaultValue
		}
		if v != w {
			return false
		}
	}
	return true
}

// play makes the writes with both and compares the results.
func (m *fieldManagers) play(t *testing.T, steps []fieldWrite) {
	t.Helper()
	var live map[string]any
	version := "v1"
	for i, w := range steps {
		if live != nil && w.version() != version {
			live = inVersion(live, w.version())
		}
		version = w.version()
		sent := m.sent(w, live)
		ours, ourConflicts := m.write(t, w, live, sent)
		theirs, theirConflicts := m.writeTheirs(t, w, live, sent)
		same := func(want, got any) {
			if t.Helper(); !reflect.DeepEqual(want, got) {
				require.Equal(t, want, got, "step %d: %s\non %s\nin %s", i+1, w, canonicalJSON(t, live), canonicalJSON(t, steps))
			}
		}
		same(theirConflicts, ourConflicts)
		if ourConflicts != nil {
			continue
		}
		same(fieldOwners(t, theirs), fieldOwners(t, ours))
		same(canonicalJSON(t, withoutEmpty(withManaged(theirs, nil))), canonicalJSON(t, withoutEmpty(withManaged(ours, nil))))
		live = m.schemas[version].Default(ours)
		if w.Untrack {
			live = withManaged(live, nil)
		}
	}
}

// sent returns the object that the client sends.
func (m *fieldManagers) sent(w fieldWrite, live map[string]any) map[string]any {
	if w.Apply != "" {
		return widgetTree(w.version(), exactNumbers(w.Config))
	}
	out := widgetTree(w.version(), exactNumbers(w.Object))
	if w.Patch != "" && live != nil {
		out, _ = mergePatched(live, exactNumbers(w.Object)).(map[string]any)
	} else if live != nil {
		meta := out["metadata"].(map[string]any)
		meta["uid"] = "u"
		out = withManaged(out, managedOf(live))
	}
	out = m.schemas[w.version()].Default(out)
	if w.Entries != nil {
		out = withManaged(out, exactNumbers(w.Entries).([]any))
	}
	return out
}

// settled returns an object as merging leaves it, before defaults: without nulls, and with a uid.
func (m *fieldManagers) settled(t *testing.T, version string, tree map[string]any) map[string]any {
	out, problems := m.schemas[version].Canonical(tree)
	require.Empty(t, problems)
	out = cloned(out)
	out["metadata"].(map[string]any)["uid"] = "u"
	return out
}

func (m *fieldManagers) write(t *testing.T, w fieldWrite, live, sent map[string]any) (map[string]any, []string) {
	r := apply.Request{
		Live: cloned(live), New: cloned(sent), Manager: w.manager(), APIVersion: "example.dev/" + w.version(),
		Subresource: w.Sub, Time: meta.NewTime(time.Now()), Force: w.Force,
	}
	do := m.ours.Update
	if w.Apply != "" {
		do = m.ours.Apply
	}
	out, err := do(r)
	if err != nil {
		conflicts := []string{}
		if status.IsConflict(err) {
			conflicts = append(conflicts, err.Error())
			for _, c := range status.From(err).Status().Details.Causes {
				conflicts = append(conflicts, fmt.Sprint(c.Type, c.Message, c.Field))
			}
		}
		return nil, inOrder(conflicts)
	}
	return m.settled(t, w.version(), cloned(out)), nil
}

func (m *fieldManagers) writeTheirs(t *testing.T, w fieldWrite, live, sent map[string]any) (map[string]any, []string) {
	manager := m.theirs[w.version()+"/"+w.Sub]
	old := &unstructured.Unstructured{Object: cloned(live)}
	if live == nil {
		old.Object = map[string]any{"apiVersion": "example.dev/" + w.version(), "kind": "Widget"}
	}
	in := &unstructured.Unstructured{Object: cloned(sent)}
	if w.Apply == "" {
		out := manager.UpdateNoErrors(old, in, w.manager())
		return m.settled(t, w.version(), out.(*unstructured.Unstructured).Object), nil
	}
	out, err := manager.Apply(old, in, w.manager(), w.Force)
	if err != nil {
		conflicts := []string{}
		var failed *apierrors.StatusError
		if errors.As(err, &failed) && apierrors.IsConflict(err) {
			conflicts = append(conflicts, err.Error())
			for _, c := range failed.Status().Details.Causes {
				conflicts = append(conflicts, fmt.Sprint(c.Type, c.Message, c.Field))
			}
		}
		return nil, inOrder(conflicts)
	}
	tree := out.(*unstructured.Unstructured).Object
	// After the field manager, the strategies revert fields that the endpoint does not reach.
	if w.Sub == "status" {
		state := tree["status"]
		entries := managedOf(tree)
		tree = cloned(old.Object)
		if delete(tree, "status"); state != nil {
			tree["status"] = state
		}
		tree = withManaged(widgetTree(w.version(), tree), entries)
	} else if delete(tree, "status"); live["status"] != nil {
		tree["status"] = cloned(live)["status"]
	}
	return m.settled(t, w.version(), tree), nil
}

// inOrder sorts conflicts and the lines of the conflict message.
func inOrder(conflicts []string) []string {
	for i, c := range conflicts {
		lines := strings.Split(c, "\n")
		slices.Sort(lines)
		conflicts[i] = strings.Join(lines, "\n")
	}
	slices.Sort(conflicts)
	return conflicts
}

// fieldOwners returns the content of each entry of managedFields, without its time.
func fieldOwners(t *testing.T, tree map[string]any) map[string]string {
	out := map[string]string{}
	for _, e := range managedOf(tree) {
		e := e.(map[string]any)
		var set fieldpath.Set
		require.NoError(t, set.FromJSON(strings.NewReader(canonicalJSON(t, e["fieldsV1"]))))
		out[fmt.Sprint(e["manager"], " ", e["operation"], " ", e["apiVersion"], " ", e["subresource"], " ", e["fieldsType"])] = set.String()
	}
	return out
}

func newFieldManagers(t *testing.T) *fieldManagers {
	m := &fieldManagers{schemas: map[string]*openapi.Schema{}, theirs: map[string]*managedfields.FieldManager{}}
	reach := map[string]apply.Reach{
		"":       {Except: []apply.Path{{"status"}}},
		"status": {Except: []apply.Path{{"metadata"}, {"spec"}}},
	}
	models := map[string]*spec.Schema{"ObjectMeta": objectMetaModel(t)}
	var versions []apply.Version
	for version, size := range map[string]string{"v1": "size", "v2": "length"} {
		data, err := os.ReadFile("../../apply/testdata/widget.yaml")
		require.NoError(t, err)
		text, err := yaml.YAMLToJSON([]byte(strings.Replace(string(data), "size:", size+":", 1)))
		require.NoError(t, err)
		var tree map[string]any
		require.NoError(t, json.Unmarshal(text, &tree))
		s, problems := openapi.FromTree(exactNumbers(tree).(map[string]any))
		require.Empty(t, problems)
		m.schemas[version] = s
		versions = append(versions, apply.Version{APIVersion: "example.dev/" + version, Schema: s, Reach: reach})
		models["Widget."+version] = widgetModel(t, text, version)
	}
	var err error
	m.ours, err = apply.New(versions, func(tree map[string]any, to string) (map[string]any, error) {
		return inVersion(tree, strings.TrimPrefix(to, "example.dev/")), nil
	}, apply.ResetByEmptyList())
	require.NoError(t, err)
	types, err := managedfields.NewTypeConverter(models, false)
	require.NoError(t, err)
	for _, version := range []string{"v1", "v2"} {
		for _, sub := range []string{"", "status", "scale"} {
			gvk := schema.GroupVersionKind{Group: "example.dev", Version: version, Kind: "Widget"}
			reset := map[fieldpath.APIVersion]fieldpath.Filter{}
			for _, v := range []fieldpath.APIVersion{"example.dev/v1", "example.dev/v2"} {
				switch sub {
				case "":
					reset[v] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
				case "status":
					reset[v] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")))
				}
			}
			f, err := managedfields.NewDefaultCRDFieldManager(types, widgetScheme{}, widgetScheme{}, widgetScheme{}, gvk, gvk.GroupVersion(), sub, reset)
			require.NoError(t, err)
			m.theirs[version+"/"+sub] = f
		}
	}
	return m
}

func widgetModel(t *testing.T, text []byte, version string) *spec.Schema {
	var s spec.Schema
	require.NoError(t, json.Unmarshal(text, &s))
	s.Properties["apiVersion"] = *spec.StringProperty()
	s.Properties["kind"] = *spec.StringProperty()
	s.Properties["metadata"] = *spec.RefSchema("#/definitions/ObjectMeta")
	s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": "example.dev", "version": version, "kind": "Widget"}})
	return &s
}

// objectMetaModel is the part of the metadata of objects that the scenarios use.
func objectMetaModel(t *testing.T) *spec.Schema {
	var s spec.Schema
	require.NoError(t, json.Unmarshal([]byte(`{"type":"object","properties":{
		"name":{"type":"string"},"generateName":{"type":"string"},"namespace":{"type":"string"},"uid":{"type":"string"},"resourceVersion":{"type":"string"},
		"labels":{"type":"object","additionalProperties":{"type":"string"}},
		"annotations":{"type":"object","additionalProperties":{"type":"string"}},
		"finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
		"ownerReferences":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["uid"],
			"items":{"type":"object","x-kubernetes-map-type":"atomic","properties":{
				"apiVersion":{"type":"string"},"kind":{"type":"string"},"name":{"type":"string"},"uid":{"type":"string"},
				"controller":{"type":"boolean"},"blockOwnerDeletion":{"type":"boolean"}}}},
		"managedFields":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}`), &s))
	return &s
}

// widgetScheme converts and creates widgets for kube-apiserver's field manager. Defaults are
// applied afterwards, with our code.
type widgetScheme struct{}

// errOnlyVersions answers the methods that a field manager never calls.
var errOnlyVersions = errors.New("a field manager converts with ConvertToVersion only")

func (widgetScheme) Convert(_, _, _ any) error { return errOnlyVersions }

func (widgetScheme) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", errOnlyVersions
}

func (widgetScheme) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gv, ok := to.(schema.GroupVersion)
	if !ok || gv.Version != "v1" && gv.Version != "v2" {
		return nil, runtime.NewNotRegisteredGVKErrForTarget("test", in.GetObjectKind().GroupVersionKind(), to)
	}
	return &unstructured.Unstructured{Object: inVersion(in.(*unstructured.Unstructured).Object, gv.Version)}, nil
}

func (widgetScheme) Default(runtime.Object) {}

func (widgetScheme) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, nil
}

// inVersion converts a widget: size in v1 is length in v2.
func inVersion(tree map[string]any, version string) map[string]any {
	out := cloned(tree)
	was, is := "length", "size"
	if version == "v2" {
		was, is = is, was
	}
	out["apiVersion"] = "example.dev/" + version
	if spec, ok := out["spec"].(map[string]any); ok {
		if v, ok := spec[was]; ok {
			delete(spec, was)
			spec[is] = v
		}
	}
	return out
}

// withoutEmpty drops null, empty maps and empty lists. When a manager gives up the last member of a
// map or list that is itself owned, kube-apiserver leaves null or nothing, and we leave it empty.
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

func widgetTree(version string, fields any) map[string]any {
	out, _ := fields.(map[string]any)
	out = cloned(out)
	if out == nil {
		out = map[string]any{}
	}
	if out["apiVersion"] == nil {
		out["apiVersion"] = "example.dev/" + version
	}
	out["kind"] = "Widget"
	object, _ := out["metadata"].(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object["name"] = "a"
	out["metadata"] = object
	return out
}

func managedOf(tree map[string]any) []any {
	object, _ := tree["metadata"].(map[string]any)
	list, _ := object["managedFields"].([]any)
	return list
}

func withManaged(tree map[string]any, list []any) map[string]any {
	out := cloned(tree)
	object := out["metadata"].(map[string]any)
	delete(object, "managedFields")
	if list != nil {
		object["managedFields"] = list
	}
	return out
}

// mergePatched applies a merge patch.
func mergePatched(target map[string]any, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := cloned(target)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range p {
		below, _ := out[k].(map[string]any)
		if out[k] = mergePatched(below, v); v == nil {
			delete(out, k)
		}
	}
	return out
}

func cloned(tree map[string]any) map[string]any {
	if tree == nil {
		return nil
	}
	return runtime.DeepCopyJSON(tree)
}

// exactNumbers converts whole numbers to integers, as both servers do.
func exactNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, child := range v {
			out[k] = exactNumbers(child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = exactNumbers(child)
		}
		return out
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

func canonicalJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
