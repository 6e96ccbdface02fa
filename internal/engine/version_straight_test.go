package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

const potGroup = "pots.example.dev"

func potAt(version, name string) registry.Target {
	return registry.Target{Resource: meta.GroupVersionResource{Group: potGroup, Version: version, Resource: "pots"}, Namespace: "a", Name: name}
}

// potter converts pots, whose field "num" is called "numv2" from v2 on, and remembers what it was asked.
type potter struct {
	mu     sync.Mutex
	calls  []string // "v1,v1>v2"
	fail   error
	labels bool // it adds what it did to labels and annotations
}

func (p *potter) convert(_ context.Context, to string, objects []registry.Tree) ([]registry.Tree, error) {
	_, want, _ := strings.Cut(to, "/")
	out := make([]registry.Tree, len(objects))
	var from []string
	for i, t := range objects {
		_, have, _ := strings.Cut(t["apiVersion"].(string), "/")
		from = append(from, have)
		out[i] = potConverted(t, want)
		metadata := maps.Clone(t["metadata"].(map[string]any))
		if p.labels {
			metadata["labels"] = map[string]any{"from": have}
			metadata["annotations"] = map[string]any{"to": want}
		}
		metadata["generation"], metadata["finalizers"], metadata["junk"] = int64(42), []any{"x.example.dev/y"}, "junk"
		out[i]["metadata"] = metadata
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, strings.Join(from, ",")+">"+want)
	return out, p.fail
}

func (p *potter) failing(err error) { p.mu.Lock(); defer p.mu.Unlock(); p.fail = err }

func (p *potter) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.calls = nil }()
	return p.calls
}

func potConverted(t registry.Tree, to string) registry.Tree {
	out := maps.Clone(t)
	have, want := potNumber(strings.TrimPrefix(t["apiVersion"].(string), potGroup+"/")), potNumber(to)
	if v, ok := out[have]; ok && have != want {
		delete(out, have)
		out[want] = v
	}
	out["apiVersion"] = potGroup + "/" + to
	return out
}

func potNumber(version string) string {
	if version >= "v2" {
		return "numv2"
	}
	return "num"
}

// potForm describes a version. Each has a default of its own, and a field that no other has.
func potForm(t testing.TB, version string, change ...func(map[string]any)) *registry.Resource {
	t.Helper()
	flags := map[string]any{}
	for _, v := range []string{"v1", "v2", "v3"} {
		flags[v] = map[string]any{"type": "boolean"}
	}
	flags[version] = map[string]any{"type": "boolean", "default": true}
	properties := map[string]any{
		potNumber(version): map[string]any{"type": "integer"},
		"of" + version:     map[string]any{"type": "string"},
		"defaults":         map[string]any{"type": "object", "properties": flags},
	}
	for _, f := range change {
		f(properties)
	}
	schema, problems := openapi.FromTree(map[string]any{"type": "object", "properties": properties})
	require.Empty(t, problems)
	return &registry.Resource{Group: potGroup, Version: version, Plural: "pots", Names: registry.Names{Kind: "Pot"}, Schema: schema}
}

// potKind describes the versions of a kind, the first of which is stored.
func potKind(p *potter, forms ...*registry.Resource) []*registry.Resource {
	for i, form := range forms {
		if i == 0 {
			form.Converter = p.convert
		} else {
			form.Stored = &registry.Conversion{Resource: forms[0]}
		}
	}
	return forms
}

// pots describes versions as potForm does.
func pots(t testing.TB, p *potter, versions ...string) []*registry.Resource {
	t.Helper()
	forms := make([]*registry.Resource, len(versions))
	for i, version := range versions {
		forms[i] = potForm(t, version)
	}
	return potKind(p, forms...)
}

// repot replaces the kind by one that stores the first of some forms.
func repot(t testing.TB, e *engine.Engine, forms []*registry.Resource) {
	t.Helper()
	require.NoError(t, e.Change(context.Background(), []meta.GroupVersionResource{{Group: potGroup, Resource: "pots"}}, forms))
}

// recorded returns what the store has of a pot.
func recorded(t testing.TB, e *engine.Engine, name string) registry.Tree {
	t.Helper()
	rec, err := e.Store().Get(context.Background(), storage.ObjectKey(potGroup+"/pots", "a", name))
	require.NoError(t, err)
	v, err := json.DecodeTree(rec.Value[9:], json.TreeOptions{})
	require.NoError(t, err)
	return v.(map[string]any)
}

func createPot(t testing.TB, e *engine.Engine, version, name, fields string) registry.Tree {
	t.Helper()
	r, err := e.Create(context.Background(), potAt(version, ""), []byte(`{"metadata":{"name":"`+name+`"}`+fields+`}`), registry.WriteOptions{})
	require.NoError(t, err)
	v, err := json.DecodeTree(r.Entry.AppendJSON(nil), json.TreeOptions{})
	require.NoError(t, err)
	return v.(map[string]any)
}

func potList(t *testing.T, e *engine.Engine, version string) []registry.Tree {
	t.Helper()
	l, err := e.List(t.Context(), potAt(version, ""), registry.ListRequest{})
	require.NoError(t, err)
	var out []registry.Tree
	for entry, err := range l.Items {
		require.NoError(t, err)
		out = append(out, tree(t, &registry.Result{Entry: entry}))
	}
	return out
}

// What a version cannot say is lost silently, and defaults are those of the version of the record.
func TestVER_15_AConverterPrunesAndConvertsAndPrunes(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		p := &potter{}
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2", "v3")...))

		made := createPot(t, e, "v2", "x", `,"numv2":7,"ofv2":"mine","ofv1":"unknown","defaults":{}`)
		require.Equal(t, []string{"v2>v1", "v1>v2"}, p.take(), "there and back, once each")
		require.Equal(t, map[string]any{"v1": true, "v2": true}, made["defaults"], "the answer has the defaults of both")
		require.NotContains(t, made, "ofv2", "the stored form cannot say it")
		require.Equal(t, int64(7), made["numv2"])
		require.Equal(t, int64(1), at(made, "metadata", "generation"))
		require.NotContains(t, made["metadata"], "finalizers")
		rec := recorded(t, e, "x")
		require.Equal(t, map[string]any{"v2": true}, rec["defaults"], "only those of the request are stored")
		require.Equal(t, potGroup+"/v1", rec["apiVersion"])
		require.NotContains(t, rec, "ofv2")

		got := get(t, e, potAt("v3", "x"))
		require.Equal(t, map[string]any{"v1": true, "v2": true}, got["defaults"], "no default of v3")
		require.Equal(t, int64(7), got["numv2"])
		require.Equal(t, []string{"v1>v3"}, p.take())
		require.Equal(t, got, get(t, e, potAt("v3", "x")))

		// A change through v3 loses what v3 does not show, even if the stored form could keep it.
		_, err := merge(t.Context(), e, potAt("v1", "x"), `{"ofv1":"hidden"}`)
		require.NoError(t, err)
		_, err = merge(t.Context(), e, potAt("v3", "x"), `{"numv2":8}`)
		require.NoError(t, err)
		got = get(t, e, potAt("v1", "x"))
		require.NotContains(t, got, "ofv1")
		require.Equal(t, int64(8), got["num"])
		require.Equal(t, int64(3), at(got, "metadata", "generation"))
	})
}

// Labels and annotations are what the Converter makes of them; the rest of metadata is the object's.
func TestVER_15_AConverterGivesLabelsAndAnnotations(t *testing.T) {
	p := &potter{labels: true}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
	made := createPot(t, e, "v1", "x", "")
	require.NotContains(t, made["metadata"], "labels")
	for _, got := range []registry.Tree{get(t, e, potAt("v2", "x")), potList(t, e, "v2")[0]} {
		require.Equal(t, map[string]any{"from": "v1"}, at(got, "metadata", "labels"))
		require.Equal(t, map[string]any{"to": "v2"}, at(got, "metadata", "annotations"))
		require.Equal(t, at(made, "metadata", "uid"), at(got, "metadata", "uid"))
		require.Equal(t, int64(1), at(got, "metadata", "generation"))
		require.NotContains(t, got["metadata"], "junk")
		require.NotContains(t, got["metadata"], "finalizers")
	}
	createPot(t, e, "v2", "y", "")
	require.Equal(t, map[string]any{"from": "v2"}, at(recorded(t, e, "y"), "metadata", "labels"), "they are stored")
}

// The kind moves its stored version. Records stay as they are until somebody writes to them, and a
// watch goes on from a version before.
func TestVER_15_AnotherVersionIsStored(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		p := &potter{}
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
		first := createPot(t, e, "v1", "x", `,"num":1`)
		before, _ := e.Set().Lookup(potAt("v1", "").Resource)
		p.take()

		repot(t, e, pots(t, p, "v2", "v1", "v3"))
		after, ok := e.Set().Lookup(potAt("v2", "").Resource)
		require.True(t, ok)
		require.Same(t, before.Cache, after.Cache, "every record is shown as before")
		require.Error(t, before.Ended().Err())
		require.Equal(t, potGroup+"/v1", recorded(t, e, "x")["apiVersion"])
		require.Empty(t, p.take(), "nothing is converted for it")
		require.Equal(t, first, get(t, e, potAt("v1", "x")))
		require.Empty(t, p.take(), "the record is in this version")
		createPot(t, e, "v1", "y", `,"num":2`)
		require.Equal(t, potGroup+"/v2", recorded(t, e, "y")["apiVersion"])
		p.take()
		require.Len(t, potList(t, e, "v3"), 2)
		require.Equal(t, []string{"v1,v2>v3"}, p.take(), "one call for a stretch, whatever versions it has")
		require.Equal(t, int64(1), get(t, e, potAt("v3", "x"))["numv2"])
		require.Equal(t, []string{"v1>v3"}, p.take(), "straight")

		_, err := merge(t.Context(), e, potAt("v1", "x"), `{}`)
		require.NoError(t, err)
		require.Equal(t, potGroup+"/v2", recorded(t, e, "x")["apiVersion"], "an update without a change rewrites it")
		again := get(t, e, potAt("v1", "x"))
		require.Equal(t, int64(1), at(again, "metadata", "generation"))
		rev := at(again, "metadata", "resourceVersion")
		_, err = merge(t.Context(), e, potAt("v1", "x"), `{}`)
		require.NoError(t, err)
		require.Equal(t, rev, at(get(t, e, potAt("v1", "x")), "metadata", "resourceVersion"), "once")

		// v1 disappears, with no record in it; what it had is history.
		repot(t, e, pots(t, p, "v3", "v2"))
		_, ok = e.Set().Lookup(potAt("v1", "").Resource)
		require.False(t, ok)
		cursor, err := e.Follow(t.Context(), potAt("v3", ""), registry.WatchRequest{After: revisionOf(t, first)})
		require.NoError(t, err)
		defer cursor.Close()
		var events []watch.Event
		for len(events) < 2 {
			events, err = cursor.Next(t.Context(), events)
			require.NoError(t, err)
		}
		require.Equal(t, meta.Added, events[0].Type)
		require.Equal(t, meta.Modified, events[1].Type)
	})
}

func revisionOf(t *testing.T, object registry.Tree) storage.Revision {
	t.Helper()
	rev, err := storage.ParseRevision(at(object, "metadata", "resourceVersion").(string))
	require.NoError(t, err)
	return rev
}

// Records of five stored versions, across a restart that knows all of them.
func TestVER_15_FiveStoredVersionsAcrossARestart(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		p := &potter{}
		versions := []string{"v1", "v2", "v3", "v4", "v5"}
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), pots(t, p, versions...)...))
		moved := slices.Clone(versions)
		for i := range versions {
			createPot(t, e, "v1", "x"+moved[0], fmt.Sprintf(`,"num":%d`, i))
			require.Equal(t, potGroup+"/"+moved[0], recorded(t, e, "x"+moved[0])["apiVersion"])
			moved = append(moved[1:], moved[0])
			repot(t, e, pots(t, p, moved...))
		}
		check := func(e *engine.Engine) {
			for _, version := range versions {
				p.take()
				all := potList(t, e, version)
				require.Len(t, all, 5)
				for i, got := range all {
					require.Equal(t, potGroup+"/"+version, got["apiVersion"])
					require.Equal(t, int64(i), got[potNumber(version)])
				}
				require.Len(t, p.take(), 1)
			}
		}
		check(e)
		p.take()
		again := start(t, b, nil)
		require.NoError(t, again.Install(t.Context(), pots(t, p, "v3", "v1", "v2", "v4", "v5")...))
		require.Empty(t, p.take(), "a start converts nothing")
		check(again)
		for _, version := range versions {
			require.Equal(t, potGroup+"/"+version, recorded(t, again, "x"+version)["apiVersion"], "nothing is migrated")
		}
	})
}

// Clients see why a conversion failed, whatever they ask for. What needs no conversion goes on.
func TestVER_15_ReasonsOfAConverterAreShown(t *testing.T) {
	p := &potter{}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
	createPot(t, e, "v1", "x", `,"num":1`)
	p.failing(errors.New("conversion webhook for pots failed: no clay"))
	at := potAt("v2", "x")
	all := potAt("v2", "")
	ctx := t.Context()
	for verb, do := range map[string]func() error{
		"get": func() error { _, err := e.Get(ctx, at, registry.ListRequest{}); return err },
		"list": func() error {
			l, err := e.List(ctx, all, registry.ListRequest{})
			for _, failed := range l.Items {
				err = errors.Join(err, failed)
			}
			return err
		},
		"create": func() error {
			_, err := e.Create(ctx, all, []byte(`{"metadata":{"name":"y"}}`), registry.WriteOptions{})
			return err
		},
		"update": func() error {
			_, err := e.Update(ctx, at, []byte(`{"metadata":{"name":"x"}}`), registry.WriteOptions{})
			return err
		},
		"patch":  func() error { _, err := merge(ctx, e, at, `{}`); return err },
		"delete": func() error { _, err := e.Delete(ctx, at, registry.DeleteOptions{}); return err },
		"deletecollection": func() error {
			_, err := e.DeleteCollection(ctx, all, registry.ListRequest{}, registry.DeleteOptions{})
			return err
		},
	} {
		err := do()
		require.ErrorContains(t, err, "conversion webhook for pots failed: no clay", verb)
		if verb != "list" {
			require.Equal(t, "conversion webhook for pots failed: no clay", err.Error(), verb)
			require.Equal(t, meta.ReasonUnknown, reason(t, err), verb)
		}
	}
	_, err := e.Get(ctx, at, registry.ListRequest{MetadataOnly: true})
	require.NoError(t, err)
	_, err = merge(ctx, e, potAt("v1", "x"), `{"num":2}`)
	require.NoError(t, err)

	p.failing(nil)
	require.Equal(t, int64(2), get(t, e, at)["numv2"], "it is asked again")
	require.Len(t, potList(t, e, "v2"), 1)
	p.failing(errors.New("dead"))
	_, err = e.Delete(ctx, at, registry.DeleteOptions{MetadataOnly: true})
	require.NoError(t, err)
	require.Empty(t, potList(t, e, "v1"))
}

// A Converter is not asked for a version that is neither served nor stored, even if somebody owns
// fields in it.
func TestVER_15_NothingIsConvertedToAVersionThatIsNotServed(t *testing.T) {
	p := &potter{}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2", "v3")...))
	apply := func(version, manager string) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"Pot","metadata":{"name":"x"},"%s":1}`, potGroup, version, potNumber(version))
		_, err := e.Patch(t.Context(), potAt(version, "x"), registry.PatchRequest{Type: meta.ApplyPatch, Body: []byte(body)},
			registry.WriteOptions{FieldManager: manager, Force: true})
		require.NoError(t, err)
	}
	apply("v3", "former")
	hidden := pots(t, p, "v1", "v2", "v3")
	hidden[2].Unserved = true
	repot(t, e, hidden)
	p.take()
	apply("v1", "former")
	apply("v2", "latter")
	_, err := merge(t.Context(), e, potAt("v2", "x"), `{"numv2":5}`)
	require.NoError(t, err)
	for _, call := range p.take() {
		require.NotContains(t, call, ">v3")
	}
}

// Only what is shown otherwise makes a new live view, and records of a changed schema get its
// defaults on the way.
func TestVER_15_AChangedSchemaOfAStraightKind(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		p := &potter{}
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
		made := createPot(t, e, "v2", "x", `,"numv2":1`)
		before, _ := e.Set().Lookup(potAt("v1", "").Resource)
		glaze := func(properties map[string]any) {
			properties["glaze"] = map[string]any{"type": "string", "default": "blue"}
		}
		repot(t, e, potKind(p, potForm(t, "v1", glaze), potForm(t, "v2")))
		after, _ := e.Set().Lookup(potAt("v1", "").Resource)
		require.NotSame(t, before.Cache, after.Cache)
		require.Equal(t, "blue", get(t, e, potAt("v1", "x"))["glaze"])
		require.NotContains(t, recorded(t, e, "x"), "glaze")
		cursor, err := e.Follow(t.Context(), potAt("v2", ""), registry.WatchRequest{After: revisionOf(t, made)})
		require.NoError(t, err)
		defer cursor.Close()
		_, err = merge(t.Context(), e, potAt("v1", "x"), `{}`)
		require.NoError(t, err)
		require.Equal(t, "blue", recorded(t, e, "x")["glaze"])
		events, err := cursor.Next(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, meta.Modified, events[0].Type)
	})
}

// Records in a version that the kind does not have any more do not keep it from being served. They
// cannot be read, and go as others do.
func TestVER_15_RecordsInAVersionThatIsGone(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		p := &potter{}
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
		for _, name := range []string{"x", "y", "z"} {
			createPot(t, e, "v1", name, `,"num":1`)
		}
		again := start(t, b, nil)
		require.NoError(t, again.Install(t.Context(), pots(t, p, "v2", "v3")...))
		const want = "request to convert CR from an invalid group/version: pots.example.dev/v1"
		_, err := again.Get(t.Context(), potAt("v2", "x"), registry.ListRequest{})
		require.EqualError(t, err, want)
		_, err = merge(t.Context(), again, potAt("v3", "x"), `{}`)
		require.EqualError(t, err, want)
		_, err = again.Delete(t.Context(), potAt("v2", "x"), registry.DeleteOptions{})
		require.EqualError(t, err, want)
		l, err := again.List(t.Context(), potAt("v2", ""), registry.ListRequest{})
		require.NoError(t, err)
		for _, err := range l.Items {
			require.EqualError(t, err, want)
		}
		_, err = again.Get(t.Context(), potAt("v2", "x"), registry.ListRequest{MetadataOnly: true})
		require.NoError(t, err)
		_, err = again.Delete(t.Context(), potAt("v2", "x"), registry.DeleteOptions{MetadataOnly: true})
		require.NoError(t, err)
		_, err = again.Delete(t.Context(), potAt("v2", "y"), registry.DeleteOptions{MetadataOnly: true, Propagation: meta.DeletePropagationForeground})
		require.NoError(t, err)
		require.Equal(t, potGroup+"/v1", recorded(t, again, "y")["apiVersion"])

		repot(t, again, pots(t, p, "v2", "v3", "v1"))
		require.Equal(t, int64(1), get(t, again, potAt("v3", "z"))["numv2"])
		require.Len(t, potList(t, again, "v1"), 2)
	})
}

// A replacement needs the same policy, and all forms are listed.
func TestWhatCannotReplaceAStraightKind(t *testing.T) {
	p := &potter{}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
	gone := []meta.GroupVersionResource{{Group: potGroup, Resource: "pots"}}
	require.ErrorContains(t, e.Change(t.Context(), gone, []*registry.Resource{potForm(t, "v1")}), "has a Converter and the other has not")
	bare := potForm(t, "v3")
	bare.Stored = &registry.Conversion{Resource: potForm(t, "v1")}
	_, err := bare.Completed()
	require.ErrorContains(t, err, "needs a function for each direction")
	both := pots(t, p, "v1", "v3")
	both[1].Converter = p.convert
	require.ErrorContains(t, e.Change(t.Context(), gone, both), "belongs to the stored form")
	createPot(t, e, "v2", "x", `,"numv2":1`)
	require.Equal(t, int64(1), get(t, e, potAt("v1", "x"))["num"])
}

// Each form selects by its own fields, wherever the record comes from.
func TestSelectableFieldsOfAStraightKind(t *testing.T) {
	p := &potter{}
	e := start(t, memory.New(), nil)
	forms := pots(t, p, "v2", "v3")
	forms[0].Selectable = []string{"numv2"}
	forms[1].Selectable = []string{"defaults.v3", "numv2"}
	require.NoError(t, e.Install(t.Context(), forms...))
	createPot(t, e, "v3", "x", `,"numv2":1,"defaults":{}`)
	createPot(t, e, "v2", "y", `,"numv2":2,"defaults":{}`)
	names := func(version, selector string) (out []string, err error) {
		fields, err := meta.ParseFieldSelector(selector)
		require.NoError(t, err)
		l, err := e.List(t.Context(), potAt(version, ""), registry.ListRequest{Fields: fields})
		if err != nil {
			return nil, err
		}
		for entry, err := range l.Items {
			require.NoError(t, err)
			out = append(out, entry.Name())
		}
		return out, nil
	}
	got, err := names("v3", "numv2=1")
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, got)
	got, err = names("v3", "defaults.v3=true")
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, got)
	_, err = names("v2", "defaults.v3=true")
	require.Error(t, err)
}

// potModel is the rules of a Converter in a few lines.
type potModel struct {
	stored  string
	records map[string]registry.Tree
}

func potPruned(version string, t registry.Tree) registry.Tree {
	out := registry.Tree{"apiVersion": potGroup + "/" + version}
	for _, name := range []string{potNumber(version), "of" + version, "defaults"} {
		if v, ok := t[name]; ok {
			out[name] = v
		}
	}
	return out
}

func potDefaulted(t registry.Tree) registry.Tree {
	flags, ok := t["defaults"].(map[string]any)
	version := strings.TrimPrefix(t["apiVersion"].(string), potGroup+"/")
	if _, set := flags[version]; !ok || set {
		return t
	}
	out, flags := maps.Clone(t), maps.Clone(flags)
	flags[version] = true
	out["defaults"] = flags
	return out
}

func (m *potModel) read(name, version string) registry.Tree {
	return potPruned(version, potConverted(potDefaulted(m.records[name]), version))
}

func (m *potModel) write(name, version string, body registry.Tree) {
	body = maps.Clone(body)
	body["apiVersion"] = potGroup + "/" + version
	next := potPruned(m.stored, potConverted(potDefaulted(potPruned(version, body)), m.stored))
	if old := m.records[name]; old != nil && json.Equal(potDefaulted(old), potDefaulted(next)) {
		return
	}
	m.records[name] = next
}

// Random writes through random versions, while the stored version moves: every version of every
// object, and every record, is what the model says.
func TestVER_15_StraightKindsFollowTheModel(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		random := rand.New(rand.NewPCG(15, 33)) //nolint:gosec // repeatable
		versions := []string{"v1", "v2", "v3"}
		p := &potter{}
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), pots(t, p, versions...)...))
		m := &potModel{stored: "v1", records: map[string]registry.Tree{}}
		for step := range 250 {
			name, version := fmt.Sprintf("x%d", random.IntN(4)), versions[random.IntN(3)]
			if random.IntN(6) == 0 {
				random.Shuffle(3, func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
				m.stored = versions[0]
				repot(t, e, pots(t, p, versions...))
			}
			body := registry.Tree{}
			if random.IntN(4) > 0 || m.records[name] == nil {
				for _, field := range []string{"num", "numv2"} {
					body[field] = int64(random.IntN(3))
				}
				body["of"+versions[random.IntN(3)]] = "text"
				if random.IntN(2) == 0 {
					body["defaults"] = map[string]any{versions[random.IntN(3)]: random.IntN(2) == 0}
				}
			} else {
				body = m.read(name, version) // a write without a change
			}
			sent := maps.Clone(body)
			sent["apiVersion"], sent["kind"], sent["metadata"] = potGroup+"/"+version, "Pot", map[string]any{"name": name}
			data, err := json.AppendTree(nil, sent)
			require.NoError(t, err)
			if m.records[name] == nil {
				_, err = e.Create(t.Context(), potAt(version, ""), data, registry.WriteOptions{})
			} else {
				_, err = e.Update(t.Context(), potAt(version, name), data, registry.WriteOptions{})
			}
			require.NoError(t, err)
			m.write(name, version, body)
			for name := range m.records {
				for _, version := range versions {
					got := get(t, e, potAt(version, name))
					delete(got, "metadata")
					delete(got, "kind")
					require.Equal(t, m.read(name, version), got, "step %d, %s as %s", step, name, version)
				}
				got := recorded(t, e, name)
				delete(got, "metadata")
				delete(got, "kind")
				require.Equal(t, m.records[name], got, "step %d, the record of %s", step, name)
			}
		}
	})
}

// The stored version moves all the time under writers, readers and watchers. No request fails, and
// a watcher that goes on from where it was sees every object as it is.
func TestVER_15_TheStoredVersionMovesUnderLoad(t *testing.T) {
	p := &potter{}
	e := start(t, memory.New(), nil)
	versions := []string{"v1", "v2", "v3"}
	require.NoError(t, e.Install(t.Context(), pots(t, p, versions...)...))
	const writers, rounds = 4, 40
	for w := range writers {
		createPot(t, e, "v1", fmt.Sprintf("w%d", w), `,"num":0`)
	}
	var working sync.WaitGroup
	var failed atomic.Pointer[string]
	fail := func(what string, err error) {
		text := what + ": " + err.Error()
		failed.CompareAndSwap(nil, &text)
	}
	for w := range writers {
		working.Go(func() {
			name := fmt.Sprintf("w%d", w)
			for n := 1; n <= rounds; n++ {
				version := versions[n%3]
				if _, err := merge(t.Context(), e, potAt(version, name), fmt.Sprintf(`{"%s":%d}`, potNumber(version), n)); err != nil {
					fail("patch", err)
				}
				if _, err := e.Get(t.Context(), potAt(versions[(n+w)%3], name), registry.ListRequest{}); err != nil {
					fail("get", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); working.Wait() }()
	for n := 0; ; n++ {
		select {
		case <-done:
		default:
			moved := append(slices.Clone(versions[n%3:]), versions[:n%3]...)
			repot(t, e, pots(t, p, moved...))
			continue
		}
		break
	}
	if why := failed.Load(); why != nil {
		t.Fatal(*why)
	}
	for w := range writers {
		got := get(t, e, potAt("v3", fmt.Sprintf("w%d", w)))
		require.Equal(t, int64(rounds), got["numv2"])
		require.Equal(t, int64(rounds+1), at(got, "metadata", "generation"))
	}
}
