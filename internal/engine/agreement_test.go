package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

// fleet is the servers of a rolling upgrade, on one store.
type fleet struct {
	t  *testing.T
	db *memory.DB
}

func (f *fleet) start(d registry.Definition) (*engine.Engine, func()) {
	f.t.Helper()
	e, stop, err := run(f.t, newPrompt(f.db), nil, d)
	require.NoError(f.t, err)
	return e, stop
}

// versions counts the records by the version that they are written in.
func (f *fleet) versions() map[string]int {
	page, err := f.db.List(f.t.Context(), storage.ListRequest{Prefix: storage.ObjectRoot, Limit: 1000})
	require.NoError(f.t, err)
	out := map[string]int{}
	for _, r := range page.Records {
		out[at(tree(f.t, &registry.Result{Document: r.Value[9:]}), "apiVersion").(string)]++
	}
	return out
}

func (f *fleet) peers() int {
	page, err := f.db.List(f.t.Context(), storage.ListRequest{Prefix: storage.SysKey("forms", "reads"), Limit: 100})
	require.NoError(f.t, err)
	return len(page.Records)
}

func upgrading(t *testing.T, test func(t *testing.T, f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		defer func() { require.NoError(t, db.Close()) }()
		test(t, &fleet{t, db})
	})
}

// Two servers of a program that knows one version are replaced by two of a program that stores another
// one, in one step, while clients write and read through all of them. No request fails, every server
// shows every object, and all writes are there in the end.
func TestUpgradeInOneStepWithANewStoredVersion(t *testing.T) {
	upgrading(t, func(t *testing.T, f *fleet) {
		const objects, clients = 20, 3
		old1, stopOld1 := f.start(gearsOfOld())
		old2, stopOld2 := f.start(gearsOfOld())
		for i := range objects {
			_, err := old1.Create(t.Context(), gearAt("v1beta1", ""), fmt.Appendf(nil, `{"metadata":{"name":"%s"},"cogs":%d,"keeper":"eve"}`, gearName(i), i), registry.WriteOptions{})
			require.NoError(t, err)
		}
		var servers [2]atomic.Pointer[engine.Engine]
		servers[0].Store(old1)
		servers[1].Store(old2)
		var news atomic.Bool // all servers know v1
		var mu sync.Mutex
		written := map[string]bool{}
		var running sync.WaitGroup
		load, end := context.WithCancel(context.Background())
		for c := range clients {
			running.Go(func() {
				for n := 0; load.Err() == nil; n++ {
					e := servers[(c+n)%2].Load()
					name, note := gearName(n%objects), fmt.Sprintf("c%d-%d", c, n)
					target, body := gearAt("v1beta1", name), `{"notes":{"%s":"1"}}`
					if news.Load() && n%3 == 0 {
						target, body = gearAt("v1", name), `{"spec":{"notes":{"%s":"1"}}}`
					}
					_, err := merge(context.Background(), e, target, fmt.Sprintf(body, note))
					if err != nil {
						t.Errorf("a write failed: %v", err)
						return
					}
					mu.Lock()
					written[name+" "+note] = true
					mu.Unlock()
					page, err := e.List(context.Background(), gearAt("v1beta1", ""), registry.ListRequest{})
					if err != nil {
						t.Errorf("a list failed: %v", err)
						return
					}
					seen := 0
					for _, err := range page.Items {
						if err != nil {
							t.Errorf("an item failed: %v", err)
							return
						}
						seen++
					}
					if seen != objects {
						t.Errorf("a list has %d of %d objects", seen, objects)
						return
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		// exchange starts a server and stops the one whose requests it takes over, when those have ended.
		exchange := func(i int, stop func()) (*engine.Engine, func()) {
			e, next := f.start(gears())
			time.Sleep(10 * time.Second)
			require.Equal(t, map[string]int{"example.dev/v1beta1": objects}, f.versions(), "while a server does not know v1")
			servers[i].Store(e)
			time.Sleep(time.Second)
			stop()
			return e, next
		}
		time.Sleep(5 * time.Second)
		new1, stopNew1 := exchange(0, stopOld1)
		time.Sleep(10 * time.Second)
		_, err := merge(t.Context(), new1, gearAt("v1", gearName(0)), `{"spec":{"secret":"s"}}`)
		require.Equal(t, 503, status.CodeOf(err), "v1beta1 has no place for it: %v", err)
		require.ErrorContains(t, err, "spec.secret")
		require.ErrorContains(t, err, "example.dev/v1beta1/Gear")
		require.NotZero(t, status.From(err).RetryAfterSeconds())

		new2, stopNew2 := exchange(1, stopOld2)
		news.Store(true)
		time.Sleep(30 * time.Second)
		require.Equal(t, map[string]int{"example.dev/v1": objects}, f.versions(), "migrated once everybody reads it")
		_, err = merge(t.Context(), new1, gearAt("v1", gearName(0)), `{"spec":{"secret":"s"}}`)
		require.NoError(t, err)
		end()
		running.Wait()
		require.Greater(t, len(written), 500)
		for name := range written {
			var object, note string
			_, _ = fmt.Sscan(name, &object, &note)
			require.Contains(t, at(get(t, new2, gearAt("v1", object)), "spec", "notes"), note)
		}
		require.Equal(t, 2, f.peers())
		stopNew1()
		stopNew2()
		require.Zero(t, f.peers(), "who stops takes its announcement back")
	})
}

// A write that changes nothing is no write, in the shared form too (UPDATE-09).
func TestASharedFormIsNotWrittenWithoutAChange(t *testing.T) {
	upgrading(t, func(t *testing.T, f *fleet) {
		_, stopOld := f.start(gearsOfOld())
		e, stop := f.start(gears())
		made := v1Gear(t, e, "x", `{"teeth":4,"owner":"eve","notes":{"a":"1"}}`)
		require.Equal(t, map[string]int{"example.dev/v1beta1": 1}, f.versions())
		require.Equal(t, made, get(t, e, gearAt("v1", "x")))
		for range 2 {
			r, err := e.Update(t.Context(), gearAt("v1", "x"), encoded(t, made), registry.WriteOptions{})
			require.NoError(t, err)
			require.Equal(t, made, tree(t, r))
			r, err = e.Update(t.Context(), gearAt("v1beta1", "x"), encoded(t, get(t, e, gearAt("v1beta1", "x"))), registry.WriteOptions{})
			require.NoError(t, err)
			require.Equal(t, at(made, "metadata", "resourceVersion"), at(tree(t, r), "metadata", "resourceVersion"))
			synctest.Wait()
		}
		r, err := merge(t.Context(), e, gearAt("v1", "x"), `{"spec":{"teeth":5}}`)
		require.NoError(t, err)
		require.Equal(t, int64(5), at(tree(t, r), "spec", "teeth"))
		require.Equal(t, "example.dev/v1", at(tree(t, r), "apiVersion"))
		_, err = e.Delete(t.Context(), gearAt("v1", "x"), registry.DeleteOptions{})
		require.NoError(t, err)
		stopOld()
		stop()
	})
}

// A program that cannot read what another one writes does not start beside it.
func TestAProgramThatCannotReadTheStoredFormDoesNotStart(t *testing.T) {
	upgrading(t, func(t *testing.T, f *fleet) {
		e, stop := f.start(gears())
		v1Gear(t, e, "x", `{"teeth":4}`)
		_, stopped, err := run(t, newPrompt(f.db), nil, gearsOfOld())
		require.ErrorContains(t, err, "example.dev/gears are stored as example.dev/v1/Gear by ")
		require.ErrorContains(t, err, "this program reads only example.dev/v1beta1/Gear")
		stopped()
		require.Equal(t, 1, f.peers())
		_, err = merge(t.Context(), e, gearAt("v1", "x"), `{"spec":{"secret":"s"}}`)
		require.NoError(t, err, "the attempt holds up nobody")
		stop()
	})
}

// A server that is killed holds up the upgrade for a while, and one that was taken for dead says that
// it must not serve.
func TestAServerThatIsNotHeardOf(t *testing.T) {
	upgrading(t, func(t *testing.T, f *fleet) {
		net := newPrompt(f.db)
		old, stopOld, err := run(t, net, nil, gearsOfOld())
		require.NoError(t, err)
		e, stop := f.start(gears())
		v1Gear(t, e, "x", `{"teeth":4}`)
		net.cut()
		time.Sleep(30 * time.Second)
		require.Equal(t, map[string]int{"example.dev/v1beta1": 1}, f.versions())
		time.Sleep(30 * time.Second)
		require.Equal(t, map[string]int{"example.dev/v1": 1}, f.versions())
		net.heal()
		time.Sleep(10 * time.Second)
		require.ErrorContains(t, old.Ready(), "this program reads only example.dev/v1beta1/Gear")
		require.NoError(t, e.Ready())
		stop()
		time.Sleep(10 * time.Second)
		stopOld()
	})
}
