package etcdtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// rounds makes the tests of faults longer: go test -run Faults -rounds=50.
var rounds = flag.Int("rounds", 1, "how often each fault happens")

// outcome is what a writer was told of a commit.
type outcome struct {
	revision storage.Revision
	err      error
}

// traffic is writers and readers of some keys through several handles, and what they were told.
type traffic struct {
	handles []storage.Backend
	start   storage.Revision
	stop    chan struct{}
	running sync.WaitGroup
	done    atomic.Int64 // commits that were acknowledged

	mu       sync.Mutex
	outcomes map[string]outcome // by value, which is unique
	acked    map[string]storage.Revision
	stale    []string // reads that missed an acknowledged commit
}

const trafficKeys = 3

// begin starts the traffic.
func beginTraffic(t *testing.T, handles ...storage.Backend) *traffic {
	t.Helper()
	start, err := handles[0].Revision(t.Context())
	require.NoError(t, err)
	tr := &traffic{handles: handles, start: start, stop: make(chan struct{}), outcomes: map[string]outcome{}, acked: map[string]storage.Revision{}}
	for w := range 6 {
		tr.running.Go(func() { tr.write(w) })
	}
	for r := range 2 {
		tr.running.Go(func() { tr.read(r) })
	}
	for n := range handles {
		tr.running.Go(func() { tr.create(n) })
	}
	return tr
}

func (tr *traffic) stopped() bool {
	select {
	case <-tr.stop:
		return true
	default:
		return false
	}
}

// write replaces records that it has read, as long as the traffic runs.
func (tr *traffic) write(w int) {
	db := tr.handles[w%len(tr.handles)]
	for i := 0; !tr.stopped(); i++ {
		key := widget(fmt.Sprint(i % trafficKeys))
		expect := storage.Absent
		r, err := db.Get(context.Background(), key)
		switch {
		case err == nil:
			expect = storage.Expect(r.Revision)
		case !errors.Is(err, storage.ErrNotFound):
			continue
		}
		value := fmt.Sprintf("%d/%d", w, i)
		op := storage.Put(key, []byte(value), expect)
		if i%7 == 6 {
			op.Expect = storage.Any // cannot be sent again
		}
		rev, err := db.Commit(context.Background(), []storage.Op{op})
		tr.mu.Lock()
		tr.outcomes[value] = outcome{rev, err}
		if err == nil {
			tr.done.Add(1)
			tr.acked[key] = max(tr.acked[key], rev)
		}
		tr.mu.Unlock()
	}
}

// create makes bursts of records, whose commits share transactions.
func (tr *traffic) create(n int) {
	for i := 0; !tr.stopped(); i++ {
		var burst sync.WaitGroup
		for k := range 20 {
			burst.Go(func() {
				value := fmt.Sprintf("new %d/%d/%d", n, i, k)
				key := widget(value)
				rev, err := tr.handles[n].Commit(context.Background(), []storage.Op{storage.Put(key, []byte(value), storage.Absent)})
				tr.mu.Lock()
				defer tr.mu.Unlock()
				tr.outcomes[value] = outcome{rev, err}
			})
		}
		burst.Wait()
		time.Sleep(50 * time.Millisecond)
	}
}

// read checks that reads see what was acknowledged before they began.
func (tr *traffic) read(n int) {
	db := tr.handles[n%len(tr.handles)]
	for i := 0; !tr.stopped(); i++ {
		key := widget(fmt.Sprint(i % trafficKeys))
		tr.mu.Lock()
		least := tr.acked[key]
		tr.mu.Unlock()
		r, err := db.Get(context.Background(), key)
		if err == nil && r.Revision < least {
			tr.mu.Lock()
			tr.stale = append(tr.stale, fmt.Sprintf("%q was read at %d after a commit at %d", key, r.Revision, least))
			tr.mu.Unlock()
		}
	}
}

// goesOn waits until commits are acknowledged again.
func (tr *traffic) goesOn(t *testing.T) {
	t.Helper()
	for before := tr.done.Load(); tr.done.Load() < before+20; {
		require.NoError(t, t.Context().Err())
		time.Sleep(10 * time.Millisecond)
	}
}

// end stops the traffic and compares what was told with the history, as each handle and watch has it.
func (tr *traffic) end(t *testing.T, watches ...*follower) {
	t.Helper()
	close(tr.stop)
	tr.running.Wait()
	require.Empty(t, tr.stale)
	happened := map[string]storage.Revision{}
	history := replay(t, tr.handles[0], tr.start)
	for _, b := range history {
		happened[string(b.Changes[0].Value)] = b.Revision
	}
	unknown := 0
	for value, o := range tr.outcomes {
		rev, did := happened[value]
		switch {
		case o.err == nil:
			require.Equal(t, o.revision, rev, "the commit of %s was acknowledged", value)
		case errors.Is(o.err, storage.ErrUnknownOutcome):
			unknown++
		default:
			require.False(t, did, "the commit of %s failed with %v, and happened at %d", value, o.err, rev)
		}
	}
	t.Logf("%d commits, %d acknowledged, %d unknown, %d happened", len(tr.outcomes), tr.done.Load(), unknown, len(happened))
	for _, db := range tr.handles[1:] {
		require.Equal(t, revisions(history), revisions(replay(t, db, tr.start)))
	}
	for _, w := range watches {
		require.Equal(t, revisions(history), revisions(w.until(t, history[len(history)-1].Revision)))
	}
}

// replay reads all past changes of widgets.
func replay(t *testing.T, db storage.Backend, after storage.Revision) []storage.Batch {
	t.Helper()
	var all []storage.Batch
	for {
		p, err := db.History(t.Context(), storage.HistoryRequest{Prefix: storage.ResourcePrefix("widgets"), After: after, Limit: 1000})
		require.NoError(t, err)
		all = append(all, p.Batches...)
		if after = p.Revision; !p.More {
			return all
		}
	}
}

func revisions(batches []storage.Batch) []storage.Revision {
	var all []storage.Revision
	for _, b := range batches {
		all = append(all, b.Revision)
	}
	return all
}

// follower collects the batches of one watch.
type follower struct {
	db      storage.Backend
	cancel  context.CancelFunc
	batches chan storage.Batch
	err     error
}

func follow(t *testing.T, db storage.Backend) *follower {
	t.Helper()
	after, err := db.Revision(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{db: db, cancel: cancel, batches: make(chan storage.Batch, 1<<20)}
	go func() {
		defer close(f.batches)
		for b, err := range db.Watch(ctx, storage.ResourcePrefix("widgets"), after) {
			if err != nil {
				f.err = err
				return
			}
			f.batches <- b
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range f.batches { // until it has ended
		}
	})
	return f
}

// until returns the batches without progress up to a revision.
func (f *follower) until(t *testing.T, rev storage.Revision) []storage.Batch {
	t.Helper()
	_, err := f.db.Sync(t.Context(), "")
	require.NoError(t, err)
	var all []storage.Batch
	for b := range f.batches {
		if !b.Progress {
			all = append(all, b)
		}
		if b.Revision >= rev {
			return all
		}
	}
	require.NoError(t, f.err)
	return nil
}

// readyAgain waits until a handle says that it is ready.
func readyAgain(t *testing.T, db *etcd.DB) {
	t.Helper()
	for db.Ready() != nil {
		require.NoError(t, t.Context().Err())
		time.Sleep(10 * time.Millisecond)
	}
}

// notReady waits until a handle says that it is not.
func notReady(t *testing.T, db *etcd.DB) {
	t.Helper()
	for db.Ready() == nil {
		require.NoError(t, t.Context().Err())
		time.Sleep(10 * time.Millisecond)
	}
	require.ErrorIs(t, db.Ready(), storage.ErrUnavailable)
	require.NoError(t, db.Healthy())
}

// Whatever happens to members, no acknowledged commit is lost, none that was refused is there, and no
// read is stale.
func TestFaultsOfMembers(t *testing.T) {
	faults := map[string]func(t *testing.T, c *etcdtest.Cluster, tr *traffic){
		"the leader is killed": func(t *testing.T, c *etcdtest.Cluster, tr *traffic) {
			leader := c.Leader(t)
			leader.Kill()
			tr.goesOn(t)
			leader.Start(t)
			tr.goesOn(t)
		},
		"the leader is paused": func(t *testing.T, c *etcdtest.Cluster, tr *traffic) {
			leader := c.Leader(t)
			leader.Pause(t)
			tr.goesOn(t)
			leader.Resume(t)
			tr.goesOn(t)
		},
		"a follower is paused": func(t *testing.T, c *etcdtest.Cluster, tr *traffic) {
			leader := c.Leader(t)
			for _, m := range c.Members {
				if m != leader {
					m.Pause(t)
					tr.goesOn(t)
					m.Resume(t)
					break
				}
			}
			tr.goesOn(t)
		},
		"members are defragmented": func(t *testing.T, c *etcdtest.Cluster, tr *traffic) {
			client := c.Client(t)
			for _, e := range c.Endpoints() {
				_, err := client.Defragment(t.Context(), e)
				require.NoError(t, err)
				tr.goesOn(t)
			}
		},
		"the quorum is lost": func(t *testing.T, c *etcdtest.Cluster, tr *traffic) {
			for _, m := range c.Members[1:] {
				m.Kill()
			}
			for _, db := range tr.handles {
				notReady(t, db.(*etcd.DB))
			}
			_, err := tr.handles[0].Get(t.Context(), widget("0"))
			require.ErrorIs(t, err, storage.ErrUnavailable)
			for _, m := range c.Members[1:] {
				m.Start(t)
			}
			for _, db := range tr.handles {
				readyAgain(t, db.(*etcd.DB))
			}
			tr.goesOn(t)
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			s := &stores{cluster: etcdtest.Start(t, 3, etcdtest.Options{})}
			a := s.fresh(t)
			b := s.open(t, a.Prefix())
			fa, fb := follow(t, a), follow(t, b)
			tr := beginTraffic(t, a, b)
			tr.goesOn(t)
			for range *rounds {
				fault(t, s.cluster, tr)
			}
			tr.end(t, fa, fb)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

// A network that stalls or breaks connections between servers and etcd changes no answer.
func TestFaultsOfTheNetwork(t *testing.T) {
	cluster := etcdtest.Start(t, 3, etcdtest.Options{})
	var proxies []*etcdtest.Proxy
	config := etcd.Config{Prefix: "/behind"}
	for _, e := range cluster.Endpoints() {
		p := etcdtest.NewProxy(t, e[len("http://"):])
		proxies = append(proxies, p)
		config.Endpoints = append(config.Endpoints, "http://"+p.Address())
	}
	a, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	b, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	fa, fb := follow(t, a), follow(t, b)
	tr := beginTraffic(t, a, b)
	tr.goesOn(t)
	for range *rounds {
		for _, p := range proxies {
			p.Stall()
			tr.goesOn(t)
			p.Resume()
			for range 5 {
				p.Cut()
				tr.goesOn(t)
			}
		}
	}
	for _, p := range proxies {
		p.Stall()
	}
	_, err = a.Get(t.Context(), widget("0"))
	require.ErrorIs(t, err, storage.ErrUnavailable)
	notReady(t, a)
	for _, p := range proxies {
		p.Resume()
	}
	readyAgain(t, a)
	readyAgain(t, b)
	tr.goesOn(t)
	tr.end(t, fa, fb)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

// A compaction by somebody else cuts history off. Watches that had read it go on; those that need it
// say so.
func TestFaultsOfNeighbours(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	client := s.cluster.Client(t)
	live := follow(t, db)
	start, err := db.Revision(t.Context())
	require.NoError(t, err)
	var want []storage.Revision
	for range *rounds * 10 {
		want = append(want, commit(t, db, storage.Put(widget("a"), nil, storage.Any)))
		put, err := client.Put(t.Context(), "/neighbour", "")
		require.NoError(t, err)
		_, err = client.Compact(t.Context(), put.Header.Revision)
		require.NoError(t, err)
		_, err = db.Sync(t.Context(), "")
		require.NoError(t, err)
	}
	require.Equal(t, want, revisions(live.until(t, want[len(want)-1])))
	_, err = db.List(t.Context(), storage.ListRequest{Limit: 1, At: start})
	require.ErrorIs(t, err, storage.ErrCompacted)

	reader, err := etcd.Open(t.Context(), etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: db.Prefix()})
	require.NoError(t, err)
	for _, err := range reader.Watch(t.Context(), "", start) {
		require.ErrorIs(t, err, storage.ErrCompacted)
	}
	_, err = reader.History(t.Context(), storage.HistoryRequest{After: start, Limit: 10})
	require.ErrorIs(t, err, storage.ErrCompacted)
	require.NoError(t, reader.Close())
	require.NoError(t, db.Close())
}
