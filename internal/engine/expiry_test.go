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
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func mortal(ttl time.Duration) registry.Kind[widget] {
	k := widgets()
	k.Writes.TTL = ttl
	return k
}

// live runs an engine in the bubble of the test.
func live(t *testing.T, b storage.Backend, definition registry.Definition) (*engine.Engine, func()) {
	t.Helper()
	e, err := engine.New(engine.Config{Store: storage.New(b)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, e.Start(ctx))
	bundle, err := definition.Define(registry.Env{})
	require.NoError(t, err)
	require.NoError(t, e.Install(ctx, bundle.Resources...))
	return e, func() { cancel(); e.Wait() }
}

func exists(t *testing.T, e *engine.Engine, name string) bool {
	t.Helper()
	_, err := e.Get(t.Context(), named(name), registry.ListRequest{})
	if err != nil {
		require.True(t, status.IsNotFound(err), "%v", err)
	}
	return err == nil
}

func TestSTORE_06_ObjectsExpireAndUpdatesRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		e, stop := live(t, b, mortal(time.Hour))
		create(t, e, "idle")
		create(t, e, "busy")
		_, err := e.Create(t.Context(), inA, body("held", 1, `,"finalizers":["example.dev/hold"]`), registry.WriteOptions{})
		require.NoError(t, err)
		c, err := e.Follow(t.Context(), inA, registry.WatchRequest{SkipInitial: true})
		require.NoError(t, err)
		time.Sleep(40 * time.Minute)
		_, err = merge(t.Context(), e, named("busy"), `{"spec":{"size":9}}`)
		require.NoError(t, err)
		require.Equal(t, []string{"MODIFIED busy"}, follow(t, c, 1))
		time.Sleep(21 * time.Minute)
		synctest.Wait()
		require.False(t, exists(t, e, "idle"))
		require.True(t, exists(t, e, "busy"), "an update renews")
		require.True(t, exists(t, e, "held"), "finalizers hold")
		require.Equal(t, []string{"DELETED idle"}, follow(t, c, 1), "WATCH-15")
		c.Close()
		stop()

		e, stop = live(t, b, mortal(time.Hour)) // the time to live goes on over a restart
		require.True(t, exists(t, e, "busy"))
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		require.False(t, exists(t, e, "busy"))
		stop()
		require.NoError(t, b.Close())
	})
}

// What was stored before a kind had a time to live is not older than the server that gives it one.
func TestSTORE_06_ATimeToLiveThatComesLaterCountsFromThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		e, stop := live(t, b, widgets())
		create(t, e, "a")
		stop()
		time.Sleep(24 * time.Hour)
		e, stop = live(t, b, mortal(time.Hour))
		defer stop()
		time.Sleep(59 * time.Minute)
		require.True(t, exists(t, e, "a"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.False(t, exists(t, e, "a"))
	})
}

// A record from a clock far ahead lives as long as others do, from when it is seen.
func TestARecordFromTheFutureExpires(t *testing.T) {
	b := memory.New()
	e, stop := live(t, b, mortal(time.Hour))
	create(t, e, "x")
	stop()
	synctest.Test(t, func(t *testing.T) { // it is the year 2000
		copied, err := b.Fork()
		require.NoError(t, err)
		e, stop := live(t, copied, mortal(time.Hour))
		defer stop()
		time.Sleep(59 * time.Minute)
		require.True(t, exists(t, e, "x"))
		time.Sleep(2 * time.Minute)
		require.False(t, exists(t, e, "x"))
	})
}

// Neither what was deleted nor who reads old states of it fills the memory until the time to live is over.
func TestSEC_W8_DeadlinesOfDeletedObjectsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		e, stop := live(t, b, mortal(time.Hour))
		defer stop()
		create(t, e, "stays")
		const n, most = 500, 2*500 + 1024 + 500
		var old []storage.Revision
		for round := range 10 {
			for i := range n {
				create(t, e, fmt.Sprintf("x%d-%d", round, i))
			}
			l, err := e.List(t.Context(), inA, registry.ListRequest{})
			require.NoError(t, err)
			old = append(old, l.Revision)
			for i := range n {
				_, err := e.Delete(t.Context(), named(fmt.Sprintf("x%d-%d", round, i)), registry.DeleteOptions{})
				require.NoError(t, err)
			}
			synctest.Wait()
			require.Less(t, e.Deadlines(widgetResource), most)
		}
		for _, version := range old {
			l, err := e.List(t.Context(), inA, registry.ListRequest{Match: meta.ResourceVersionMatchExact, Version: version})
			require.NoError(t, err)
			read := 0
			for _, err := range l.Items {
				require.NoError(t, err)
				read++
			}
			require.Equal(t, n+1, read)
			synctest.Wait()
			require.Less(t, e.Deadlines(widgetResource), most)
		}
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		require.False(t, exists(t, e, "stays"), "what is there still expires")
		require.Zero(t, e.Deadlines(widgetResource))
	})
}
