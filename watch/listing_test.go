package watch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/watch"
)

// A kind that is loaded in pages is loaded whole, whatever the size of the pages. A page that cannot
// be read, or a context that ends between pages, fails the whole: half a kind is never shown.
func TestAKindIsLoadedWholeOrNotAtAll(t *testing.T) {
	const objects = 7
	for limit := range objects + 2 {
		bubble(t, func(t *testing.T) {
			w := newWorld(t)
			for i := range objects {
				w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
			}
			w.settle()
			w.backend.play(trick{pageLimit: limit}) // 0 is none
			add := func(ctx context.Context) (*watch.Cache, error) {
				d := watch.NewDispatcher(w.store)
				w.start(d)
				return d.Add(ctx, config("widgets"))
			}
			before := w.backend.lists.Load()
			cache, err := add(t.Context())
			require.NoError(t, err)
			require.Equal(t, objects, cache.Len())
			pages := w.backend.lists.Load() - before

			for bad := range pages {
				var page atomic.Int64
				w.backend.play(trick{pageLimit: limit, fails: func() bool { return page.Add(1) == bad+1 }})
				_, err := add(t.Context())
				require.ErrorIs(t, err, errCut, "page %d of %d", bad, pages)

				ctx, end := context.WithCancel(t.Context())
				page.Store(0)
				w.backend.play(trick{pageLimit: limit, pause: func() {
					if page.Add(1) == bad+1 {
						end()
					}
				}})
				_, err = add(ctx)
				require.ErrorIs(t, err, context.Canceled, "page %d of %d", bad, pages)
				end()
			}
			w.backend.play(trick{})
		})
	}
}
