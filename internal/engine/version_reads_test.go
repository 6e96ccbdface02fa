package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// countedCalls counts the calls of conversions and what they were given.
type countedCalls struct{ calls, objects atomic.Int64 }

// since returns what was added since it was called last.
func (c *countedCalls) since() [2]int64 { return [2]int64{c.calls.Swap(0), c.objects.Swap(0)} }

type anyConversion = func(context.Context, []registry.Tree) ([]registry.Tree, error)

func (c *countedCalls) counted(convert anyConversion) anyConversion {
	return func(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error) {
		c.calls.Add(1)
		c.objects.Add(int64(len(objects)))
		return convert(ctx, objects)
	}
}

// countedGears is gears with conversions that are counted. change may replace the one to the stored form.
type countedGears struct {
	*countedCalls
	change func(to anyConversion) anyConversion
}

func (k countedGears) Define(env registry.Env) (registry.Bundle, error) {
	bundle, err := gears().Define(env)
	if err != nil {
		return bundle, err
	}
	for _, r := range bundle.Resources {
		if r.Stored == nil {
			continue
		}
		if k.change != nil {
			r.Stored.To = k.change(r.Stored.To)
		}
		r.Stored.To, r.Stored.From = k.counted(r.Stored.To), k.counted(r.Stored.From)
	}
	return bundle, nil
}

// oldGears fills a store with objects of v1beta1.
func oldGears(t testing.TB, objects int) storage.Backend {
	t.Helper()
	b := memory.New()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	cfg := engine.Config{Store: storage.New(b)}
	e, err := engine.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer func() { cancel(); e.Wait() }()
	require.NoError(t, e.Start(ctx))
	bundle, err := gearsOfOld().Define(registry.Env{})
	require.NoError(t, err)
	require.NoError(t, e.Install(ctx, bundle.Resources...))
	for i := range objects {
		body := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"n":"%d"}},"cogs":7,"keeper":"k%d"}`, gearName(i), i, i)
		_, err = e.Create(ctx, gearAt("v1beta1", ""), []byte(body), registry.WriteOptions{})
		require.NoError(t, err)
	}
	return b
}

func listed(t *testing.T, e *engine.Engine, version string, lr registry.ListRequest) []string {
	t.Helper()
	l, err := e.List(t.Context(), gearAt(version, ""), lr)
	require.NoError(t, err)
	var out []string
	for entry, err := range l.Items {
		require.NoError(t, err)
		out = append(out, string(entry.AppendJSON(nil)))
	}
	return out
}

func TestRecordsOfAnotherVersionAreConvertedWhenTheyAreRead(t *testing.T) {
	const objects = 10_000
	k := countedGears{countedCalls: &countedCalls{}}
	e, _, err := run(t, oldGears(t, objects), unmigrated, k)
	require.NoError(t, err)
	require.Zero(t, k.since(), "at the start")

	for _, version := range []string{"v1", "v1beta1"} {
		require.Len(t, listed(t, e, version, registry.ListRequest{MetadataOnly: true}), objects)
		entry, err := e.Get(t.Context(), gearAt(version, gearName(3)), registry.ListRequest{MetadataOnly: true})
		require.NoError(t, err)
		require.Equal(t, gearName(3), entry.Name())
	}
	require.Zero(t, k.since(), "for metadata")

	require.Contains(t, listed(t, e, "v1beta1", registry.ListRequest{})[5], `"keeper":"k5"`)
	require.Equal(t, int64(7), get(t, e, gearAt("v1beta1", gearName(3)))["cogs"])
	require.Zero(t, k.since(), "in the version they were written in")

	all := listed(t, e, "v1", registry.ListRequest{})
	require.Len(t, all, objects)
	require.Contains(t, all[5], `"owner":"k5"`)
	require.Contains(t, all[5], `"color":"blue"`, "with the defaults of the stored form")
	require.Equal(t, [2]int64{(objects + 127) / 128, objects}, k.since(), "many objects in a call")

	f, err := meta.ParseFieldSelector("spec.owner=k77")
	require.NoError(t, err)
	require.Len(t, listed(t, e, "v1", registry.ListRequest{Fields: f}), 1)
	require.Equal(t, [2]int64{1, 1}, k.since(), "what is selected alone")
	listed(t, e, "v1", registry.ListRequest{Fields: f}) // of the first list, others may have made it forgotten
	k.since()
	listed(t, e, "v1", registry.ListRequest{Fields: f})
	require.Zero(t, k.since(), "what is asked for again is kept")
}

func TestDeletingDoesNotConvert(t *testing.T) {
	k := countedGears{countedCalls: &countedCalls{}}
	e, _, err := run(t, oldGears(t, 300), unmigrated, k)
	require.NoError(t, err)
	_, err = e.Delete(t.Context(), gearAt("v1", gearName(1)), registry.DeleteOptions{MetadataOnly: true})
	require.NoError(t, err)
	marked, err := e.Delete(t.Context(), gearAt("v1", gearName(2)), registry.DeleteOptions{MetadataOnly: true, Propagation: meta.DeletePropagationForeground})
	require.NoError(t, err)
	require.False(t, marked.Removed)
	n, err := e.DeleteCollection(authn.WithUser(t.Context(), authn.User{Name: "x"}), gearAt("v1", ""), registry.ListRequest{}, registry.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, 299, n)
	require.Zero(t, k.since())
	left := listed(t, e, "v1beta1", registry.ListRequest{})
	require.Len(t, left, 1)
	require.Contains(t, left[0], `"deletionTimestamp"`)
	require.Contains(t, left[0], `"keeper":"k2"`, "the record keeps its version")
	require.Zero(t, k.since())
	require.Equal(t, "k2", at(get(t, e, gearAt("v1", gearName(2))), "spec", "owner"))
}

func TestSweepingANamespaceDoesNotConvert(t *testing.T) {
	k := countedGears{countedCalls: &countedCalls{}}
	e, _, err := run(t, oldGears(t, 100), unmigrated, k)
	require.NoError(t, err)
	s, ok := e.Set().Lookup(gearAt("v1", "").Resource)
	require.True(t, ok)
	require.NoError(t, e.Sweep(t.Context(), s, "a", s.Cache.Snapshot().Revision()+1))
	require.Zero(t, k.since())
	require.Empty(t, listed(t, e, "v1", registry.ListRequest{}))
}

func TestEventsOfRecordsInAnotherVersion(t *testing.T) {
	k := countedGears{countedCalls: &countedCalls{}}
	e, _, err := run(t, oldGears(t, 2), unmigrated, k)
	require.NoError(t, err)
	rev, err := e.Store().Revision(t.Context())
	require.NoError(t, err)
	for _, name := range []string{gearName(0), gearName(1)} {
		_, err = e.Delete(t.Context(), gearAt("v1", name), registry.DeleteOptions{})
		require.NoError(t, err)
	}
	k.since()
	for version, text := range map[string]string{"v1": `"owner":"k`, "v1beta1": `"keeper":"k`} {
		seen := 0
		for event, err := range e.Watch(t.Context(), gearAt(version, ""), registry.WatchRequest{After: rev}) {
			require.NoError(t, err)
			require.Equal(t, meta.Deleted, event.Type)
			require.Contains(t, string(event.Entry.AppendJSON(nil)), text)
			if seen++; seen == 2 {
				break
			}
		}
	}
	require.Equal(t, [2]int64{2, 2}, k.since(), "to v1 alone")
}

func TestRecordsThatCannotBeConverted(t *testing.T) {
	bad := errors.New("secret reason")
	for name, fail := range map[string]func(context.Context) error{
		"fails":  func(context.Context) error { return bad },
		"panics": func(context.Context) error { panic(bad) },
	} {
		t.Run(name, func(t *testing.T) {
			k := countedGears{&countedCalls{}, func(to anyConversion) anyConversion {
				return func(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error) {
					for _, o := range objects {
						if o["keeper"] == "k200" {
							if err := fail(ctx); err != nil {
								return nil, err
							}
						}
					}
					return to(ctx, objects)
				}
			}}
			e, _, err := run(t, oldGears(t, 300), unmigrated, k)
			require.NoError(t, err, "one object does not keep the others from being served")
			l, err := e.List(t.Context(), gearAt("v1", ""), registry.ListRequest{})
			require.NoError(t, err)
			n, failed := 0, error(nil)
			for _, err := range l.Items {
				if failed = err; err == nil {
					n++
				}
			}
			require.Equal(t, 200, n, "those before it")
			require.ErrorContains(t, failed, `"a/g000200" cannot be shown as example.dev/v1`)
			_, err = e.Get(t.Context(), gearAt("v1", gearName(200)), registry.ListRequest{})
			require.ErrorContains(t, err, "a/g000200")
			require.NotContains(t, err.Error(), "secret")
			require.Equal(t, "k199", at(get(t, e, gearAt("v1", gearName(199))), "spec", "owner"))
			require.Equal(t, "k200", get(t, e, gearAt("v1beta1", gearName(200)))["keeper"], "it can be read as it was written")
			require.Len(t, listed(t, e, "v1", registry.ListRequest{MetadataOnly: true}), 300)
			_, err = e.Patch(t.Context(), gearAt("v1", gearName(200)), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{}`)}, registry.WriteOptions{})
			require.Error(t, err)
			_, err = e.Delete(t.Context(), gearAt("v1beta1", gearName(200)), registry.DeleteOptions{})
			require.NoError(t, err, "and deleted")
		})
	}
}

func TestAConversionThatBlocksEndsWithItsRequest(t *testing.T) {
	k := countedGears{&countedCalls{}, func(anyConversion) anyConversion {
		return func(ctx context.Context, _ []registry.Tree) ([]registry.Tree, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}}
	e, _, err := run(t, oldGears(t, 300), unmigrated, k)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := e.List(ctx, gearAt("v1", ""), registry.ListRequest{})
	require.NoError(t, err)
	cancel()
	for _, err = range l.Items {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Error(t, err)
	require.Equal(t, [2]int64{1, 128}, k.since(), "nothing is tried one by one for nobody")
	_, err = e.List(t.Context(), gearAt("v1", ""), registry.ListRequest{})
	require.NoError(t, err, "the objects are not to blame")
}

// Fields that the written form does not have are read from what it is converted to.
func TestSelectableFieldsThatNeedAConversion(t *testing.T) {
	const objects = 300
	b := oldGears(t, objects)
	calls := &countedCalls{}
	e, _, err := run(t, b, unmigrated, teethGears{countedGears{countedCalls: calls}})
	require.NoError(t, err)
	require.Equal(t, [2]int64{(objects + 127) / 128, objects}, calls.since(), "many objects in a call")
	f, err := meta.ParseFieldSelector("spec.color=blue")
	require.NoError(t, err)
	require.Len(t, listed(t, e, "v1", registry.ListRequest{Fields: f}), objects)

	broken := countedGears{calls, func(to anyConversion) anyConversion {
		return func(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error) {
			for _, o := range objects {
				if o["keeper"] == "k200" {
					return nil, errors.New("no such keeper")
				}
			}
			return to(ctx, objects)
		}
	}}
	_, _, err = run(t, b, unmigrated, teethGears{broken})
	require.ErrorContains(t, err, `"a/g000200" cannot be shown`, "the one that cannot be read is named")
	require.ErrorContains(t, err, "no such keeper")
}

// teethGears lets clients select by a field that v1beta1 does not have.
type teethGears struct{ countedGears }

func (k teethGears) Define(env registry.Env) (registry.Bundle, error) {
	bundle, err := k.countedGears.Define(env)
	for _, r := range bundle.Resources {
		if r.Stored == nil {
			r.Selectable = append(r.Selectable, "spec.color")
		}
	}
	return bundle, err
}

// BenchmarkListOfAnotherVersion lists 10,000 objects that were stored in another version than the one that is asked for.
func BenchmarkListOfAnotherVersion(b *testing.B) {
	store := oldGears(b, 10_000)
	cfg := engine.Config{Store: storage.New(store), Migration: engine.MigrateNothing}
	for _, version := range []string{"v1", "v1beta1"} {
		b.Run(version, func(b *testing.B) {
			e, err := engine.New(cfg)
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(context.Background())
			defer func() { cancel(); e.Wait() }()
			require.NoError(b, e.Start(ctx))
			bundle, err := gears().Define(registry.Env{})
			require.NoError(b, err)
			require.NoError(b, e.Install(ctx, bundle.Resources...))
			b.ReportAllocs()
			for b.Loop() {
				l, err := e.List(ctx, gearAt(version, ""), registry.ListRequest{})
				require.NoError(b, err)
				for _, err := range l.Items {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
