package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// gear is a kind whose versions say different things.
type gear struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            gearSpec `json:"spec,omitzero"`
}

type gearSpec struct {
	Teeth   int32             `json:"teeth" minimum:"1"`
	Owner   string            `json:"owner,omitempty" selectable:""`
	Color   string            `json:"color,omitempty" default:"blue"`
	Secret  string            `json:"secret,omitempty"` // which v1beta1 does not have
	Parts   []gearPart        `json:"parts,omitempty" list:"map,key=name"`
	Steps   []gearPart        `json:"steps,omitempty"`
	Notes   map[string]string `json:"notes,omitempty"`
	Nothing *string           `json:"nothing,omitempty"`
}

type gearPart struct {
	Name string `json:"name"`
	Size int32  `json:"size,omitempty"`
	Tag  string `json:"tag,omitempty"` // which v1beta1 does not have
}

// betaGear is a gear of v1beta1.
type betaGear struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Cogs            int32             `json:"cogs"`
	Keeper          string            `json:"keeper,omitempty" selectable:""`
	Parts           []betaPart        `json:"parts,omitempty" list:"map,key=name"`
	Steps           []betaPart        `json:"steps,omitempty"`
	Notes           map[string]string `json:"notes,omitempty"`
	Seconds         int32             `json:"seconds,omitempty"` // stored as minutes
	Shine           string            `json:"shine,omitempty"`   // which nobody stores
}

type betaPart struct {
	Name string `json:"name"`
	Size int32  `json:"size,omitempty"`
}

func toGear(b *betaGear) (*gear, error) {
	switch b.Keeper {
	case "nobody":
		f := &status.Fields{}
		f.At("keeper").Invalid(b.Keeper, "must be somebody")
		return nil, status.Invalid(meta.GroupKind{Group: "example.dev", Kind: "Gear"}, b.Name, f.Errors())
	case "error":
		return nil, errors.New("secret reason")
	case "panic":
		panic("secret reason")
	case "nil":
		return nil, nil
	}
	g := &gear{ObjectMeta: meta.ObjectMeta{Name: "another", UID: "of its own"}, Spec: gearSpec{Teeth: b.Cogs, Owner: b.Keeper, Notes: b.Notes}}
	for _, p := range b.Parts {
		g.Spec.Parts = append(g.Spec.Parts, gearPart{Name: p.Name, Size: p.Size})
	}
	for _, p := range b.Steps {
		g.Spec.Steps = append(g.Spec.Steps, gearPart{Name: p.Name, Size: p.Size})
	}
	if b.Seconds > 0 {
		text := fmt.Sprint(b.Seconds / 60)
		g.Spec.Nothing = &text
	}
	return g, nil
}

func fromGear(g *gear) (*betaGear, error) {
	switch g.Spec.Owner {
	case "unshowable":
		return nil, errors.New("secret reason")
	case "panics":
		panic("secret reason")
	}
	b := &betaGear{Cogs: g.Spec.Teeth, Keeper: g.Spec.Owner, Notes: g.Spec.Notes}
	for _, p := range g.Spec.Parts {
		b.Parts = append(b.Parts, betaPart{p.Name, p.Size})
	}
	for _, p := range g.Spec.Steps {
		b.Steps = append(b.Steps, betaPart{p.Name, p.Size})
	}
	if g.Spec.Nothing != nil {
		var minutes int32
		_, _ = fmt.Sscan(*g.Spec.Nothing, &minutes)
		b.Seconds = minutes * 60
	}
	return b, nil
}

func betaGears() registry.Kind[betaGear] {
	return registry.Kind[betaGear]{Group: "example.dev", Version: "v1beta1", Plural: "gears", Names: registry.Names{Kind: "Gear"}}
}

// gears serves v1, which is stored, and v1beta1.
func gears() registry.Kind[gear] {
	return registry.Kind[gear]{
		Group: "example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"},
		Also: []registry.Form{registry.As(betaGears(), toGear, fromGear, map[string]string{"keeper": "spec.owner"})},
	}
}

// gearsOfOld stores v1beta1 and serves nothing else.
func gearsOfOld() registry.Kind[betaGear] { return betaGears() }

func gearAt(version, name string) registry.Target {
	return registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: version, Resource: "gears"}, Namespace: "a", Name: name}
}

func v1Gear(t *testing.T, e *engine.Engine, name, spec string) registry.Tree {
	t.Helper()
	r, err := e.Create(t.Context(), gearAt("v1", ""), []byte(`{"metadata":{"name":"`+name+`"},"spec":`+spec+`}`), registry.WriteOptions{})
	require.NoError(t, err)
	return tree(t, r)
}

func get(t *testing.T, e *engine.Engine, target registry.Target) registry.Tree {
	t.Helper()
	entry, err := e.Get(t.Context(), target, registry.ListRequest{})
	require.NoError(t, err)
	return tree(t, &registry.Result{Entry: entry})
}

func TestVER_15_WhatAVersionCannotSayStays(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, gears())
		v1Gear(t, e, "x", `{"teeth":4,"secret":"s","color":"red","notes":{"a":"1","b":"2"},
			"parts":[{"name":"p","size":1,"tag":"tp"},{"name":"q","size":2,"tag":"tq"}],"steps":[{"name":"s","tag":"ts"},{"name":"t","tag":"tt"}]}`)
		beta := gearAt("v1beta1", "x")

		_, err := merge(t.Context(), e, beta, `{"cogs":5,"notes":{"a":null,"c":"3"},"parts":[{"name":"q","size":7},{"name":"new"},{"name":"p","size":1}]}`)
		require.NoError(t, err)
		require.Equal(t, map[string]any{
			"teeth": int64(5), "secret": "s", "color": "red", "notes": map[string]any{"b": "2", "c": "3"},
			"parts": []any{map[string]any{"name": "q", "size": int64(7), "tag": "tq"}, map[string]any{"name": "new"}, map[string]any{"name": "p", "size": int64(1), "tag": "tp"}},
			"steps": []any{map[string]any{"name": "s", "tag": "ts"}, map[string]any{"name": "t", "tag": "tt"}},
		}, at(get(t, e, gearAt("v1", "x")), "spec"))

		put := get(t, e, beta)
		put["steps"] = []any{map[string]any{"name": "t"}, map[string]any{"name": "u"}}
		delete(put, "parts")
		_, err = e.Update(t.Context(), beta, encoded(t, put), registry.WriteOptions{})
		require.NoError(t, err)
		spec := at(get(t, e, gearAt("v1", "x")), "spec").(map[string]any)
		require.Equal(t, "s", spec["secret"])
		require.NotContains(t, spec, "parts")
		require.Equal(t, []any{map[string]any{"name": "t", "tag": "tt"}, map[string]any{"name": "u"}}, spec["steps"], "an item that was there before is known again")

		before := get(t, e, gearAt("v1", "x"))
		same, err := e.Update(t.Context(), beta, encoded(t, get(t, e, beta)), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, at(before, "metadata", "resourceVersion"), same.Entry.Revision().String(), "no change, no write")
		r, err := e.Create(t.Context(), gearAt("v1beta1", ""), []byte(`{"metadata":{"name":"y"},"cogs":1}`), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, "y", at(tree(t, r), "metadata", "name"), "metadata are not the conversion's")
		require.Equal(t, "blue", at(get(t, e, gearAt("v1", "y")), "spec", "color"), "defaults of the stored form")
	})
}

func TestVER_15_WhatIsStoredCannotSayIsRefused(t *testing.T) {
	e := start(t, memory.New(), nil, gears())
	beta := gearAt("v1beta1", "")
	_, err := e.Create(t.Context(), beta, []byte(`{"metadata":{"name":"x"},"cogs":1,"shine":"bright"}`), registry.WriteOptions{})
	require.True(t, status.IsInvalid(err))
	require.ErrorContains(t, err, "shine: Forbidden: would be lost: objects are stored as example.dev/v1, which does not keep it")

	// A value that comes back as another is stored, and said.
	ctx, warned := collected(t.Context())
	_, err = e.Create(ctx, beta, []byte(`{"metadata":{"name":"x"},"cogs":1,"seconds":90}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"seconds is kept as another value, because objects are stored as example.dev/v1"}, warned())
	require.Equal(t, int64(60), at(get(t, e, gearAt("v1beta1", "x")), "seconds"))
	dry, err := e.Create(t.Context(), beta, []byte(`{"metadata":{"name":"y"},"cogs":1,"seconds":90}`), registry.WriteOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, int64(60), at(tree(t, dry), "seconds"), "a dry run says what would be stored")
}

func TestVER_15_StoredRulesHoldInEveryVersion(t *testing.T) {
	k := gears()
	k.Rules.Validate = func(_ context.Context, g *gear, f *status.Fields) {
		if g.Spec.Teeth == 13 {
			f.At("spec", "teeth").Invalid(g.Spec.Teeth, "unlucky")
		}
	}
	k.Rules.ValidateUpdate = func(_ context.Context, g, old *gear, f *status.Fields) {
		if g.Spec.Secret != old.Spec.Secret || g.Spec.Owner != old.Spec.Owner {
			f.At("spec").Forbidden("owner and secret are for ever")
		}
	}
	k.Rules.BeforeDelete = func(_ context.Context, g *gear) error {
		if g.Spec.Secret == "s" {
			return status.Conflict(meta.GroupResource{Resource: "gears"}, g.Name, "it has a secret")
		}
		return nil
	}
	e := start(t, memory.New(), nil, k)
	v1Gear(t, e, "x", `{"teeth":4,"secret":"s"}`)
	beta := gearAt("v1beta1", "x")
	_, err := merge(t.Context(), e, beta, `{"cogs":13}`)
	require.ErrorContains(t, err, "spec.teeth: Invalid value: 13: unlucky")
	_, err = merge(t.Context(), e, beta, `{"keeper":"eve"}`)
	require.ErrorContains(t, err, "owner and secret are for ever")
	_, err = merge(t.Context(), e, beta, `{"cogs":5}`)
	require.NoError(t, err, "the secret is not lost on the way")
	_, err = e.Delete(t.Context(), beta, registry.DeleteOptions{})
	require.ErrorContains(t, err, "it has a secret")
}

func TestVER_15_ConversionsThatFail(t *testing.T) {
	var mu sync.Mutex
	var logged []string
	e := start(t, memory.New(), func(c *engine.Config) {
		c.Logger = funcr.New(func(_, args string) { mu.Lock(); logged = append(logged, args); mu.Unlock() }, funcr.Options{})
	}, gears())
	beta := gearAt("v1beta1", "")
	for keeper, want := range map[string]string{"error": "secret reason", "panic": "panicked: secret reason", "nil": "returned nothing"} {
		_, err := e.Create(t.Context(), beta, []byte(`{"metadata":{"name":"x"},"cogs":1,"keeper":"`+keeper+`"}`), registry.WriteOptions{})
		require.Equal(t, meta.ReasonInternalError, reason(t, err))
		require.Equal(t, `Internal error occurred: gears.example.dev "a/x" cannot be stored as example.dev/v1; the server's log has the cause`, err.Error())
		require.ErrorContains(t, errors.Unwrap(err), want, "which is logged")
		if keeper == "panic" {
			require.Contains(t, fmt.Sprint(guard.WithStack(err)), "toGear", "and where")
		}
	}
	_, err := e.Create(t.Context(), beta, []byte(`{"metadata":{"name":"x"},"cogs":1,"keeper":"nobody"}`), registry.WriteOptions{})
	require.True(t, status.IsInvalid(err), "what the conversion has against the client's object is the client's to know")
	require.ErrorContains(t, err, "keeper: Invalid value")

	// One object that has no form in a version: whoever would be shown it is told which it is, and it can be mended or
	// deleted where it has one.
	for i := range 3 {
		v1Gear(t, e, fmt.Sprintf("fine%d", i), `{"teeth":4}`)
	}
	for _, owner := range []string{"unshowable", "panics"} {
		v1Gear(t, e, "m", `{"teeth":4,"owner":"`+owner+`"}`)
		const says = `gears.example.dev "a/m" cannot be shown as example.dev/v1beta1; the server's log has the cause`
		_, err = e.Get(t.Context(), gearAt("v1beta1", "m"), registry.ListRequest{})
		require.ErrorContains(t, err, says)
		_, err = e.List(t.Context(), beta, registry.ListRequest{})
		require.ErrorContains(t, err, says, "before anything is sent")
		l, err := e.List(t.Context(), gearAt("v1", ""), registry.ListRequest{})
		require.NoError(t, err)
		require.Len(t, entriesOf(t, l), 4)
		other, err := meta.ParseFieldSelector("metadata.name!=m")
		require.NoError(t, err)
		l, err = e.List(t.Context(), beta, registry.ListRequest{Fields: other})
		require.NoError(t, err, "the others can be listed")
		require.Len(t, entriesOf(t, l), 3)
		_, err = merge(t.Context(), e, gearAt("v1beta1", "m"), `{"cogs":5}`)
		require.ErrorContains(t, err, says)
		_, err = e.Delete(t.Context(), gearAt("v1", "m"), registry.DeleteOptions{})
		require.NoError(t, err)
		l, err = e.List(t.Context(), beta, registry.ListRequest{})
		require.NoError(t, err)
		require.Len(t, entriesOf(t, l), 3)
	}
}

// A conversion that fails in the middle of a list nobody has seen fail before ends it with an error.
func TestVER_15_AListEndsAtWhatCannotBeShown(t *testing.T) {
	e := start(t, memory.New(), nil, gears())
	v1Gear(t, e, "a", `{"teeth":4}`)
	v1Gear(t, e, "b", `{"teeth":4,"owner":"unshowable"}`)
	l, err := e.List(t.Context(), gearAt("v1beta1", ""), registry.ListRequest{})
	require.NoError(t, err)
	var names []string
	for entry, err := range l.Items {
		if err != nil {
			require.ErrorContains(t, err, `"a/b" cannot be shown`)
			break
		}
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"a"}, names)
}

// run starts an engine that the test ends by itself.
func run(t *testing.T, b storage.Backend, change func(*engine.Config), d registry.Definition) (e *engine.Engine, stop func(), err error) {
	t.Helper()
	cfg := engine.Config{Store: storage.New(b)}
	if change != nil {
		change(&cfg)
	}
	e, err = engine.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stop = sync.OnceFunc(func() { cancel(); e.Wait() })
	t.Cleanup(stop)
	require.NoError(t, e.Start(ctx))
	bundle, err := d.Define(registry.Env{})
	require.NoError(t, err)
	return e, stop, e.Install(ctx, bundle.Resources...)
}

func unmigrated(c *engine.Config) { c.Migration = engine.MigrateNothing }

func TestRule9_RecordsOfAnotherVersion(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e, stop, err := run(t, b, nil, gearsOfOld())
		require.NoError(t, err)
		for _, name := range []string{"x", "y"} {
			_, err = e.Create(t.Context(), gearAt("v1beta1", ""), []byte(`{"metadata":{"name":"`+name+`"},"cogs":7,"keeper":"eve"}`), registry.WriteOptions{FieldManager: "maker"})
			require.NoError(t, err)
		}
		written := get(t, e, gearAt("v1beta1", "x"))
		stop()

		alone := gears()
		alone.Also = nil
		_, stop, err = run(t, b, unmigrated, alone)
		require.ErrorContains(t, err, `the object "a/x" was written as a "Gear" of "example.dev/v1beta1", from which no conversion is known`)
		stop()

		revision, err := b.Revision(t.Context())
		require.NoError(t, err)
		e, stop, err = run(t, b, unmigrated, gears())
		require.NoError(t, err)
		now := get(t, e, gearAt("v1", "x"))
		require.Equal(t, "example.dev/v1", now["apiVersion"])
		require.Equal(t, int64(7), at(now, "spec", "teeth"))
		require.Equal(t, "blue", at(now, "spec", "color"))
		require.Equal(t, at(written, "metadata"), at(now, "metadata"), "the same object at the same version")
		require.Equal(t, written, get(t, e, gearAt("v1beta1", "x")))
		f, err := meta.ParseFieldSelector("spec.owner=eve")
		require.NoError(t, err)
		l, err := e.List(t.Context(), gearAt("v1", ""), registry.ListRequest{Fields: f})
		require.NoError(t, err)
		require.Len(t, entriesOf(t, l), 2)
		after, err := b.Revision(t.Context())
		require.NoError(t, err)
		require.Equal(t, revision, after, "nothing is written by reading")

		same, err := e.Update(t.Context(), gearAt("v1", "x"), encoded(t, now), registry.WriteOptions{FieldManager: "maker"})
		require.NoError(t, err)
		require.NotEqual(t, at(now, "metadata", "resourceVersion"), same.Entry.Revision().String(), "a plain PUT migrates")
		stop()

		_, stop, err = run(t, b, unmigrated, alone)
		require.ErrorContains(t, err, `"a/y" was written`, "one is left")
		stop()
	})
}

func TestRule22_OwnersOfVersionsThatAreGone(t *testing.T) {
	b := memory.New()
	e, stop, err := run(t, b, nil, gears())
	require.NoError(t, err)
	_, err = e.Create(t.Context(), gearAt("v1beta1", ""), []byte(`{"metadata":{"name":"x"},"cogs":7}`), registry.WriteOptions{FieldManager: "old"})
	require.NoError(t, err)
	_, err = e.Patch(t.Context(), gearAt("v1", "x"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"owner":"eve"}}`)}, registry.WriteOptions{FieldManager: "new"})
	require.NoError(t, err)
	require.Len(t, at(get(t, e, gearAt("v1", "x")), "metadata", "managedFields"), 2)

	// Hidden is not gone: the owner is not forgotten while a version is switched off.
	e.RemoveVersions(gearAt("v1beta1", "").Resource)
	_, err = e.Patch(t.Context(), gearAt("v1", "x"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"owner":"adam"}}`)}, registry.WriteOptions{FieldManager: "new"})
	require.NoError(t, err)
	require.Equal(t, []string{"new", "old"}, owners(get(t, e, gearAt("v1", "x"))))
	stop()

	alone := gears()
	alone.Also = nil
	e, _, err = run(t, b, nil, alone)
	require.NoError(t, err)
	require.Equal(t, []string{"new", "old"}, owners(get(t, e, gearAt("v1", "x"))), "nothing is written by a start")
	_, err = e.Patch(t.Context(), gearAt("v1", "x"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"owner":"eve"}}`)}, registry.WriteOptions{FieldManager: "new"})
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, owners(get(t, e, gearAt("v1", "x"))))
}

func owners(t registry.Tree) []string {
	var out []string
	for _, entry := range at(t, "metadata", "managedFields").([]any) {
		out = append(out, entry.(map[string]any)["manager"].(string))
	}
	slices.Sort(out)
	return out
}

func TestVersionsComeAndGoWhileTheServerRuns(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		stored, err := registry.Kind[gear]{Group: "example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"}}.Resource()
		require.NoError(t, err)
		e := start(t, b, nil)
		require.NoError(t, e.Install(t.Context(), stored))
		v1Gear(t, e, "x", `{"teeth":4}`)
		require.NoError(t, e.Install(t.Context(), betaForm(t)))
		require.Equal(t, int64(4), get(t, e, gearAt("v1beta1", "x"))["cogs"])
		v1, v1beta1 := gearAt("v1", "").Resource, gearAt("v1beta1", "").Resource

		// The stored version goes, the objects stay.
		was, ok := e.Set().Lookup(v1)
		require.True(t, ok)
		ended, generation := was.Ended(), e.Set().Generation()
		e.RemoveVersions(v1, meta.GroupVersionResource{Resource: "unknown"})
		require.Error(t, ended.Err(), "its watches end")
		require.Greater(t, e.Set().Generation(), generation)
		_, ok = e.Set().Lookup(v1)
		require.False(t, ok)
		require.Len(t, e.Set().All(), 1)
		count := 0
		for s := range e.Set().Stored() {
			require.Equal(t, stored.GroupVersionResource(), s.Resource.GroupVersionResource(), "what looks after all objects still finds them")
			count++
		}
		require.Equal(t, 1, count)
		_, err = merge(t.Context(), e, gearAt("v1beta1", "x"), `{"cogs":5}`)
		require.NoError(t, err)
		require.Equal(t, int64(5), at(get(t, e, gearAt("v1", "x")), "spec", "teeth"), "the Go API reaches it")

		// It comes back.
		require.NoError(t, e.Install(t.Context(), stored))
		back, ok := e.Set().Lookup(v1)
		require.True(t, ok)
		require.NoError(t, back.Ended().Err())
		require.Error(t, e.Install(t.Context(), stored), "once")

		// The other one goes, and comes back in another description.
		e.RemoveVersions(v1beta1)
		_, ok = e.Set().Lookup(v1beta1)
		require.False(t, ok)
		require.NoError(t, e.Install(t.Context(), betaForm(t)))
		require.Equal(t, int64(5), get(t, e, gearAt("v1beta1", "x"))["cogs"])

		// With its last version the resource goes.
		e.RemoveVersions(v1, v1beta1)
		for range e.Set().Stored() {
			require.Fail(t, "it is still there")
		}
		_, err = e.Get(t.Context(), gearAt("v1", "x"), registry.ListRequest{})
		require.True(t, status.IsNotFound(err))
		require.NoError(t, e.Install(t.Context(), stored))
		require.Equal(t, int64(5), at(get(t, e, gearAt("v1", "x")), "spec", "teeth"), "what is stored stays")
	})
}

func TestAFormOfAnotherGoType(t *testing.T) {
	gears := registry.Kind[gear]{Group: "example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"}}
	gears.Also = []registry.Form{registry.As(betaGears(), func(*betaGear) (*widget, error) { return nil, nil }, func(*widget) (*betaGear, error) { return nil, nil }, nil)}
	_, err := gears.Define(registry.Env{})
	require.ErrorContains(t, err, "what is stored is engine_test.gear")
}

// betaForm describes the gears of v1beta1.
func betaForm(t *testing.T) *registry.Resource {
	gears := registry.Kind[gear]{Group: "example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"}}
	gears.Also = []registry.Form{registry.As(betaGears(), toGear, fromGear, map[string]string{"keeper": "spec.owner"})}
	bundle, err := gears.Define(registry.Env{})
	require.NoError(t, err)
	return bundle.Resources[1]
}

// migrated waits until a migration has ended.
func migrated(t *testing.T, e *engine.Engine) engine.MigrationStatus {
	t.Helper()
	var st engine.MigrationStatus
	require.Eventually(t, func() bool {
		all := e.Migrations()
		if len(all) == 1 {
			st = all[0]
		}
		return len(all) == 1 && !st.Ended.IsZero()
	}, time.Minute, time.Millisecond)
	return st
}

func TestMigrationWritesAnewWhatWasStoredInAnotherVersion(t *testing.T) {
	const objects = 300
	backends(t, func(t *testing.T, b storage.Backend) {
		old := gearsOfOld()
		old.Writes.TTL = time.Hour // whose clock a migration does not set back
		e, stop, err := run(t, b, nil, old)
		require.NoError(t, err)
		for i := range objects {
			_, err = e.Create(t.Context(), gearAt("v1beta1", ""), fmt.Appendf(nil, `{"metadata":{"name":"g%03d"},"cogs":7}`, i), registry.WriteOptions{})
			require.NoError(t, err)
		}
		before, err := b.Revision(t.Context())
		require.NoError(t, err)
		stop()

		k := gears()
		k.Writes.TTL = time.Hour
		e, stop, err = run(t, b, nil, k)
		require.NoError(t, err)
		w, err := e.Follow(t.Context(), gearAt("v1", ""), registry.WatchRequest{After: before})
		require.NoError(t, err)
		defer w.Close()
		st := migrated(t, e)
		require.Equal(t, engine.MigrationStatus{
			Resource: meta.GroupResource{Group: "example.dev", Resource: "gears"}, Version: "example.dev/v1", Done: objects, Started: st.Started, Ended: st.Ended,
		}, st)
		for _, event := range follow(t, w, objects) {
			require.True(t, strings.HasPrefix(event, "MODIFIED g"), event)
		}
		require.Eventually(t, func() bool {
			_, err := b.Get(t.Context(), storage.SysKey("migration", "example.dev/gears"))
			return err == nil
		}, time.Minute, time.Millisecond)
		stop()

		k.Also = nil
		e, _, err = run(t, b, nil, k)
		require.NoError(t, err, "nothing needs the other version any more")
		require.Empty(t, e.Migrations())
		require.Equal(t, int64(7), at(get(t, e, gearAt("v1", "g007")), "spec", "teeth"))
		rev, err := b.Revision(t.Context())
		require.NoError(t, err)
		require.Less(t, rev-before, storage.Revision(1<<40)) // of no matter how much
	})
}

// What has no place in the present form is not dropped behind anybody's back.
func TestMigrationKeepsWhatItWouldLose(t *testing.T) {
	b := memory.New()
	e, stop, err := run(t, b, nil, gearsOfOld())
	require.NoError(t, err)
	for name, more := range map[string]string{"plain": "", "shiny": `,"shine":"bright"`, "odd": `,"seconds":90`} {
		_, err = e.Create(t.Context(), gearAt("v1beta1", ""), []byte(`{"metadata":{"name":"`+name+`"},"cogs":7`+more+`}`), registry.WriteOptions{})
		require.NoError(t, err)
	}
	stop()
	e, stop, err = run(t, b, nil, gears())
	require.NoError(t, err)
	st := migrated(t, e)
	require.Equal(t, 1, st.Done)
	require.Equal(t, 2, st.Kept)
	require.NoError(t, e.Install(t.Context(), must(widgets().Resource())))
	require.Equal(t, []engine.MigrationStatus{st}, e.Migrations(), "another kind changes nothing about it")
	_, err = b.Get(t.Context(), storage.SysKey("migration", "example.dev/gears"))
	require.ErrorIs(t, err, storage.ErrNotFound, "it has not ended")
	stop()
	e, _, err = run(t, b, nil, gearsOfOld())
	require.ErrorContains(t, err, `"a/plain" was written`, "which is the only one of v1 now")
	_ = e
}

func must(r *registry.Resource, err error) *registry.Resource {
	if err != nil {
		panic(err)
	}
	return r
}

func TestMigrationOfSchemasIsForThoseWhoAsk(t *testing.T) {
	for mode, want := range map[engine.Migration]bool{engine.MigrateVersions: false, engine.MigrateSchemas: true, engine.MigrateNothing: false} {
		b := memory.New()
		k := widgets()
		e, stop, err := run(t, b, nil, k)
		require.NoError(t, err)
		create(t, e, "x")
		before := get(t, e, named("x"))
		stop()
		e, _, err = run(t, b, func(c *engine.Config) { c.Migration = mode }, defaulted())
		require.NoError(t, err)
		if want {
			require.Equal(t, 1, migrated(t, e).Done)
		}
		now := get(t, e, named("x"))
		require.Equal(t, "new", at(now, "spec", "added"))
		require.Equal(t, want, at(now, "metadata", "resourceVersion") != at(before, "metadata", "resourceVersion"))
		if !want {
			require.Empty(t, e.Migrations())
		}
	}
}

// collected returns a context that warnings can be given to, and what they are.
func collected(ctx context.Context) (context.Context, func() []string) {
	x := new(request.Exchange).Begin(new(http.Request).WithContext(ctx), "", time.Time{})
	return x, x.Warnings.Texts
}

func encoded(t *testing.T, tree registry.Tree) []byte {
	t.Helper()
	out, err := json.AppendTree(nil, tree)
	require.NoError(t, err)
	return out
}

// defaulted is widgets with another schema.
func defaulted() registry.Definition {
	type spec struct {
		Size  int32  `json:"size"`
		Color string `json:"color,omitempty"`
		Added string `json:"added,omitempty" default:"new"`
	}
	type widget struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata,omitzero"`
		Spec            spec `json:"spec"`
	}
	return registry.Kind[widget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}}
}

// A form is written to by the rules of what is stored, unless it has some of its own.
func TestFormsHaveTheWriteRulesOfWhatIsStored(t *testing.T) {
	k := gears()
	k.Writes = registry.WriteRules{CreateOnUpdate: true, NoGeneration: true}
	e := start(t, memory.New(), nil, k)
	r, err := e.Update(t.Context(), gearAt("v1beta1", "x"), []byte(`{"metadata":{"name":"x"},"cogs":1}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.True(t, r.Created)
	require.Nil(t, at(tree(t, r), "metadata", "generation"))
	_, err = merge(t.Context(), e, gearAt("v1beta1", "x"), `{"cogs":2}`)
	require.NoError(t, err)
	require.Nil(t, at(get(t, e, gearAt("v1", "x")), "metadata", "generation"))
}

// Kinds that nobody has a Go type of are converted as trees are.
func TestVER_15_FormsByHand(t *testing.T) {
	schema := func(field string) *openapi.Schema {
		s, problems := openapi.FromTree(map[string]any{"type": "object", "properties": map[string]any{
			"spec": map[string]any{"type": "object", "properties": map[string]any{field: map[string]any{"type": "integer"}, "extra": map[string]any{"type": "string"}}},
		}})
		require.Empty(t, problems)
		return s
	}
	stored := &registry.Resource{Group: "hand.example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"}, Schema: schema("teeth")}
	move := func(from, to string) func(context.Context, []registry.Tree) ([]registry.Tree, error) {
		return func(_ context.Context, objects []registry.Tree) ([]registry.Tree, error) {
			t := objects[0]
			switch at(t, "spec", "extra") {
			case "nil":
				return []registry.Tree{nil}, nil
			case "panic":
				panic("boom")
			}
			return []registry.Tree{{"spec": map[string]any{to: at(t, "spec", from), "extra": at(t, "spec", "extra"), "unknown": "junk"}, "metadata": "nonsense", "kind": int64(7)}}, nil
		}
	}
	old := &registry.Resource{
		Group: "hand.example.dev", Version: "v1beta1", Plural: "gears", Names: registry.Names{Kind: "Gear"}, Schema: schema("cogs"),
		Stored: &registry.Conversion{Resource: stored, To: move("cogs", "teeth"), From: move("teeth", "cogs")},
	}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), stored, old))
	of := func(version, name string) registry.Target {
		return registry.Target{Resource: meta.GroupVersionResource{Group: "hand.example.dev", Version: version, Resource: "gears"}, Namespace: "a", Name: name}
	}
	_, err := e.Create(t.Context(), of("v1beta1", ""), []byte(`{"metadata":{"name":"x"},"spec":{"cogs":7}}`), registry.WriteOptions{})
	require.NoError(t, err)
	got := get(t, e, of("v1", "x"))
	require.Equal(t, map[string]any{"teeth": int64(7)}, got["spec"], "what the schema does not know is not stored")
	require.Equal(t, "x", at(got, "metadata", "name"))
	require.Equal(t, "hand.example.dev/v1", got["apiVersion"])
	for extra, want := range map[string]string{"nil": "returned nothing", "panic": "panicked: boom"} {
		_, err = merge(t.Context(), e, of("v1beta1", "x"), `{"spec":{"extra":"`+extra+`"}}`)
		require.Equal(t, meta.ReasonInternalError, reason(t, err))
		require.ErrorContains(t, errors.Unwrap(err), want)
	}
	require.Equal(t, got, get(t, e, of("v1", "x")))
}

// Whoever is in the middle of something when versions come and go is not disturbed.
func TestVersionsComeAndGoAmongRequests(t *testing.T) {
	e := start(t, memory.New(), nil, gears())
	for i := range 20 {
		v1Gear(t, e, gearName(i), `{"teeth":1}`)
	}
	var forms []*registry.Resource
	for _, version := range []string{"v1", "v1beta1"} {
		s, ok := e.Set().Lookup(gearAt(version, "").Resource)
		require.True(t, ok)
		forms = append(forms, s.Resource)
	}
	l := &load{t: t, engine: e, objects: 20}
	for id := range 2 {
		l.writer(id)
		l.reader(10 + id)
	}
	for round := range 100 {
		form := forms[round%2]
		e.RemoveVersions(form.GroupVersionResource())
		require.Len(t, e.Set().All(), 1)
		time.Sleep(time.Millisecond)
		require.NoError(t, e.Install(t.Context(), form))
		require.Len(t, e.Set().All(), 2)
	}
	l.stop.Store(true)
	l.running.Wait()
	require.Positive(t, l.writes.Load())
}
