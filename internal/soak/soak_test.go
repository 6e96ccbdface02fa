package soak

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
)

var (
	events = flag.Int64("events", 0, "how many events a soak delivers; default 1,000,000, less with -race or -short")
	seed   = flag.Uint64("seed", 0, "of the random choices; 0 takes one of its own")
)

type counter = atomic.Int64

// counts are the events of a run, by name.
type counts struct {
	resumed, below, above, fresh counter // how watches began
	ended, expired, tooLarge     counter // and how
	bookmarks, stalled, http2    counter
	namespaces, restarts         counter // deleted, and done
}

func (c *counts) all() map[string]*counter {
	return map[string]*counter{
		"resumed": &c.resumed, "below head": &c.below, "above head": &c.above, "fresh": &c.fresh,
		"ended": &c.ended, "expired": &c.expired, "too large": &c.tooLarge,
		"bookmarks": &c.bookmarks, "stalled": &c.stalled, "http2": &c.http2,
		"namespaces": &c.namespaces, "restarts": &c.restarts,
	}
}

// seen reports whether a run with these restarts has counted everything that it should see.
func (c *counts) seen(restarts int) bool {
	for name, n := range c.all() {
		if n.Load() == 0 && (name != "restarts" || restarts > 0) {
			return false
		}
	}
	return true
}

func (c *counts) String() string {
	all, out := c.all(), ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out += fmt.Sprintf(" %s %d;", name, all[name].Load())
	}
	return out
}

// run is one run of the soak test.
type run struct {
	plan
	host      *host
	counts    counts
	delivered atomic.Int64
	open      context.Context // ends when only the last objects remain to be written
	cancel    context.CancelCauseFunc
}

// closing reports whether only the last objects remain to be written.
func (s *run) closing() bool { return s.open.Err() != nil }

// soak runs until enough events were delivered and checked, and returns the first error.
func soak(t *testing.T, p plan) (*run, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s := &run{plan: p, cancel: cancel}
	var closeRun context.CancelFunc
	s.open, closeRun = context.WithCancel(ctx)
	defer closeRun()
	s.host = newHost(t, p, func(err error) { cancel(err) })
	for _, namespace := range namespaces {
		code, err := s.host.write(ctx, http.MethodPost, "/api/v1/namespaces", jsonType, fmt.Sprintf(`{"metadata":{"name":%q}}`, namespace))
		require.NoError(t, err)
		require.Equal(t, 201, code)
	}
	var writing, watching sync.WaitGroup
	for i := range p.writers {
		w := &writer{run: s, random: rand.New(rand.NewPCG(p.seed, uint64(i)))}
		writing.Go(func() { s.report(w.all(ctx, i)) })
	}
	for number, q := range questions() {
		for i := range p.watchers {
			w := &watcher{run: s, question: q, number: number, idler: i == 0 && number%4 == 0 && p.fault == nil, far: number == 0 && i == p.watchers-1}
			w.random = rand.New(rand.NewPCG(p.seed, uint64(1000+100*number+i)))
			watching.Go(func() { s.report(w.watch(ctx)) })
		}
	}
	s.report(s.conduct(ctx))
	closeRun()
	writing.Wait()
	if ctx.Err() == nil {
		s.report(s.last(ctx))
	}
	watching.Wait()
	return s, context.Cause(ctx)
}

func (s *run) report(err error) {
	if err != nil {
		s.cancel(err)
	}
}

// conduct restarts the server now and then, until the run has seen enough.
func (s *run) conduct(ctx context.Context) error {
	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	for restarts := 1; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		delivered := s.delivered.Load()
		select {
		case <-progress.C:
			s.host.t.Logf("%d events checked, of %d commits:%s", delivered, s.host.truth.history.Len(), &s.counts)
		default:
		}
		if restarts <= s.plan.restarts && delivered >= s.events*int64(restarts)/int64(s.plan.restarts+1) {
			s.host.restart()
			s.counts.restarts.Add(1)
			restarts++
		}
		if delivered >= s.events && s.counts.seen(s.plan.restarts) {
			return nil
		}
	}
	return nil
}

// last writes the objects that tell watchers the run is over.
func (s *run) last(ctx context.Context) error {
	for i, q := range questions() {
		namespace, name, labels, owner := q.last[0], q.last[1], q.last[2], q.last[3]
		one := boats(namespace) + "/" + name
		body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Boat","metadata":{"name":%q,"labels":%s,"annotations":{"last":"%d"}},"spec":{"owner":%q}}`,
			group, name, labels, i, owner)
		// Delete any earlier object first: one that is being deleted would vanish with its
		// finalizers.
		for _, step := range []struct{ method, path, kind, body string }{
			{http.MethodDelete, one, "", ""},
			{http.MethodPatch, one, mergeType, `{"metadata":{"finalizers":null}}`},
			{http.MethodPost, boats(namespace), jsonType, body},
		} {
			code, err := s.host.write(ctx, step.method, step.path, step.kind, step.body)
			if err != nil {
				return err
			}
			if step.method == http.MethodPost && code != 201 {
				return fmt.Errorf("the last object of %q is answered with %d", q.name, code)
			}
		}
	}
	return nil
}

func defaultPlan(t *testing.T) plan {
	p := plan{seed: *seed, events: *events, restarts: 5, window: 2 * time.Second, logBytes: 256 << 10, watchers: 6, writers: 8}
	if p.seed == 0 {
		p.seed = rand.Uint64()
	}
	if p.events == 0 {
		p.events = int64(effort.Of(400_000))
		if testing.Short() {
			p.events = min(p.events, 60_000)
		}
	}
	t.Logf("go test ./internal/soak -run '^%s$' -seed %d -events %d", t.Name(), p.seed, p.events)
	return p
}

// None of the events is missed, doubled, out of order or filtered wrongly, no bookmark is ahead, and every version that a
// watcher was told can be gone on from.
// (WATCH-03, WATCH-04, WATCH-06 to WATCH-08, WATCH-11 to WATCH-16, WATCH-19 to WATCH-26, WATCH-33, WLIST-02 to WLIST-07)
func TestSoak(t *testing.T) {
	for _, store := range stores() {
		t.Run(store, func(t *testing.T) {
			p := defaultPlan(t)
			p.events, p.store = p.events/2, store
			began := time.Now()
			s, err := soak(t, p)
			require.NoError(t, err)
			t.Logf("%d events checked, of %d commits, in %s:%s", s.delivered.Load(), s.host.truth.history.Len(), time.Since(began), &s.counts)
		})
	}
}

// A wire that damages one event of a watch is detected.
func TestFaultsAreReported(t *testing.T) {
	for name, spoil := range map[string]func(event, next []byte) [][]byte{
		"drops":   func(_, next []byte) [][]byte { return [][]byte{next} },
		"doubles": func(event, next []byte) [][]byte { return [][]byte{event, event, next} },
		"swaps":   func(event, next []byte) [][]byte { return [][]byte{next, event} },
	} {
		t.Run(name, func(t *testing.T) {
			p := defaultPlan(t)
			p.events, p.watchers, p.restarts = 10_000_000, 1, 0
			p.fault = &fault{at: 15, spoil: spoil}
			_, err := soak(t, p)
			require.ErrorContains(t, err, "all (")
			require.ErrorContains(t, err, "watch from ")
		})
	}
}
