package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/engine"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// crowd is a server in a bubble with many watchers of everything.
type crowd struct {
	t       *testing.T
	truth   *truth
	server  *apitest.Server
	streams []*bufio.Reader
	from    *watchtest.Recording // the request of every watcher
}

const crowdLog = 128 << 10

func newCrowd(t *testing.T, watchers int, history time.Duration) *crowd {
	c := &crowd{t: t, truth: &truth{Backend: memory.New(), history: &watchtest.History{}, problem: func(err error) { t.Error(err) }}}
	t.Cleanup(func() { require.NoError(t, c.truth.Close()) })
	c.server = apitest.Config{
		Backend: c.truth, Bare: true,
		Options: []kindwright.Option{kindwright.Watches{History: history, LogBytes: crowdLog, BookmarkEvery: time.Millisecond}},
	}.New(t, registry.Kind[Boat]{Group: group, Version: "v1", Plural: collection, StorageName: storageName, Doc: "A boat."})
	c.from = &watchtest.Recording{Match: func(*watch.Entry) bool { return true }, From: c.truth.current(), NoBookmarks: true}
	for range watchers {
		c.streams = append(c.streams, c.open())
	}
	require.Equal(t, watchers, c.statistics().Watchers)
	return c
}

func (c *crowd) statistics() watch.Statistics {
	served, ok := c.server.API.Engine().(*engine.Engine).Set().Lookup(meta.GroupVersionResource{Group: group, Version: "v1", Resource: collection})
	require.True(c.t, ok)
	return served.Cache.Statistics()
}

func (c *crowd) open() *bufio.Reader {
	url := fmt.Sprintf("%s%s?watch=1&resourceVersion=%s", c.server.URL, boats(""), c.from.From)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	require.NoError(c.t, err)
	res, err := c.server.Client().Do(r)
	require.NoError(c.t, err)
	require.Equal(c.t, 200, res.StatusCode)
	c.t.Cleanup(func() { _ = res.Body.Close() })
	return bufio.NewReader(res.Body)
}

// write makes n changes of 8 KiB, more than a socket holds.
func (c *crowd) write(n int) {
	for i := range n {
		body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Boat","metadata":{"name":"n%d"},"spec":{"size":%d,"padding":%q}}`,
			group, i%10, i, strings.Repeat("=", 8<<10))
		method, url := http.MethodPut, fmt.Sprintf("%s%s/n%d", c.server.URL, boats("a"), i%10)
		if i < 10 {
			method, url = http.MethodPost, c.server.URL+boats("a")
		}
		r, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
		require.NoError(c.t, err)
		r.Header.Set("Content-Type", jsonType)
		res, err := c.server.Client().Do(r)
		require.NoError(c.t, err)
		require.Less(c.t, res.StatusCode, 300, "%s %s", method, url)
		require.NoError(c.t, res.Body.Close())
	}
}

// record reads the rest of a stream, up to n events, and returns the error that ended it, or nil if
// there were n.
func (c *crowd) record(stream *bufio.Reader, r *watchtest.Recording, n int) (last watchtest.Event, err error) {
	for range n {
		line, err := stream.ReadBytes('\n')
		if err != nil {
			return last, err
		}
		last, err = watchtest.ParseLine(line)
		require.NoError(c.t, err)
		if last.Type == meta.Error {
			return last, io.EOF
		}
		r.Tell(last)
	}
	return last, nil
}

// Nine hundred watchers read and receive everything. A hundred do not read at all. These cost only
// what their sockets hold, lose their streams when the server can write no more, and catch up when
// they return.
func TestWATCH_31_StalledBesideLive(t *testing.T) {
	const writes = 80
	live, stalled := effort.Of(900), effort.Of(100)
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, live+stalled, 5*time.Minute)
		sums, errs := make([]uint64, live), make([]error, live)
		var reading sync.WaitGroup
		for i := 1; i < live; i++ {
			reading.Go(func() {
				h := fnv.New64a()
				for n := 0; n < writes && errs[i] == nil; n++ {
					var line []byte
					line, errs[i] = c.streams[i].ReadBytes('\n')
					h.Write(line)
				}
				sums[i] = h.Sum64()
			})
		}
		first := *c.from
		reading.Go(func() { // one is looked at, and the others must have been told the same
			h := fnv.New64a()
			_, errs[0] = c.record(bufio.NewReader(io.TeeReader(c.streams[0], h)), &first, writes)
			sums[0] = h.Sum64()
		})
		c.write(writes)
		reading.Wait()
		require.NoError(t, errors.Join(errs...))
		final := c.truth.current()
		require.NoError(t, c.truth.history.Check(&first, final))
		for i := range sums {
			require.Equal(t, sums[0], sums[i], "watcher %d", i)
		}
		held := c.statistics()
		require.Equal(t, live+stalled, held.Watchers)
		require.LessOrEqual(t, held.LogBytes, crowdLog)
		require.Greater(t, held.Floor, c.from.From, "the log does not wait for those who stall")

		time.Sleep(10 * time.Second) // longer than a write may take
		synctest.Wait()
		require.Equal(t, live, c.statistics().Watchers, "the stalled ones have lost their streams")
		for _, stream := range c.streams[live:] {
			r := *c.from
			_, err := c.record(stream, &r, writes)
			require.Error(t, err)
			require.Less(t, r.Len(), writes*9/10)
			require.NoError(t, c.truth.history.Check(&r, 0))
			again := *c.from
			again.From = r.Told()
			resumed := &crowd{t: t, server: c.server, from: &again}
			_, err = c.record(resumed.open(), &again, writes-r.Len())
			require.NoError(t, err)
			require.NoError(t, c.truth.history.Check(&again, final))
		}
	})
}

// A watcher that does not read until its changes are gone is told so.
func TestWATCH_16_31_StalledUntilHistoryIsGone(t *testing.T) {
	const stalled, writes = 100, 80
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, stalled, time.Second)
		c.write(writes)
		time.Sleep(3 * time.Second) // longer than the history, and not yet too long for a write
		synctest.Wait()
		require.Greater(t, c.truth.gone(), c.from.From)
		require.Equal(t, stalled, c.statistics().Watchers)
		for _, stream := range c.streams {
			r := *c.from
			last, err := c.record(stream, &r, writes)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, meta.Error, last.Type)
			require.Contains(t, string(last.Object), `"code":410`)
			require.Positive(t, r.Len())
			r.Expired(c.truth.gone())
			require.NoError(t, c.truth.history.Check(&r, 0))
		}
	})
}

// A slow reader of many initial events receives all of them, whole, while every write takes longer
// than the time between two bookmarks. A watch that ends meanwhile ends with a whole line
// (WLIST-02, WLIST-03, WATCH-20, design rule 17).
func TestWLIST_03_SlowInitialEvents(t *testing.T) {
	const writes = 80
	for _, query := range []string{"&allowWatchBookmarks=true", "&allowWatchBookmarks=true&timeoutSeconds=1", "&timeoutSeconds=1"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 0, 5*time.Minute)
				c.write(writes)
				c.objects(writes)
				r := *c.from
				r.From, r.Initial, r.NoBookmarks = c.truth.current(), true, !strings.Contains(query, "Bookmarks")
				r.Unmarked = r.NoBookmarks
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					c.server.URL+boats("")+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"+query, http.NoBody)
				require.NoError(t, err)
				res, err := c.server.Client().Do(req)
				require.NoError(t, err)
				defer res.Body.Close()
				stream := bufio.NewReaderSize(res.Body, 16)
				for r.Told() == 0 {
					line, err := stream.ReadBytes('\n')
					if err != nil {
						require.ErrorIs(t, err, io.EOF)
						require.Empty(t, line, "the stream ends within a line")
						break
					}
					event, err := watchtest.ParseLine(line)
					require.NoError(t, err)
					r.Tell(event)
					time.Sleep(20 * time.Millisecond)
				}
				require.NoError(t, c.truth.history.Check(&r, 0))
				require.Equal(t, strings.Contains(query, "timeoutSeconds"), r.Told() == 0)
			})
		})
	}
}

// objects creates n more objects of 8 KiB.
func (c *crowd) objects(n int) {
	for i := range n {
		body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Boat","metadata":{"name":"o%d"},"spec":{"padding":%q}}`, group, i, strings.Repeat("=", 8<<10))
		res, err := c.server.Client().Post(c.server.URL+boats("a"), jsonType, strings.NewReader(body))
		require.NoError(c.t, err)
		require.Equal(c.t, 201, res.StatusCode)
		require.NoError(c.t, res.Body.Close())
	}
}
