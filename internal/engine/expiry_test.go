package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
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
