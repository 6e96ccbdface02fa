package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// slowly installs pots whose Converter waits until it may go on.
func slowly(t *testing.T, p *potter, gate <-chan struct{}) *engine.Engine {
	t.Helper()
	e := start(t, memory.New(), nil)
	forms := pots(t, p, "v1", "v2")
	forms[0].Converter = func(ctx context.Context, to string, objects []registry.Tree) ([]registry.Tree, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			_, _ = p.convert(ctx, to, objects)
			return nil, ctx.Err()
		}
		return p.convert(ctx, to, objects)
	}
	require.NoError(t, e.Install(t.Context(), forms...))
	return e
}

// Readers that want the same object in the same version wait for one call.
func TestManyReadersWaitForOneConversion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gate := &potter{}, make(chan struct{})
		e := slowly(t, p, gate)
		createPot(t, e, "v1", "x", `,"num":1`)
		var readers sync.WaitGroup
		var failed atomic.Int32
		for range 50 {
			readers.Go(func() {
				entry, err := e.Get(t.Context(), potAt("v2", "x"), registry.ListRequest{})
				if err != nil || entry.Name() != "x" {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		close(gate)
		readers.Wait()
		require.Zero(t, failed.Load())
		require.Equal(t, []string{"v1>v2"}, p.take())
		require.Equal(t, int64(1), get(t, e, potAt("v2", "x"))["numv2"])
		require.Empty(t, p.take(), "it is kept")
	})
}

// When the reader that asked the Converter goes away, another one asks again. An error is that of all
// who waited.
func TestAConversionOutlivesItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gate := &potter{}, make(chan struct{})
		e := slowly(t, p, gate)
		createPot(t, e, "v1", "x", `,"num":1`)
		first, leave := context.WithCancel(t.Context())
		errs := make(chan error, 3)
		read := func(ctx context.Context) {
			_, err := e.Get(ctx, potAt("v2", "x"), registry.ListRequest{})
			errs <- err
		}
		go read(first)
		synctest.Wait()
		go read(t.Context())
		synctest.Wait()
		leave()
		require.Error(t, <-errs)
		gate <- struct{}{}
		require.NoError(t, <-errs)
		require.Len(t, p.take(), 2)

		createPot(t, e, "v1", "y", `,"num":1`)
		p.failing(errors.New("no clay"))
		for range 3 {
			go func() {
				_, err := e.Get(t.Context(), potAt("v2", "y"), registry.ListRequest{})
				errs <- err
			}()
		}
		synctest.Wait()
		close(gate)
		for range 3 {
			require.ErrorContains(t, <-errs, "no clay")
		}
		require.Len(t, p.take(), 1)
	})
}

// The initial events of a watch are converted together.
func TestEventsAreConvertedTogether(t *testing.T) {
	p := &potter{}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), pots(t, p, "v1", "v2")...))
	const objects = 40
	for i := range objects {
		createPot(t, e, "v1", fmt.Sprintf("x%02d", i), "")
	}
	var names []string
	for range 2 {
		names = nil
		for event, err := range e.Watch(t.Context(), potAt("v2", ""), registry.WatchRequest{}) {
			require.NoError(t, err)
			if event.Type == meta.Bookmark {
				break
			}
			require.Equal(t, potGroup+"/v2", tree(t, &registry.Result{Entry: event.Entry})["apiVersion"])
			names = append(names, event.Entry.Name())
		}
		require.Len(t, names, objects)
	}
	require.Less(t, len(p.take()), objects/4)
	served, ok := e.Set().Lookup(potAt("v2", "").Resource)
	require.True(t, ok)
	require.NoError(t, served.ShowEvents(t.Context(), []watch.Event{{Type: meta.Bookmark}}))
}
