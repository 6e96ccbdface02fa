package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// ownWrites are the ways to change an object. Objects x and held are there; held has a finalizer.
var ownWrites = map[string]func(t *testing.T, e *engine.Engine) error{
	"create": func(t *testing.T, e *engine.Engine) error {
		_, err := e.Create(t.Context(), inA, body("y", 1, ""), registry.WriteOptions{})
		return err
	},
	"create of another kind": func(t *testing.T, e *engine.Engine) error {
		zones := registry.Target{Resource: zoneResource}
		_, err := e.Create(t.Context(), zones, zone("z"), registry.WriteOptions{})
		return err
	},
	"update": func(t *testing.T, e *engine.Engine) error {
		_, err := e.Update(t.Context(), named("x"), body("x", 5, ""), registry.WriteOptions{})
		return err
	},
	"patch": func(t *testing.T, e *engine.Engine) error {
		_, err := merge(t.Context(), e, named("x"), `{"spec":{"size":9}}`)
		return err
	},
	"apply that creates": func(t *testing.T, e *engine.Engine) error {
		_, err := applyAs(t, e, named("y"), "one", string(body("y", 4, "")))
		return err
	},
	"status": func(t *testing.T, e *engine.Engine) error {
		sub := named("x")
		sub.Subresource = "status"
		_, err := merge(t.Context(), e, sub, `{"status":{"phase":"new"}}`)
		return err
	},
	"delete": func(t *testing.T, e *engine.Engine) error {
		_, err := e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
		return err
	},
	"delete of what a finalizer holds": func(t *testing.T, e *engine.Engine) error {
		_, err := e.Delete(t.Context(), named("held"), registry.DeleteOptions{})
		return err
	},
	"delete of a collection": func(t *testing.T, e *engine.Engine) error {
		_, err := e.DeleteCollection(t.Context(), inA, registry.ListRequest{}, registry.DeleteOptions{})
		return err
	},
}

func zone(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Zone","metadata":{"name":%q},
		"spec":{"size":1}}`, name)
}

// newestChange returns the revision of the newest change to an object.
func newestChange(t *testing.T, db storage.Backend, after storage.Revision) storage.Revision {
	t.Helper()
	past := storage.HistoryRequest{Prefix: "/r/", After: after, Limit: 100}
	page, err := db.History(t.Context(), past)
	require.NoError(t, err)
	require.NotEmpty(t, page.Batches, "the store has changed")
	return page.Batches[len(page.Batches)-1].Revision
}

// mark returns the revision of the bookmark after the initial events of a watch for any state.
func mark(t *testing.T, e *engine.Engine, target registry.Target) storage.Revision {
	t.Helper()
	ctx := t.Context()
	cursor, err := e.Follow(ctx, target, registry.WatchRequest{AnyState: true})
	require.NoError(t, err)
	defer cursor.Close()
	for {
		events, err := cursor.Next(ctx, nil)
		require.NoError(t, err)
		for _, event := range events {
			if event.Type == meta.Bookmark {
				return event.Revision
			}
		}
	}
}

// WATCH-07, rule 4: what this server has answered, it shows to all who ask it for any state, of
// whatever kind, although the watch over the store is late. So no version is told that is below one
// that a client of this server was told before.
func TestRule4_AnyStateIsNoOlderThanWhatThisServerHasAnswered(t *testing.T) {
	for name, write := range ownWrites {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				b := newRemote(db)
				e := start(t, b, nil, widgets(), zones())
				create(t, e, "x")
				held := body("held", 1, `,"finalizers":["example.com/a"]`)
				_, err := e.Create(t.Context(), inA, held, registry.WriteOptions{})
				require.NoError(t, err)
				before, err := b.Sync(t.Context(), "")
				require.NoError(t, err)
				synctest.Wait()

				require.NoError(t, write(t, e))
				acknowledged := newestChange(t, db, before)
				const late = 400 * time.Millisecond
				timer := time.AfterFunc(late, func() { _, _ = b.Sync(context.Background(), "") })
				defer timer.Stop()
				asked := time.Now()
				for _, target := range []registry.Target{inA, {Resource: zoneResource}} {
					require.GreaterOrEqual(t, mark(t, e, target), acknowledged, target.Resource.Resource)
				}
				if name != "delete of a collection" { // which asks for the newest state in between
					require.Equal(t, late, time.Since(asked), "they have waited for the watch, and not longer")
				}
			})
		})
	}
}

// A watch that brings nothing costs readers of any state a second each, for ten seconds after the
// commit.
func TestReadersOfAnyStateDoNotWaitForOldCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemote(memory.New())
		e := start(t, b, nil, widgets(), zones())
		create(t, e, "x")
		for _, c := range []struct{ after, waits time.Duration }{
			{0, time.Second},
			{3 * time.Second, time.Second},
			{4500 * time.Millisecond, 500 * time.Millisecond},
			{time.Second, 0},
		} {
			time.Sleep(c.after)
			begun := time.Now()
			zones := registry.Target{Resource: zoneResource}
			_, err := e.List(t.Context(), zones, registry.ListRequest{AnyState: true})
			require.NoError(t, err)
			require.Equal(t, c.waits, time.Since(begun))
		}
	})
}

// A commit that removes a record which cannot be read is one of this server too.
func TestRule4_TheRemovalOfAnUnreadableRecordIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		b := newRemote(db)
		e := start(t, b, nil, widgets(), zones())
		key := storage.ObjectKey("example.dev/widgets", "a", "broken")
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("\x01"), storage.Absent)})
		require.NoError(t, err)
		before, err := b.Sync(t.Context(), "")
		require.NoError(t, err)
		synctest.Wait()
		_, err = e.Delete(t.Context(), named("broken"), registry.DeleteOptions{IgnoreReadError: true})
		require.NoError(t, err)
		acknowledged := newestChange(t, db, before)
		timer := time.AfterFunc(time.Millisecond, func() { _, _ = b.Sync(context.Background(), "") })
		defer timer.Stop()
		require.GreaterOrEqual(t, mark(t, e, inA), acknowledged)
	})
}
