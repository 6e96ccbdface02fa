package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

var migratedObjects = flag.Int("migrated", 500, "how many objects are migrated under load")

// load is clients of an engine that keep busy until they are told to stop. Every request of theirs must succeed.
type load struct {
	t       *testing.T
	engine  *engine.Engine
	objects int
	stop    atomic.Bool
	running sync.WaitGroup

	reads, writes atomic.Int64
	written       []map[int]int // by writer: object to the number it wrote last
}

func gearName(i int) string { return fmt.Sprintf("g%06d", i) }

func (l *load) client(seed int, do func(*rand.Rand) error) {
	l.running.Go(func() {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		for !l.stop.Load() {
			if err := do(r); err != nil {
				l.t.Errorf("a request failed: %v", err)
				return
			}
		}
	})
}

// writer writes its own note into random objects, in one version or the other.
func (l *load) writer(id int) {
	done := map[int]int{}
	l.written = append(l.written, done)
	l.client(id, func(r *rand.Rand) error {
		i, n := r.IntN(l.objects), int(l.writes.Add(1))
		target, body := gearAt("v1", gearName(i)), `{"spec":{"notes":{"w%d":"%d"}}}`
		if r.IntN(2) == 0 {
			target, body = gearAt("v1beta1", gearName(i)), `{"notes":{"w%d":"%d"}}`
		}
		_, err := merge(context.Background(), l.engine, target, fmt.Sprintf(body, id, n))
		if err == nil {
			done[i] = n
		}
		return err
	})
}

func (l *load) reader(id int) {
	l.client(id, func(r *rand.Rand) error {
		time.Sleep(time.Millisecond) // else it does nothing but keep everybody from the processor
		version := []string{"v1", "v1beta1"}[r.IntN(2)]
		l.reads.Add(1)
		if _, err := l.engine.Get(context.Background(), gearAt(version, gearName(r.IntN(l.objects))), registry.ListRequest{}); err != nil {
			return err
		}
		page, err := l.engine.List(context.Background(), gearAt(version, ""), registry.ListRequest{Limit: 50})
		if err != nil {
			return err
		}
		n := 0
		for _, err := range page.Items {
			if err != nil {
				return err
			}
			n++
		}
		if n != min(50, l.objects) {
			return fmt.Errorf("a page has %d objects", n)
		}
		return nil
	})
}

// watcher follows one version from the start. What it returns waits until it has come to a revision, and says at what version it
// has seen each object last.
func (l *load) watcher(version string) func(until storage.Revision) map[string]int64 {
	served, ok := l.engine.Set().Lookup(gearAt(version, "").Resource)
	require.True(l.t, ok)
	c, err := l.engine.Follow(context.Background(), gearAt(version, ""), registry.WatchRequest{})
	require.NoError(l.t, err)
	seen := map[string]int64{}
	end, done := make(chan storage.Revision, 1), make(chan struct{})
	go func() {
		defer close(done)
		defer c.Close()
		until, at := storage.Revision(0), storage.Revision(0)
		for until == 0 || at < until {
			if at, err = l.next(c, served, seen, at); err != nil {
				l.t.Errorf("a watch of %s has ended: %v", version, err)
				return
			}
			select {
			case until = <-end:
			default:
			}
		}
	}()
	return func(until storage.Revision) map[string]int64 {
		end <- until
		<-done
		return seen
	}
}

// next takes the events of a watch that there are, if there are some within a while, and returns how far it has come.
func (l *load) next(c *watch.Cursor, served *engine.Served, seen map[string]int64, at storage.Revision) (storage.Revision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	events, err := c.Next(ctx, nil)
	if err != nil && ctx.Err() == nil {
		return at, err
	}
	for _, e := range events {
		at = e.Revision
		if e.Type == meta.Bookmark {
			continue
		}
		shown, err := served.Show(ctx, e.Entry)
		if err != nil {
			return at, err
		}
		name := shown.Name()
		if int64(e.Revision) <= seen[name] {
			return at, fmt.Errorf("%s goes back from version %d to %d", name, seen[name], e.Revision)
		}
		seen[name] = int64(e.Revision)
	}
	return at, nil
}

// Clients notice nothing of a migration but new versions, and it loses nothing of theirs.
func TestMigrationUnderLoad(t *testing.T) {
	objects := *migratedObjects
	b, err := bbolt.Open(t.TempDir() + "/db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	e, stop, err := run(t, b, nil, gearsOfOld())
	require.NoError(t, err)
	fillGears(t, e, objects)
	stop()

	e, stop, err = run(t, b, nil, gears())
	require.NoError(t, err)
	l := &load{t: t, engine: e, objects: objects}
	one, other := l.watcher("v1"), l.watcher("v1beta1")
	for id := range 3 {
		l.writer(id)
	}
	l.reader(10)
	l.reader(11)
	started := time.Now()
	require.Eventually(t, func() bool { m := e.Migrations(); return len(m) == 1 && !m[0].Ended.IsZero() }, time.Hour, time.Millisecond)
	took := time.Since(started)
	l.stop.Store(true)
	l.running.Wait()
	last, err := merge(t.Context(), e, gearAt("v1", gearName(0)), `{"spec":{"notes":{"last":"1"}}}`)
	require.NoError(t, err)

	st := e.Migrations()[0]
	require.LessOrEqual(t, st.Done, objects)
	require.Zero(t, st.Left)
	require.Zero(t, st.Kept)
	t.Logf("%d of %d objects migrated in %v among %d writes, %d reads", st.Done, objects, took, l.writes.Load(), l.reads.Load())
	state := map[string]int64{}
	all, err := e.List(t.Context(), gearAt("v1", ""), registry.ListRequest{})
	require.NoError(t, err)
	for entry, err := range all.Items {
		require.NoError(t, err)
		state[entry.Name()] = int64(entry.Revision())
	}
	require.Len(t, state, objects)
	require.Equal(t, state, one(last.Entry.Revision()), "a watcher of v1 has seen it all")
	require.Equal(t, state, other(last.Entry.Revision()), "and one of v1beta1")
	for id, done := range l.written {
		for i, n := range done {
			entry, err := e.Get(t.Context(), gearAt("v1", gearName(i)), registry.ListRequest{})
			require.NoError(t, err)
			got := tree(t, &registry.Result{Entry: entry})
			require.Equal(t, strconv.Itoa(n), at(got, "spec", "notes", fmt.Sprintf("w%d", id)), "a write was lost")
			require.Equal(t, int64(7), at(got, "spec", "teeth"))
		}
	}
	stop()
	alone := gears()
	alone.Also = nil
	_, _, err = run(t, b, nil, alone)
	require.NoError(t, err, "nothing is stored in the old version")
}

// fillGears creates objects in the old version, many at once.
func fillGears(t *testing.T, e *engine.Engine, objects int) {
	t.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	for range 32 {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < objects; i = int(next.Add(1)) - 1 {
				body := fmt.Appendf(nil, `{"metadata":{"name":%q},"cogs":7,"keeper":"eve"}`, gearName(i))
				if _, err := e.Create(context.Background(), gearAt("v1beta1", ""), body, registry.WriteOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

// A migration that a stop has cut short goes on after the next start.
func TestMigrationGoesOnAfterARestart(t *testing.T) {
	const objects = 200
	backends(t, func(t *testing.T, b storage.Backend) {
		e, stop, err := run(t, b, nil, gearsOfOld())
		require.NoError(t, err)
		fillGears(t, e, objects)
		stop()
		alone := gears()
		alone.Also = nil
		done, left := 0, true
		for round := 0; left; round++ {
			require.Less(t, round, objects)
			e, stop, err := run(t, b, nil, gears())
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				m := e.Migrations()
				return len(m) == 1 && (m[0].Done > 20 || !m[0].Ended.IsZero())
			}, time.Minute, 10*time.Microsecond)
			stop()
			done += e.Migrations()[0].Done
			// A store may still be writing what was under way. It takes commits in order.
			_, err = storage.New(b).Commit(t.Context(), []storage.Op{storage.Put(storage.SysKey("test", "barrier"), []byte("x"), storage.Any)})
			require.NoError(t, err)
			_, stop, err = run(t, b, nil, alone)
			left = err != nil
			stop()
		}
		// What was under way when it was stopped may have been stored without being counted.
		require.LessOrEqual(t, done, objects, "each at most once")
	})
}

// An object that does not fit in its new form stays in its old one, and does not keep the others from theirs.
func TestMigrationPassesOverWhatTheStoreHasNoRoomFor(t *testing.T) {
	const most = 2000
	b := memory.New(memory.WithLimits(storage.Limits{MaxValueBytes: most}))
	e, stop, err := run(t, b, nil, gearsOfOld())
	require.NoError(t, err)
	fillGears(t, e, 10)
	for size := most; ; size-- { // as long as it can be in v1beta1
		body := fmt.Appendf(nil, `{"metadata":{"name":"large"},"cogs":7,"notes":{"n":%q}}`, strings.Repeat("x", size))
		if _, err = e.Create(t.Context(), gearAt("v1beta1", ""), body, registry.WriteOptions{}); err == nil {
			break
		}
		require.Positive(t, size)
	}
	stop()
	e, _, err = run(t, b, nil, gears())
	require.NoError(t, err)
	st := migrated(t, e)
	require.Equal(t, 10, st.Done)
	require.Equal(t, 1, st.Kept)
	require.Equal(t, int64(7), at(get(t, e, gearAt("v1", "large")), "spec", "teeth"), "it is there all the same")
}

// failing is a store that takes no writes for a time.
type failing struct {
	storage.Backend
	fails atomic.Bool
}

func (f *failing) Unwrap() storage.Backend { return f.Backend }

func (f *failing) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if f.fails.Load() {
		return 0, errors.New("the disk is away")
	}
	return f.Backend.Commit(ctx, ops)
}

func TestMigrationGoesOnWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &failing{Backend: memory.New()}
		e, stop, err := run(t, b, nil, gearsOfOld())
		require.NoError(t, err)
		fillGears(t, e, 10)
		stop()
		e, err = engine.New(engine.Config{Store: storage.New(b)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, e.Start(ctx))
		b.fails.Store(true)
		bundle, err := gears().Define(registry.Env{})
		require.NoError(t, err)
		require.NoError(t, e.Install(ctx, bundle.Resources...))
		time.Sleep(time.Minute)
		require.Zero(t, e.Migrations()[0].Done)
		require.Zero(t, e.Migrations()[0].Ended)
		b.fails.Store(false)
		time.Sleep(time.Minute)
		require.Equal(t, 10, e.Migrations()[0].Done)
		require.NotZero(t, e.Migrations()[0].Ended)
		cancel()
		e.Wait()
	})
}
