package engine_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// withZones are widgets whose note names the zones that come and go with them.
func withZones(t *testing.T, complete func(context.Context, registry.Tree, registry.Tree) (registry.Tree, error)) *registry.Resource {
	t.Helper()
	r, err := widgets().Resource()
	require.NoError(t, err)
	r.Hooks.Complete = complete
	noted := func(t registry.Tree) []string {
		note, _ := at(t, "spec", "note").(string)
		return strings.Fields(note)
	}
	r.Hooks.Objects = func(old, next registry.Tree) (out []registry.Companion, err error) {
		before, after := noted(old), noted(next)
		for _, name := range after {
			if !strings.Contains(" "+strings.Join(before, " ")+" ", " "+name+" ") {
				out = append(out, registry.Companion{Target: zoneNamed(name), Body: zone(name), FieldManager: "keeper"})
			}
		}
		for _, name := range before {
			if !strings.Contains(" "+strings.Join(after, " ")+" ", " "+name+" ") {
				out = append(out, registry.Companion{Target: zoneNamed(name)})
			}
		}
		return out, nil
	}
	return r
}

func zoneNamed(name string) registry.Target {
	return registry.Target{Resource: zoneResource, Name: name}
}

func startWithZones(t *testing.T, b storage.Backend) *engine.Engine {
	t.Helper()
	e := start(t, b, nil, zones())
	require.NoError(t, e.Install(t.Context(), withZones(t, nil)))
	return e
}

func createNoted(t *testing.T, e *engine.Engine, name, note string) *registry.Result {
	t.Helper()
	made, err := e.Create(t.Context(), inA, body(name, 3, ""), registry.WriteOptions{DryRun: true})
	require.NoError(t, err)
	require.NotNil(t, made)
	made, err = e.Create(t.Context(), inA, fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":%q},
		"spec":{"size":3,"note":%q}}`, name, note), registry.WriteOptions{})
	require.NoError(t, err)
	return made
}

func hasZone(t *testing.T, e *engine.Engine, name string) bool {
	t.Helper()
	_, err := e.Get(t.Context(), zoneNamed(name), registry.ListRequest{})
	if err != nil {
		require.True(t, status.IsNotFound(err), "%v", err)
	}
	return err == nil
}

func TestOBJECTS_ComeAndGoInTheCommitOfAnother(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := startWithZones(t, b)
		began, err := b.Revision(t.Context())
		require.NoError(t, err)
		made := createNoted(t, e, "x", "z1 z2")
		page, err := b.History(t.Context(), storage.HistoryRequest{Prefix: "/r/", After: began, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Batches, 1)
		require.Len(t, page.Batches[0].Changes, 3)
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, made.Entry.Revision(), entry.Revision(), "the answer has the version of the object, and not the last of the commit")

		one, err := e.Get(t.Context(), zoneNamed("z1"), registry.ListRequest{})
		require.NoError(t, err)
		got := tree(t, &registry.Result{Entry: one})
		require.Equal(t, "blue", at(got, "spec", "color"), "it takes every step of a write")
		require.NotEmpty(t, at(got, "metadata", "uid"))
		require.Contains(t, fmt.Sprint(at(got, "metadata", "managedFields")), "keeper")

		_, err = merge(t.Context(), e, named("x"), `{"spec":{"note":"z2 z3"}}`)
		require.NoError(t, err)
		require.Equal(t, []bool{false, true, true}, []bool{hasZone(t, e, "z1"), hasZone(t, e, "z2"), hasZone(t, e, "z3")})

		_, err = e.Delete(t.Context(), zoneNamed("z3"), registry.DeleteOptions{})
		require.NoError(t, err)
		_, err = merge(t.Context(), e, zoneNamed("z2"), `{"metadata":{"finalizers":["example.dev/f"]}}`)
		require.NoError(t, err)
		_, err = e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
		require.NoError(t, err, "one that is gone is no obstacle")
		held, err := e.Get(t.Context(), zoneNamed("z2"), registry.ListRequest{})
		require.NoError(t, err)
		require.True(t, held.Deleting(), "its own finalizer holds it")
	})
}

func TestOBJECTS_WhatIsRefusedRefusesAll(t *testing.T) {
	e := startWithZones(t, memory.New())
	_, err := e.Create(t.Context(), inA, []byte(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"x"},
		"spec":{"size":3,"note":"z1 Bad_Name"}}`), registry.WriteOptions{})
	require.Equal(t, meta.ReasonInvalid, reason(t, err))
	require.False(t, hasZone(t, e, "z1"))
	_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
	require.True(t, status.IsNotFound(err))
}

// Two servers on one store give zones out. What one has just made the other does not see yet.
func TestOBJECTS_ExistOnceOnAnyNumberOfServers(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var servers []*engine.Engine
	for range 2 {
		var e *engine.Engine
		choose := func(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
			if old != nil {
				return t, nil
			}
			for i := 0; ; i++ {
				name := fmt.Sprintf("z%d", i)
				if _, err := e.Get(ctx, zoneNamed(name), registry.ListRequest{}); status.IsNotFound(err) {
					out := registry.Tree{}
					for k, v := range t {
						out[k] = v
					}
					out["spec"] = map[string]any{"size": int64(3), "note": name}
					return out, nil
				}
			}
		}
		e = start(t, newRemote(db), nil, zones())
		require.NoError(t, e.Install(t.Context(), withZones(t, choose)))
		servers = append(servers, e)
	}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			_, err := servers[i%2].Create(t.Context(), inA, body(fmt.Sprintf("x%d", i), 3, ""), registry.WriteOptions{})
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	group.Wait()
	seen := map[any]bool{}
	for i := range 40 {
		entry, err := servers[0].Get(t.Context(), named(fmt.Sprintf("x%d", i)), registry.ListRequest{})
		require.NoError(t, err)
		note := at(tree(t, &registry.Result{Entry: entry}), "spec", "note")
		require.False(t, seen[note], "%v is given out twice", note)
		require.True(t, hasZone(t, servers[1], note.(string)))
		seen[note] = true
	}
	for i := range 40 { // by the server that may not know of the zone yet
		_, err := servers[(i+1)%2].Delete(t.Context(), named(fmt.Sprintf("x%d", i)), registry.DeleteOptions{})
		require.NoError(t, err)
	}
	list, err := servers[0].List(t.Context(), registry.Target{Resource: zoneResource}, registry.ListRequest{})
	require.NoError(t, err)
	for one, err := range list.Items {
		require.NoError(t, err)
		t.Errorf("%s is left over", one.Name())
	}
}

// lateWatch is a store whose watches bring nothing between late and the next Sync.
type lateWatch struct {
	storage.Backend

	gate atomic.Pointer[chan struct{}] // closed when the watches go on
}

func (*lateWatch) Exclusive() bool { return false }

func (l *lateWatch) late() {
	gate := make(chan struct{})
	l.gate.Store(&gate)
}

func (l *lateWatch) goOn() {
	if gate := l.gate.Swap(nil); gate != nil {
		close(*gate)
	}
}

func (l *lateWatch) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	l.goOn()
	return l.Backend.Sync(ctx, prefix)
}

func (l *lateWatch) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range l.Backend.Watch(ctx, prefix, after) {
			if gate := l.gate.Load(); gate != nil {
				<-*gate
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// A server that knows that the zone of a widget has gone does not know that another server has made it anew.
func TestOBJECTS_NoneIsLeftBehindForWantOfNews(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	first, slow := startWithZones(t, newRemote(db)), &lateWatch{Backend: db}
	second := startWithZones(t, slow)
	t.Cleanup(slow.goOn)
	createNoted(t, first, "x", "z1")
	_, err := first.Delete(t.Context(), zoneNamed("z1"), registry.DeleteOptions{})
	require.NoError(t, err)
	require.False(t, hasZone(t, second, "z1"))
	slow.late()
	_, err = first.Create(t.Context(), registry.Target{Resource: zoneResource}, zone("z1"), registry.WriteOptions{})
	require.NoError(t, err)
	_, err = second.Delete(t.Context(), named("x"), registry.DeleteOptions{})
	require.NoError(t, err)
	require.False(t, hasZone(t, first, "z1"))
}
