package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// asked is a filter and, written without any of its code, what it means.
type asked struct {
	name   string
	filter func(t *testing.T) watch.Filter
	match  func(f watch.Facts) bool
}

func label(f watch.Facts, key string) string {
	for _, l := range f.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}

var questions = []asked{
	{
		"everything", func(*testing.T) watch.Filter { return watch.Filter{} },
		func(watch.Facts) bool { return true },
	},
	{
		"namespace", func(*testing.T) watch.Filter { return watch.Filter{Namespace: "b"} },
		func(f watch.Facts) bool { return f.Namespace == "b" },
	},
	{
		"namespace by field", func(t *testing.T) watch.Filter { return watch.Filter{Fields: fields(t, "metadata.namespace=b-b")} },
		func(f watch.Facts) bool { return f.Namespace == "b-b" },
	},
	{
		"name", func(*testing.T) watch.Filter { return watch.Filter{Name: "n1"} },
		func(f watch.Facts) bool { return f.Name == "n1" },
	},
	{
		"one object", func(*testing.T) watch.Filter { return watch.Filter{Namespace: "a", Name: "n2"} },
		func(f watch.Facts) bool { return f.Namespace == "a" && f.Name == "n2" },
	},
	{"one object by field", func(t *testing.T) watch.Filter {
		return watch.Filter{Namespace: "a", Fields: fields(t, "metadata.name=n3")}
	}, func(f watch.Facts) bool { return f.Namespace == "a" && f.Name == "n3" }},
	{
		"every name but one", func(t *testing.T) watch.Filter { return watch.Filter{Fields: fields(t, "metadata.name!=n1")} },
		func(f watch.Facts) bool { return f.Name != "n1" },
	},
	{
		"label", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "app=x")} },
		func(f watch.Facts) bool { return label(f, "app") == "x" },
	},
	{"label set in namespace", func(t *testing.T) watch.Filter {
		return watch.Filter{Namespace: "b", Labels: labels(t, "app in (x,y)")}
	}, func(f watch.Facts) bool {
		return f.Namespace == "b" && (label(f, "app") == "x" || label(f, "app") == "y")
	}},
	{
		"without label", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "!app")} },
		func(f watch.Facts) bool { return label(f, "app") == "" },
	},
	{
		"label there", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "app")} },
		func(f watch.Facts) bool { return label(f, "app") != "" },
	},
	{
		"label not", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "app!=x")} },
		func(f watch.Facts) bool { return label(f, "app") != "x" },
	},
	{
		"label above", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "size>50,app notin (z)")} },
		func(f watch.Facts) bool {
			size, err := strconv.Atoi(label(f, "size"))
			return err == nil && size > 50 && label(f, "app") != "z"
		},
	},
	{
		"two labels", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "app in (x,z),tier=front")} },
		func(f watch.Facts) bool {
			return (label(f, "app") == "x" || label(f, "app") == "z") && label(f, "tier") == "front"
		},
	},
	{
		"never", func(t *testing.T) watch.Filter { return watch.Filter{Labels: labels(t, "app=x,app!=x")} },
		func(watch.Facts) bool { return false },
	},
	{
		"declared field", func(t *testing.T) watch.Filter { return watch.Filter{Fields: fields(t, "spec.color=red")} },
		func(f watch.Facts) bool { return f.Fields[0] == "red" },
	},
	{"declared field in namespace with label", func(t *testing.T) watch.Filter {
		return watch.Filter{Namespace: "a", Fields: fields(t, "spec.color=blue"), Labels: labels(t, "app")}
	}, func(f watch.Facts) bool {
		return f.Namespace == "a" && f.Fields[0] == "blue" && label(f, "app") != ""
	}},
	{
		"empty field", func(t *testing.T) watch.Filter { return watch.Filter{Fields: fields(t, "spec.color=")} },
		func(f watch.Facts) bool { return f.Fields[0] == "" },
	},
}

// storm is a random history with watchers.
type storm struct {
	*world
	writing sync.WaitGroup
	stopped atomic.Bool
	final   storage.Revision
	// What a storm should see: watches that end with ErrCompacted, watchers that come back where
	// they were, initial events to the end, bookmarks.
	expired, restarts, marks, bookmarks atomic.Int64
}

// weather is what one storm is like.
type weather struct {
	logBytes              int
	compact, flaky, bbolt bool
}

// Every watcher of a random history is told what its filter asks for: all of it, once, in order;
// whether it reads from the log or from the store, is slow, comes back, or has its store compacted
// or cut off. (WATCH-11, WATCH-12, WATCH-13, WATCH-15, WATCH-21, WATCH-22, WATCH-24, WLIST-03)
func TestRandomHistories(t *testing.T) {
	weathers := []weather{
		{logBytes: 0},
		{logBytes: 1},
		{logBytes: 2000},
		{logBytes: 1, flaky: true},
		{logBytes: 2000, compact: true},
		{logBytes: 1, compact: true, flaky: true},
		{logBytes: 2000, compact: true, bbolt: true},
	}
	var expired, restarts, marks, bookmarks, cuts int64
	for seed := range uint64(len(weathers)) * 3 {
		now := weathers[seed%uint64(len(weathers))]
		t.Run(fmt.Sprintf("seed %d %+v", seed, now), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStorm(t, now, seed)
				s.run(seed)
				expired += s.expired.Load()
				restarts += s.restarts.Load()
				marks += s.marks.Load()
				cuts += s.backend.cuts.Load()
				bookmarks += s.bookmarks.Load()
			})
		})
	}
	require.Positive(t, expired, "no watch met a compaction")
	require.Positive(t, restarts, "no watcher came back")
	require.Positive(t, marks, "no watch began with a snapshot")
	require.Positive(t, bookmarks, "no bookmark was told")
	require.Positive(t, cuts, "no watch over the store broke")
}

func newStorm(t *testing.T, now weather, seed uint64) *storm {
	var under storage.Backend = memory.New(memory.WithFirstRevision(990))
	if now.bbolt {
		var err error
		under, err = bbolt.Open(filepath.Join(t.TempDir(), "store.db"))
		require.NoError(t, err)
	}
	s := &storm{world: newWorldOver(t, under, func(c *watch.CacheConfig) { c.LogBytes = now.logBytes })}
	if now.flaky {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 99))
		s.backend.play(trick{cut: func() bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(20) == 0
		}})
	}
	if now.compact {
		s.writing.Go(func() { s.compactSometimes(rand.New(rand.NewPCG(seed, 98))) })
	}
	return s
}

func (s *storm) run(seed uint64) {
	for i := range uint64(3) {
		s.writing.Go(func() { s.write(rand.New(rand.NewPCG(seed, i)), 120) })
	}
	var watching sync.WaitGroup
	for i, q := range questions {
		watching.Go(func() { s.watcher(rand.New(rand.NewPCG(seed, uint64(100+i))), q) })
	}
	s.writing.Wait()
	// Foreign writes are part of what a bookmark has to account for.
	s.final = s.foreign(3)
	s.stopped.Store(true)
	watching.Wait()
}

func (s *storm) write(random *rand.Rand, n int) {
	for range n {
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
		o := widget{
			Namespace: []string{"a", "b", "b-b"}[random.IntN(3)],
			Name:      fmt.Sprint("n", random.IntN(4)),
			Color:     []string{"red", "blue", ""}[random.IntN(3)],
			Size:      random.IntN(100),
		}
		if app := random.IntN(4); app > 0 {
			o.Labels = map[string]string{"app": []string{"x", "y", "z"}[app-1], "tier": "front", "size": strconv.Itoa(o.Size)}
		}
		switch random.IntN(4) {
		case 0:
			s.remove(o.Namespace, o.Name)
		case 1:
			s.foreign(random.IntN(3))
		default:
			s.put(o)
		}
	}
}

func (s *storm) compactSometimes(random *rand.Rand) {
	for range 12 {
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		revision, err := s.store.Revision(s.t.Context())
		if err == nil {
			err = s.store.Compact(s.t.Context(), revision-storage.Revision(random.IntN(8)))
		}
		if err != nil {
			s.t.Errorf("compact: %v", err)
		}
	}
}

// watcher is one client: it watches, is slow, goes away and comes back where it was, and lists
// again after a 410.
func (s *storm) watcher(random *rand.Rand, q asked) {
	filter := q.filter(s.t)
	var recordings []*watchtest.Recording
	told := storage.Revision(0)
	for done := false; !done; {
		r := &watchtest.Recording{Match: func(e *watch.Entry) bool { return q.match(e.Facts()) }, From: told}
		cursor, err := s.open(filter, r)
		if err != nil {
			s.t.Errorf("%s: open: %v", q.name, err)
			return
		}
		told, done, err = s.follow(random, cursor, r)
		cursor.Close()
		recordings = append(recordings, r)
		switch {
		case errors.Is(err, storage.ErrCompacted):
			s.expired.Add(1)
			told = 0
		case err != nil && !errors.Is(err, errCut):
			s.t.Errorf("%s: %v", q.name, err)
			return
		default:
			s.restarts.Add(1)
		}
	}
	// Only now is it known what happened.
	for i, r := range recordings {
		upTo := storage.Revision(0)
		if i == len(recordings)-1 {
			upTo = s.final
		}
		if problem := s.history.Check(r, upTo); problem != nil {
			s.t.Errorf("%s: %v", q.name, problem)
			return
		}
	}
	s.provesItself(q, recordings[len(recordings)-1])
}

// open continues after what was told, or begins with the present state.
func (s *storm) open(filter watch.Filter, r *watchtest.Recording) (*watch.Cursor, error) {
	if r.From != 0 {
		return s.cache.Watch(s.t.Context(), watch.WatchRequest{Filter: filter, After: r.From})
	}
	snapshot := s.cache.Snapshot()
	r.From, r.Initial = snapshot.Revision(), true
	return s.cache.WatchFromSnapshot(snapshot, filter)
}

// follow records until the watcher goes away, has to, or the history has ended and was told
// completely.
func (s *storm) follow(random *rand.Rand, cursor *watch.Cursor, r *watchtest.Recording) (told storage.Revision, done bool, err error) {
	if !r.Initial {
		told = r.From
	}
	buf := make([]watch.Event, 0, 1+random.IntN(5))
	for lifetime := 5 + random.IntN(60); lifetime > 0 || s.stopped.Load(); lifetime-- {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(1+random.IntN(20))*time.Millisecond)
		events, err := cursor.Next(ctx, buf)
		cancel()
		r.Events(events...)
		if n := len(events); n > 0 && (told > 0 || events[n-1].Type == meta.Bookmark) {
			told = events[n-1].Revision
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			if b := cursor.Progress(); b != 0 {
				r.Bookmark(b)
				s.bookmarks.Add(1)
				told = b
			}
		case err != nil:
			return told, false, err
		}
		if len(events) > 0 && events[len(events)-1].Type == meta.Bookmark {
			s.marks.Add(1)
		}
		if s.stopped.Load() && cursor.Progress() >= s.final {
			return told, true, nil
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
		}
	}
	return told, false, nil
}

// provesItself shows that the check of a finished watch is worth something: with any one event
// missing, or out of its place, it fails.
func (s *storm) provesItself(q asked, r *watchtest.Recording) {
	for i := range r.Len() {
		if r.IsBookmark(i) {
			continue
		}
		if s.history.Check(r.Without(i), s.final) == nil {
			s.t.Errorf("%s: the check does not miss step %d", q.name, i)
		}
		if i+1 < r.Len() && !r.IsBookmark(i+1) && s.history.Check(r.Swapped(i), s.final) == nil {
			s.t.Errorf("%s: the check does not mind that steps %d and %d are swapped", q.name, i, i+1)
		}
	}
}
