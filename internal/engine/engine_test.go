package engine_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            widgetSpec   `json:"spec"`
	Status          widgetStatus `json:"status,omitzero"`
}

type widgetSpec struct {
	Size  int32  `json:"size" minimum:"1" maximum:"1000"`
	Color string `json:"color,omitempty" enum:"red,green,blue" default:"blue"`
	Owner string `json:"owner,omitempty" selectable:""`
	Note  string `json:"note,omitempty"`
}

type widgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

var (
	widgetResource = meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "widgets"}
	zoneResource   = meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "zones"}
)

func widgets() registry.Kind[widget] {
	return registry.Kind[widget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget", ShortNames: []string{"wd"}}}
}

func zones() registry.Kind[widget] {
	return registry.Kind[widget]{
		Group: "example.dev", Version: "v1", Plural: "zones", Names: registry.Names{Kind: "Zone"}, Scope: registry.ClusterScoped, Status: registry.Status{None: true},
		Writes: registry.WriteRules{RequireVersion: true, CreateOnUpdate: true},
	}
}

// backends is what every test of the engine runs on.
func backends(t *testing.T, test func(t *testing.T, b storage.Backend)) {
	t.Run("memory", func(t *testing.T) {
		b := memory.New()
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		test(t, b)
	})
	t.Run("bbolt", func(t *testing.T) {
		b, err := bbolt.Open(t.TempDir() + "/db")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		test(t, b)
	})
}

// start runs an engine with the given kinds until the test ends.
func start(t testing.TB, b storage.Backend, change func(*engine.Config), definitions ...registry.Definition) *engine.Engine {
	t.Helper()
	cfg := engine.Config{Store: storage.New(b)}
	if change != nil {
		change(&cfg)
	}
	e, err := engine.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, e.Start(ctx))
	t.Cleanup(func() { cancel(); e.Wait() })
	for _, d := range definitions {
		bundle, err := d.Define(registry.Env{GroupDomain: "k8s.io"})
		require.NoError(t, err)
		require.NoError(t, e.Install(ctx, bundle.Resources...))
	}
	return e
}

// tree decodes the object of a result.
func tree(t *testing.T, r *registry.Result) registry.Tree {
	t.Helper()
	data := r.Document
	if r.Entry != nil {
		data = r.Entry.AppendJSON(nil)
	}
	v, err := json.DecodeTree(data, json.TreeOptions{})
	require.NoError(t, err)
	return v.(map[string]any)
}

func at(t registry.Tree, path ...string) any {
	var v any = t
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

var inA = registry.Target{Resource: widgetResource, Namespace: "a"}

func named(name string) registry.Target {
	t := inA
	t.Name = name
	return t
}

func body(name string, size int, more string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":%q%s},"spec":{"size":%d}}`, name, more, size)
}

func create(t *testing.T, e *engine.Engine, name string) registry.Tree {
	t.Helper()
	r, err := e.Create(t.Context(), inA, body(name, 3, ""), registry.WriteOptions{})
	require.NoError(t, err)
	require.True(t, r.Created)
	return tree(t, r)
}

func merge(ctx context.Context, e *engine.Engine, target registry.Target, p string) (*registry.Result, error) {
	return e.Patch(ctx, target, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(p)}, registry.WriteOptions{})
}

func reason(t *testing.T, err error) meta.Reason {
	t.Helper()
	require.Error(t, err)
	return status.ReasonOf(err)
}

func TestHEALTH_26_StartedEngineIsReady(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		require.NoError(t, start(t, b, nil).Ready(), "no matter when its goroutines get to run")
	})
}

func TestCREATE_01_StoresAndReturnsWhatIsStored(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		got := create(t, e, "x")
		require.Equal(t, "example.dev/v1", got["apiVersion"])
		require.Equal(t, "Widget", got["kind"])
		require.Equal(t, "a", at(got, "metadata", "namespace"), "NS-03")
		require.Equal(t, "blue", at(got, "spec", "color"), "defaults are filled in")
		require.Equal(t, int64(1), at(got, "metadata", "generation"), "META-12")
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, at(got, "metadata", "uid"), "META-07")
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, at(got, "metadata", "creationTimestamp"), "META-05")
		require.NotEmpty(t, at(got, "metadata", "resourceVersion"))

		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, got, tree(t, &registry.Result{Entry: entry}))
	})
}

func TestNAME_01_SecondCreateIsRefused(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		_, err := e.Create(t.Context(), inA, body("x", 4, ""), registry.WriteOptions{})
		require.Equal(t, meta.ReasonAlreadyExists, reason(t, err))
		require.ErrorContains(t, err, `widgets.example.dev "x" already exists`)
		_, err = e.Create(t.Context(), inA, body("x", 4, ""), registry.WriteOptions{DryRun: true})
		require.Equal(t, meta.ReasonAlreadyExists, reason(t, err), "DRY-06")
		other := inA
		other.Namespace = "b"
		_, err = e.Create(t.Context(), other, body("x", 4, ""), registry.WriteOptions{})
		require.NoError(t, err, "NAME-02: another namespace")
	})
}

func TestNAME_03_AfterDeletionTheNameIsFreeAndTheUIDNew(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		first := create(t, e, "x")
		r, err := e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
		require.NoError(t, err)
		require.True(t, r.Removed)
		second := create(t, e, "x")
		require.NotEqual(t, at(first, "metadata", "uid"), at(second, "metadata", "uid"))
	})
}

func TestNAME_06_08_GeneratedNames(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	seen := map[any]bool{}
	for range 20 {
		r, err := e.Create(t.Context(), inA, []byte(`{"metadata":{"generateName":"a-"},"spec":{"size":1}}`), registry.WriteOptions{})
		require.NoError(t, err)
		name := at(tree(t, r), "metadata", "name")
		require.Regexp(t, `^a-[bcdfghjklmnpqrstvwxz2456789]{5}$`, name)
		require.Equal(t, "a-", at(tree(t, r), "metadata", "generateName"), "META-02")
		require.False(t, seen[name])
		seen[name] = true
	}
	long := fmt.Sprintf(`{"metadata":{"generateName":"%080d"},"spec":{"size":1}}`, 0)
	r, err := e.Create(t.Context(), inA, []byte(long), registry.WriteOptions{})
	require.NoError(t, err)
	require.Len(t, at(tree(t, r), "metadata", "name"), 63)
}

// same is a source of randomness that always says the same.
type same byte

func (s same) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s)
	}
	return len(p), nil
}

func TestNAME_09_CollisionsOfGeneratedNamesEndAfterEightAttempts(t *testing.T) {
	creates := 0
	count := admission.Plugin{Name: "count", Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { creates++; return nil })}
	chain, err := admission.NewChain(count)
	require.NoError(t, err)
	e := start(t, memory.New(), func(c *engine.Config) { c.Rand, c.Admission = same(7), chain }, widgets())
	generate := []byte(`{"metadata":{"generateName":"a-"},"spec":{"size":1}}`)
	_, err = e.Create(t.Context(), inA, generate, registry.WriteOptions{})
	require.NoError(t, err)
	creates = 0
	_, err = e.Create(t.Context(), inA, generate, registry.WriteOptions{})
	require.Equal(t, meta.ReasonAlreadyExists, reason(t, err))
	require.Equal(t, 8, creates)
	require.ErrorContains(t, err, "not able to generate a unique name")
	require.Equal(t, 1, status.From(err).RetryAfterSeconds())
}

func TestNAME_10_11_META_16_InvalidMetadataNamesEveryField(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	_, err := e.Create(t.Context(), inA, []byte(`{"spec":{"size":1}}`), registry.WriteOptions{})
	require.ErrorContains(t, err, "metadata.name: Required value: name or generateName is required")

	_, err = e.Create(t.Context(), inA, body("Bad_Name", 0, `,"labels":{"-bad":"ok","ok":"not ok"},"finalizers":["no domain/"],"ownerReferences":[{"kind":"x"}]`), registry.WriteOptions{})
	require.Equal(t, meta.ReasonInvalid, reason(t, err))
	var fields []string
	for _, c := range status.From(err).Status().Details.Causes {
		fields = append(fields, c.Field)
	}
	slices.Sort(fields)
	for _, want := range []string{"metadata.name", "metadata.labels", "metadata.finalizers[0]", "metadata.ownerReferences[0].uid", "spec.size"} {
		require.Contains(t, fields, want)
	}
}

func TestMETA_13_FinalizersMayRepeat(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	_, err := e.Create(t.Context(), inA, body("x", 1, `,"finalizers":["example.com/a","example.com/a"]`), registry.WriteOptions{})
	require.NoError(t, err) // clients append without a look at what is there
	x := inA
	x.Name = "x"
	for _, p := range []registry.PatchRequest{
		{Type: meta.MergePatch, Body: []byte(`{"spec":{"size":2}}`)},
		{Type: meta.MergePatch, Body: []byte(`{"metadata":{"finalizers":["example.com/a"]}}`)},
	} {
		_, err = e.Patch(t.Context(), x, p, registry.WriteOptions{})
		require.NoError(t, err)
	}
}

func TestB14_ServerFieldsOfANewObjectAreTheServers(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	r, err := e.Create(t.Context(), inA, body("x", 1, `,"uid":"mine","generation":99,"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z","selfLink":"/x"`), registry.WriteOptions{})
	require.NoError(t, err)
	got := tree(t, r)
	require.NotEqual(t, "mine", at(got, "metadata", "uid"))
	require.Equal(t, int64(1), at(got, "metadata", "generation"))
	require.NotContains(t, at(got, "metadata", "creationTimestamp"), "2001")
	require.Nil(t, at(got, "metadata", "deletionTimestamp"))
	require.Nil(t, at(got, "metadata", "selfLink"))
	_, err = e.Create(t.Context(), inA, body("y", 1, `,"resourceVersion":"5"`), registry.WriteOptions{})
	require.Equal(t, meta.ReasonBadRequest, reason(t, err), "META-18")
}

func TestP7_P8_BodyAndURLMustAgree(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	create(t, e, "x")
	for name, call := range map[string]func() error{
		"another name": func() error {
			_, err := e.Update(t.Context(), named("x"), body("y", 1, ""), registry.WriteOptions{})
			return err
		},
		"no name": func() error {
			_, err := e.Update(t.Context(), named("x"), []byte(`{"spec":{"size":1}}`), registry.WriteOptions{})
			return err
		},
		"another namespace": func() error {
			_, err := e.Create(t.Context(), inA, body("z", 1, `,"namespace":"b"`), registry.WriteOptions{})
			return err
		},
		"another kind": func() error {
			_, err := e.Create(t.Context(), inA, []byte(`{"kind":"Gadget","metadata":{"name":"z"},"spec":{"size":1}}`), registry.WriteOptions{})
			return err
		},
		"another version": func() error {
			_, err := e.Create(t.Context(), inA, []byte(`{"apiVersion":"v1","metadata":{"name":"z"},"spec":{"size":1}}`), registry.WriteOptions{})
			return err
		},
		"a list":  func() error { _, err := e.Create(t.Context(), inA, []byte(`[]`), registry.WriteOptions{}); return err },
		"nothing": func() error { _, err := e.Create(t.Context(), inA, nil, registry.WriteOptions{}); return err },
		"two objects": func() error {
			_, err := e.Create(t.Context(), inA, []byte(`{}{}`), registry.WriteOptions{})
			return err
		},
		"patched name": func() error { _, err := merge(t.Context(), e, named("x"), `{"metadata":{"name":"y"}}`); return err },
	} {
		require.Equal(t, meta.ReasonBadRequest, reason(t, call()), name)
	}
	_, err := e.Get(t.Context(), named("z"), registry.ListRequest{})
	require.Equal(t, meta.ReasonNotFound, reason(t, err))
}

func TestUPDATE_02_StaleVersionsConflictAndChangeNothing(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		old := create(t, e, "x")
		rv := at(old, "metadata", "resourceVersion").(string)
		_, err := e.Update(t.Context(), named("x"), body("x", 5, `,"resourceVersion":"`+rv+`"`), registry.WriteOptions{})
		require.NoError(t, err)
		_, err = e.Update(t.Context(), named("x"), body("x", 6, `,"resourceVersion":"`+rv+`"`), registry.WriteOptions{})
		require.Equal(t, meta.ReasonConflict, reason(t, err))
		require.ErrorContains(t, err, "please apply your changes to the latest version and try again", "UPDATE-07")
		r, err := e.Update(t.Context(), named("x"), body("x", 7, ""), registry.WriteOptions{})
		require.NoError(t, err, "UPDATE-08: unconditional")
		require.Equal(t, int64(3), at(tree(t, r), "metadata", "generation"))
		require.Equal(t, at(old, "metadata", "uid"), at(tree(t, r), "metadata", "uid"))
	})
}

func TestUPDATE_05_08_PutOfAbsentAndUnversioned(t *testing.T) {
	e := start(t, memory.New(), nil, widgets(), zones())
	_, err := e.Update(t.Context(), named("absent"), body("absent", 1, ""), registry.WriteOptions{})
	require.Equal(t, meta.ReasonNotFound, reason(t, err))
	zone := registry.Target{Resource: zoneResource, Name: "z"}
	put := []byte(`{"metadata":{"name":"z"},"spec":{"size":1}}`)
	refused := status.Forbidden(meta.GroupResource{Resource: "zones"}, "z", "no")
	_, err = e.Update(t.Context(), zone, put, registry.WriteOptions{MayCreate: func(context.Context) error { return refused }})
	require.Equal(t, meta.ReasonForbidden, reason(t, err), "UPDATE-10")
	r, err := e.Update(t.Context(), zone, put, registry.WriteOptions{MayCreate: func(context.Context) error { return nil }})
	require.NoError(t, err)
	require.True(t, r.Created)
	_, err = e.Update(t.Context(), zone, put, registry.WriteOptions{})
	require.ErrorContains(t, err, "metadata.resourceVersion: Invalid value: 0: must be specified for an update")
}

func TestUPDATE_09_NoChangeNoWrite(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		before, err := b.Revision(t.Context())
		require.NoError(t, err)
		r, err := e.Update(t.Context(), named("x"), entry.AppendJSON(nil), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, entry.Revision(), r.Entry.Revision())
		_, err = merge(t.Context(), e, named("x"), `{"spec":{"color":"blue"}}`)
		require.NoError(t, err)
		after, err := b.Revision(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

func TestUPDATE_11_Z4_StatusAndSpecAreKeptApart(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	created, err := e.Create(t.Context(), inA, []byte(`{"metadata":{"name":"x"},"spec":{"size":1},"status":{"phase":"Mine"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.Nil(t, at(tree(t, created), "status"), "a new object has no status")

	sub := named("x")
	sub.Subresource = "status"
	r, err := e.Update(t.Context(), sub, []byte(`{"metadata":{"name":"x","labels":{"a":"b"}},"spec":{"size":9},"status":{"phase":"Ready"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	got := tree(t, r)
	require.Equal(t, "Ready", at(got, "status", "phase"))
	require.Equal(t, int64(1), at(got, "spec", "size"))
	require.Nil(t, at(got, "metadata", "labels"))
	require.Equal(t, int64(1), at(got, "metadata", "generation"))

	r, err = merge(t.Context(), e, named("x"), `{"spec":{"size":2},"status":{"phase":"Broken"}}`)
	require.NoError(t, err)
	require.Equal(t, "Ready", at(tree(t, r), "status", "phase"))
	require.Equal(t, int64(2), at(tree(t, r), "metadata", "generation"))
	r, err = merge(t.Context(), e, sub, `{"spec":{"size":7},"status":{"phase":"Done"}}`)
	require.NoError(t, err)
	require.Equal(t, "Done", at(tree(t, r), "status", "phase"))
	require.Equal(t, int64(2), at(tree(t, r), "spec", "size"))
}

func TestMETA_13_Finalizers(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		_, err := e.Create(t.Context(), inA, body("x", 1, `,"finalizers":["example.dev/hold","example.dev/also"]`), registry.WriteOptions{})
		require.NoError(t, err)
		r, err := e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
		require.NoError(t, err)
		require.False(t, r.Removed)
		marked := tree(t, r)
		require.NotNil(t, at(marked, "metadata", "deletionTimestamp"), "META-06")
		require.Equal(t, int64(2), at(marked, "metadata", "generation"), "META-12")

		again, err := e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
		require.NoError(t, err)
		require.Equal(t, r.Entry.Revision(), again.Entry.Revision(), "asking twice changes nothing")

		_, err = e.Create(t.Context(), inA, body("x", 1, ""), registry.WriteOptions{})
		require.Equal(t, meta.ReasonAlreadyExists, reason(t, err))
		require.ErrorContains(t, err, "object is being deleted: ", "NAME-12")

		_, err = merge(t.Context(), e, named("x"), `{"metadata":{"finalizers":["example.dev/hold","example.dev/also","example.dev/new"]}}`)
		require.ErrorContains(t, err, "no new finalizers can be added")
		_, err = merge(t.Context(), e, named("x"), `{"metadata":{"finalizers":["example.dev/hold"],"deletionTimestamp":null}}`)
		require.NoError(t, err)
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.NotNil(t, entry.Facts().Deleted)

		r, err = merge(t.Context(), e, named("x"), `{"metadata":{"finalizers":null}}`)
		require.NoError(t, err)
		require.True(t, r.Removed)
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.Equal(t, meta.ReasonNotFound, reason(t, err))
	})
}

func TestDEL_10_PoliciesLeaveFinalizersForACollector(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	for policy, finalizer := range map[meta.DeletionPropagation]string{
		meta.DeletePropagationOrphan: "orphan", meta.DeletePropagationForeground: "foregroundDeletion",
	} {
		create(t, e, "x")
		r, err := e.Delete(t.Context(), named("x"), registry.DeleteOptions{Propagation: policy})
		require.NoError(t, err)
		require.Equal(t, []any{finalizer}, at(tree(t, r), "metadata", "finalizers"))
		r, err = merge(t.Context(), e, named("x"), `{"metadata":{"finalizers":[]}}`)
		require.NoError(t, err)
		require.True(t, r.Removed)
	}
}

func TestDEL_11_W9_Preconditions(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	first := create(t, e, "x")
	_, err := merge(t.Context(), e, named("x"), `{"spec":{"size":4}}`)
	require.NoError(t, err)
	rv, err := storage.ParseRevision(at(first, "metadata", "resourceVersion").(string))
	require.NoError(t, err)
	_, err = e.Delete(t.Context(), named("x"), registry.DeleteOptions{ResourceVersion: rv})
	require.Equal(t, meta.ReasonConflict, reason(t, err))
	_, err = e.Delete(t.Context(), named("x"), registry.DeleteOptions{UID: "another"})
	require.Equal(t, meta.ReasonConflict, reason(t, err))
	_, err = e.Delete(t.Context(), named("x"), registry.DeleteOptions{UID: meta.UID(at(first, "metadata", "uid").(string))})
	require.NoError(t, err)
}

func TestDRY_01_NothingIsStored(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		before, err := b.Revision(t.Context())
		require.NoError(t, err)
		dry := registry.WriteOptions{DryRun: true}
		r, err := e.Create(t.Context(), inA, body("y", 1, ""), dry)
		require.NoError(t, err)
		require.True(t, r.Created)
		require.NotEmpty(t, at(tree(t, r), "metadata", "uid"), "DRY-04")
		r, err = e.Update(t.Context(), named("x"), body("x", 9, ""), dry)
		require.NoError(t, err)
		require.Equal(t, int64(9), at(tree(t, r), "spec", "size"))
		r, err = e.Delete(t.Context(), named("x"), registry.DeleteOptions{DryRun: true})
		require.NoError(t, err)
		require.True(t, r.Removed)
		n, err := e.DeleteCollection(t.Context(), inA, registry.ListRequest{}, registry.DeleteOptions{DryRun: true})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		after, err := b.Revision(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after)
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
	})
}

func TestPATCH_16_WritersOfDifferentFieldsSeeNoConflict(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		var group sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			group.Go(func() {
				_, errs[i] = merge(t.Context(), e, named("x"), fmt.Sprintf(`{"metadata":{"labels":{"l%d":"v"}}}`, i))
			})
		}
		group.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.Len(t, entry.Labels(), 16)
	})
}

func TestPATCH_04_AVersionInThePatchIsAPrecondition(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	old := create(t, e, "x")
	_, err := merge(t.Context(), e, named("x"), `{"spec":{"size":4}}`)
	require.NoError(t, err)
	_, err = merge(t.Context(), e, named("x"), fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"size":5}}`, at(old, "metadata", "resourceVersion")))
	require.Equal(t, meta.ReasonConflict, reason(t, err))
	_, err = merge(t.Context(), e, named("absent"), `{}`)
	require.Equal(t, meta.ReasonNotFound, reason(t, err), "PATCH-13")
}

func TestB13_PatchesDoNotReachWhatIsTheServers(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	old := create(t, e, "x")
	for _, p := range []string{
		`{"metadata":{"creationTimestamp":null}}`, `{"metadata":{"generation":77}}`, `{"metadata":{"selfLink":"/x"}}`,
		`{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`, `{"kind":null}`, `{"apiVersion":null}`, `{"metadata":{"uid":null}}`,
	} {
		r, err := merge(t.Context(), e, named("x"), p)
		require.NoError(t, err, p)
		require.Equal(t, old, tree(t, r), p)
	}
	_, err := merge(t.Context(), e, named("x"), `{"metadata":{"uid":"another"}}`)
	require.Equal(t, meta.ReasonInvalid, reason(t, err))
	_, err = merge(t.Context(), e, named("x"), `{"kind":"Gadget"}`)
	require.Equal(t, meta.ReasonBadRequest, reason(t, err))
}

func TestQUERY_23_FieldValidation(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	sent := []byte(`{"metadata":{"name":"x"},"spec":{"size":1,"size":2,"colour":"red"}}`)
	_, err := e.Create(t.Context(), inA, sent, registry.WriteOptions{FieldValidation: meta.FieldValidationStrict})
	require.Equal(t, meta.ReasonBadRequest, reason(t, err))
	require.ErrorContains(t, err, `strict decoding error: duplicate field "spec.size", unknown field "spec.colour"`)

	ctx, warnings := collected(t.Context())
	r, err := e.Create(ctx, inA, sent, registry.WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{`duplicate field "spec.size"`, `unknown field "spec.colour"`}, warnings())
	require.Equal(t, int64(2), at(tree(t, r), "spec", "size"), "the last one counts")
	require.Nil(t, at(tree(t, r), "spec", "colour"))

	ctx, warnings = collected(t.Context())
	_, err = e.Update(ctx, named("x"), sent, registry.WriteOptions{FieldValidation: meta.FieldValidationIgnore})
	require.NoError(t, err)
	require.Empty(t, warnings())
}

func TestRule20_StepsRunInOrderAndAdmissionSeesWhatIsStored(t *testing.T) {
	var order []string
	kind := widgets()
	kind.Rules.Default = func(_ context.Context, w *widget) { order = append(order, "default") }
	kind.Rules.Validate = func(_ context.Context, w *widget, f *status.Fields) {
		order = append(order, "validate")
		if w.Spec.Note == "bad" {
			f.At("spec", "note").Invalid(w.Spec.Note, "must not be bad")
		}
	}
	kind.Rules.ValidateUpdate = func(_ context.Context, w, old *widget, f *status.Fields) { order = append(order, "validateUpdate") }
	var final, before registry.Tree
	plugin := admission.Plugin{
		Name: "test",
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			order = append(order, "mutate")
			out := maps.Clone(r.Object)
			spec := maps.Clone(out["spec"].(map[string]any))
			spec["owner"] = "injected"
			delete(spec, "color")
			out["spec"] = spec
			return out, nil
		}),
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			order = append(order, "admit")
			final, before = r.Object, r.OldObject
			return nil
		}),
	}
	chain, err := admission.NewChain(plugin)
	require.NoError(t, err)
	e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, kind)
	r, err := e.Create(t.Context(), inA, body("x", 1, ""), registry.WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"default", "mutate", "default", "validate", "admit"}, order)
	stored := tree(t, r)
	require.Equal(t, "injected", at(stored, "spec", "owner"))
	require.Equal(t, "blue", at(stored, "spec", "color"), "defaulted again after mutation")
	require.Equal(t, stored["spec"], final["spec"])

	order = nil
	_, err = merge(t.Context(), e, named("x"), `{"spec":{"note":"ok"}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"default", "mutate", "default", "validate", "validateUpdate", "admit"}, order)
	require.Equal(t, stored, before, "X1: the old object is what is stored")
	_, err = merge(t.Context(), e, named("x"), `{"spec":{"note":"bad","size":0}}`)
	require.Len(t, status.From(err).Status().Details.Causes, 2, "errors of schema and hook come together")
}

func TestRule7_AnIdentityHookChangesNoByte(t *testing.T) {
	plain := start(t, memory.New(), nil, widgets())
	kind := widgets()
	kind.Rules.Default = func(context.Context, *widget) {}
	hooked := start(t, memory.New(), nil, kind)
	sent := []byte(`{"metadata":{"name":"x","annotations":{},"labels":{"a":"b"}},"spec":{"size":1,"note":""}}`)
	strip := func(e *engine.Engine) registry.Tree {
		r, err := e.Create(t.Context(), inA, sent, registry.WriteOptions{})
		require.NoError(t, err)
		got := tree(t, r)
		for _, f := range []string{"uid", "creationTimestamp", "resourceVersion"} {
			delete(got["metadata"].(map[string]any), f)
		}
		return got
	}
	require.Equal(t, strip(plain), strip(hooked))
}

func TestRule9_ANewDefaultShowsWithoutAWriteAndMigratesOnReplace(t *testing.T) {
	type before struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata,omitzero"`
		Spec            struct {
			Size int32 `json:"size"`
		} `json:"spec"`
	}
	backends(t, func(t *testing.T, b storage.Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		old, err := engine.New(engine.Config{Store: storage.New(b)})
		require.NoError(t, err)
		require.NoError(t, old.Start(ctx))
		r, err := registry.Kind[before]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}}.Resource()
		require.NoError(t, err)
		require.NoError(t, old.Install(ctx, r))
		first := create(t, old, "x")
		require.Nil(t, at(first, "spec", "color"))
		cancel()
		old.Wait()

		e := start(t, b, nil, widgets())
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		got := tree(t, &registry.Result{Entry: entry})
		require.Equal(t, "blue", at(got, "spec", "color"))
		require.Equal(t, at(first, "metadata", "resourceVersion"), at(got, "metadata", "resourceVersion"))
		replaced, err := e.Update(t.Context(), named("x"), entry.AppendJSON(nil), registry.WriteOptions{})
		require.NoError(t, err)
		require.Greater(t, replaced.Entry.Revision(), entry.Revision(), "get and replace migrates")
		again, err := e.Update(t.Context(), named("x"), replaced.Entry.AppendJSON(nil), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, replaced.Entry.Revision(), again.Entry.Revision())
	})
}

func TestPAGE_ChunksShowOneSnapshot(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		for i := range 5 {
			create(t, e, fmt.Sprintf("w%d", i))
		}
		var names []string
		lr := registry.ListRequest{Limit: 2}
		var version storage.Revision
		for page := 0; ; page++ {
			l, err := e.List(t.Context(), inA, lr)
			require.NoError(t, err)
			if page == 0 {
				version = l.Revision
				require.Equal(t, int64(3), *l.Remaining, "COLL-08")
				create(t, e, "w00")
				_, err = e.Delete(t.Context(), named("w4"), registry.DeleteOptions{})
				require.NoError(t, err)
			}
			require.Equal(t, version, l.Revision, "COLL-06")
			for entry, err := range l.Items {
				require.NoError(t, err)
				names = append(names, entry.Name())
			}
			if l.Continue == "" {
				break
			}
			lr.Continue = l.Continue
		}
		require.Equal(t, []string{"w0", "w1", "w2", "w3", "w4"}, names)

		other := inA
		other.Namespace = "b"
		_, err := e.List(t.Context(), other, lr)
		require.Equal(t, meta.ReasonBadRequest, reason(t, err), "PAGE-09")
		for _, bad := range []string{"!", "e30", lr.Continue[:len(lr.Continue)-4] + "AAAA"} {
			_, err = e.List(t.Context(), inA, registry.ListRequest{Limit: 2, Continue: bad})
			require.Equal(t, meta.ReasonBadRequest, reason(t, err), "PAGE-05 %s", bad)
		}
	})
}

// A client that asks for an old state in chunks of any size must not decide how much memory that takes.
func TestSEC_W8_ALargeChunkOfAnOldStateIsNotHeld(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	const objects, bytes = 2000, 10 << 10
	owner := strings.Repeat("x", bytes)
	for i := range objects {
		body := fmt.Sprintf(`{"metadata":{"name":"w%05d"},"spec":{"size":3,"owner":%q}}`, i, owner)
		_, err := e.Create(t.Context(), inA, []byte(body), registry.WriteOptions{})
		require.NoError(t, err)
	}
	l, err := e.List(t.Context(), inA, registry.ListRequest{Limit: 1})
	require.NoError(t, err)
	create(t, e, "x")
	for _, limit := range []int64{objects - 1, objects, 1 << 62} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l, err := e.List(t.Context(), inA, registry.ListRequest{Match: meta.ResourceVersionMatchExact, Version: l.Revision - 1, Limit: limit})
		require.NoError(t, err)
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(objects*bytes/2), "limit %d", limit)
		n := 0
		for entry, err := range l.Items {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("w%05d", n), entry.Name())
			n++
		}
		require.Equal(t, min(limit, objects-1), int64(n))
		require.Empty(t, l.Continue)
	}
}

func TestPAGE_08_AnExpiredTokenBringsOneThatGoesOn(t *testing.T) {
	b := memory.New()
	e := start(t, b, nil, widgets())
	for i := range 4 {
		create(t, e, fmt.Sprintf("w%d", i))
	}
	l, err := e.List(t.Context(), inA, registry.ListRequest{Limit: 2})
	require.NoError(t, err)
	create(t, e, "x")
	head, err := b.Revision(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.Compact(t.Context(), head))
	restarted := start(t, b, nil, widgets()) // nothing pinned
	_, err = restarted.List(t.Context(), inA, registry.ListRequest{Limit: 2, Continue: l.Continue})
	require.Equal(t, meta.ReasonExpired, reason(t, err))
	fresh := status.From(err).Status().Continue
	require.NotEmpty(t, fresh)
	l, err = restarted.List(t.Context(), inA, registry.ListRequest{Limit: 10, Continue: fresh})
	require.NoError(t, err)
	var names []string
	for entry, err := range l.Items {
		require.NoError(t, err)
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"w2", "w3", "x"}, names)
}

func TestLIST_ExactAndFuture(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	create(t, e, "x")
	l, err := e.List(t.Context(), inA, registry.ListRequest{})
	require.NoError(t, err)
	create(t, e, "y")
	exact, err := e.List(t.Context(), inA, registry.ListRequest{Match: meta.ResourceVersionMatchExact, Version: l.Revision})
	require.NoError(t, err)
	require.Equal(t, l.Revision, exact.Revision)
	require.Len(t, entriesOf(t, exact), 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = e.List(ctx, inA, registry.ListRequest{Match: meta.ResourceVersionMatchNotOlderThan, Version: l.Revision + 1e9})
	require.Equal(t, meta.ReasonTimeout, reason(t, err), "LIST-34")
	require.ErrorContains(t, err, "Too large resource version")
}

func TestQUERY_20_SelectableFields(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	create(t, e, "x")
	_, err := merge(t.Context(), e, named("x"), `{"spec":{"owner":"eve"}}`)
	require.NoError(t, err)
	create(t, e, "y")
	for selector, want := range map[string]int{"spec.owner=eve": 1, "spec.owner!=eve": 1, "metadata.name=y": 1, "metadata.namespace=b": 0, "spec.owner=": 1} {
		f, err := meta.ParseFieldSelector(selector)
		require.NoError(t, err)
		l, err := e.List(t.Context(), inA, registry.ListRequest{Fields: f})
		require.NoError(t, err)
		require.Len(t, entriesOf(t, l), want, selector)
	}
	f, err := meta.ParseFieldSelector("spec.size=3")
	require.NoError(t, err)
	_, err = e.List(t.Context(), inA, registry.ListRequest{Fields: f})
	require.Equal(t, meta.ReasonBadRequest, reason(t, err))
	require.ErrorContains(t, err, `"spec.size" is not a known field selector`)
}

// follow collects the types and names of n events.
func follow(t *testing.T, c *watch.Cursor, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	var events []watch.Event
	for len(got) < n {
		var err error
		events, err = c.Next(ctx, events[:0])
		require.NoError(t, err)
		for _, ev := range events {
			if ev.Entry == nil {
				got = append(got, string(ev.Type))
				continue
			}
			got = append(got, string(ev.Type)+" "+ev.Entry.Name())
		}
	}
	return got
}

func TestWATCH_FromVersionAndFromTheStart(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		l, err := e.List(t.Context(), inA, registry.ListRequest{})
		require.NoError(t, err)
		create(t, e, "y")
		_, err = merge(t.Context(), e, named("x"), `{"spec":{"size":4}}`)
		require.NoError(t, err)
		_, err = e.DeleteCollection(t.Context(), inA, registry.ListRequest{}, registry.DeleteOptions{})
		require.NoError(t, err)
		c, err := e.Follow(t.Context(), inA, registry.WatchRequest{After: l.Revision})
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, []string{"ADDED y", "MODIFIED x", "DELETED x", "DELETED y"}, follow(t, c, 4))

		create(t, e, "z")
		c2, err := e.Follow(t.Context(), inA, registry.WatchRequest{})
		require.NoError(t, err)
		defer c2.Close()
		require.Equal(t, []string{"ADDED z", "BOOKMARK"}, follow(t, c2, 2))
	})
}

func TestKindsComeAndGoWhileWatchesRun(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		generation := e.Set().Generation()
		zone, err := zones().Resource()
		require.NoError(t, err)
		c, err := e.Follow(t.Context(), inA, registry.WatchRequest{})
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, []string{"ADDED x", "BOOKMARK"}, follow(t, c, 2))
		require.NoError(t, e.Install(t.Context(), zone))
		require.Greater(t, e.Set().Generation(), generation)
		_, err = e.Create(t.Context(), registry.Target{Resource: zoneResource}, []byte(`{"metadata":{"name":"z"},"spec":{"size":1}}`), registry.WriteOptions{})
		require.NoError(t, err)
		require.Error(t, e.Install(t.Context(), zone), "P11: a name belongs to one resource")

		e.Remove(widgetResource.GroupResource())
		_, err = c.Next(t.Context(), nil)
		require.ErrorIs(t, err, watch.ErrGone)
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.Equal(t, meta.ReasonNotFound, reason(t, err))
		again, err := widgets().Resource()
		require.NoError(t, err)
		require.NoError(t, e.Install(t.Context(), again))
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err, "what was stored is still there")
	})
}

// A read that waits while the server ends is told to come back, also when its connection is broken off at that moment.
func TestAReadThatWaitsForTheEnd(t *testing.T) {
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	e, err := engine.New(engine.Config{Store: storage.New(b)})
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	require.NoError(t, e.Start(ctx))
	bundle, err := widgets().Define(registry.Env{GroupDomain: "k8s.io"})
	require.NoError(t, err)
	require.NoError(t, e.Install(ctx, bundle.Resources...))
	l, err := e.List(ctx, inA, registry.ListRequest{})
	require.NoError(t, err)
	end()
	e.Wait()
	future := registry.ListRequest{Match: meta.ResourceVersionMatchNotOlderThan, Version: l.Revision + 1e9}
	for _, ctx := range []context.Context{t.Context(), ctx} {
		_, err = e.List(ctx, inA, future)
		require.Equal(t, 503, status.CodeOf(err), "%v", err)
		_, err = e.Follow(ctx, inA, registry.WatchRequest{After: future.Version})
		require.Equal(t, 503, status.CodeOf(err), "%v", err)
	}
}

// entriesOf returns what a list holds.
func entriesOf(t *testing.T, l *registry.List) []*watch.Entry {
	t.Helper()
	var out []*watch.Entry
	for entry, err := range l.Items {
		require.NoError(t, err)
		out = append(out, entry)
	}
	return out
}

func TestMETA_13_ManyLabelsAndFinalizers(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	labels, finalizers := map[string]string{}, []string{}
	for i := range 3000 {
		labels[fmt.Sprintf("example.dev/l%d", i)] = "v"
		finalizers = append(finalizers, fmt.Sprintf("example.dev/f%d", i))
	}
	create := func(name string) error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "labels": labels, "finalizers": finalizers}, "spec": map[string]any{"size": 3}})
		require.NoError(t, err)
		_, err = e.Create(t.Context(), inA, body, registry.WriteOptions{})
		return err
	}
	require.NoError(t, create("many"), "their bytes are bounded, not their number")
	labels["example.dev/long"], finalizers = "v", append(finalizers, strings.Repeat("f", 256<<10))
	require.Equal(t, meta.ReasonInvalid, reason(t, create("long")))
}
