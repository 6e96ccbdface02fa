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
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// requests ask for the object x, or change it.
var requests = map[string]func(ctx context.Context, e *engine.Engine) error{
	"get": func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Get(ctx, named("x"), registry.ListRequest{})
		return err
	},
	"list": func(ctx context.Context, e *engine.Engine) error {
		_, err := e.List(ctx, inA, registry.ListRequest{})
		return err
	},
	"create": func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Create(ctx, inA, body("y", 1, ""), registry.WriteOptions{})
		return err
	},
	"patch": func(ctx context.Context, e *engine.Engine) error {
		_, err := merge(ctx, e, named("x"), `{"spec":{"size":9}}`)
		return err
	},
	"delete": func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Delete(ctx, named("x"), registry.DeleteOptions{})
		return err
	},
}

// STORE-08: a store that is out of reach makes no server of its own, and no watch of a client, begin
// anew.
func TestAnOutageOfTheStorePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		b := newPrompt(db)
		e, other := start(t, b, nil, widgets()), start(t, newPrompt(db), nil, widgets())
		create(t, other, "x")
		_, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		cursor, err := e.Follow(t.Context(), inA, registry.WatchRequest{After: e.Set().All()[0].Cache.Revision()})
		require.NoError(t, err)
		defer cursor.Close()
		require.NoError(t, e.Ready())

		b.cut()
		synctest.Wait()
		require.Error(t, e.Ready())
		for name, request := range requests {
			err := request(t.Context(), e)
			require.Equal(t, meta.ReasonServiceUnavailable, reason(t, err), name)
			require.Equal(t, 1, status.From(err).RetryAfterSeconds(), "%s: nothing was written, and nothing will be", name)
		}
		old, err := e.Get(t.Context(), named("x"), registry.ListRequest{AnyState: true})
		require.NoError(t, err, "what is at hand can be read")
		require.Contains(t, string(old.AppendJSON(nil)), `"size":3`)
		for size := 4; size < 8; size++ {
			_, err := merge(t.Context(), other, named("x"), fmt.Sprintf(`{"spec":{"size":%d}}`, size))
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		require.Error(t, e.Ready())

		b.heal()
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.NoError(t, e.Ready(), "without a restart")
		var events []watch.Event
		for len(events) < 4 {
			next, err := cursor.Next(t.Context(), nil)
			require.NoError(t, err, "the watch goes on where it was")
			events = append(events, next...)
		}
		for i, event := range events {
			require.Contains(t, string(event.Entry.AppendJSON(nil)), fmt.Sprintf(`"size":%d`, i+4))
		}
		require.NoError(t, requests["patch"](t.Context(), e))
	})
}

// A watch that is behind reads history from the store. It waits for the store as long as its client
// does.
func TestAWatchBehindWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		b := newPrompt(db)
		e := start(t, b, func(c *engine.Config) { c.LogBytes = 1 }, widgets())
		create(t, e, "x")
		_, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		cursor, err := e.Follow(t.Context(), inA, registry.WatchRequest{After: e.Set().All()[0].Cache.Revision()})
		require.NoError(t, err)
		defer cursor.Close()
		for size := 4; size < 40; size++ {
			_, err := merge(t.Context(), e, named("x"), fmt.Sprintf(`{"spec":{"size":%d}}`, size))
			require.NoError(t, err)
		}
		synctest.Wait()
		b.cut()
		time.AfterFunc(time.Minute, b.heal)
		seen := 0
		for seen < 36 {
			events, err := cursor.Next(t.Context(), nil)
			require.NoError(t, err)
			seen += len(events)
		}
		require.Equal(t, 36, seen)
	})
}
