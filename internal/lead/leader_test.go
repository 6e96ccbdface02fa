package lead_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/lead"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// replacement is how long a process that was killed may be missed.
const replacement = 17 * time.Second

// network is a process' way to a store that it shares with others.
type network struct {
	storage.Backend

	mu     sync.Mutex
	fault  func(ops []storage.Op) error // asked before a commit
	answer func(err error) error        // asked after a commit
	gate   chan struct{}                // if not nil, commits wait for it to close
}

func (n *network) Exclusive() bool { return false }

func (n *network) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	n.mu.Lock()
	fault, answer, gate := n.fault, n.answer, n.gate
	n.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if fault != nil {
		if err := fault(ops); err != nil {
			return 0, err
		}
	}
	rev, err := n.Backend.Commit(ctx, ops)
	if answer != nil {
		err = answer(err)
	}
	return rev, err
}

func (n *network) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	n.mu.Lock()
	fault, gate := n.fault, n.gate
	n.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if fault != nil {
		if err := fault(nil); err != nil {
			return storage.Page{}, err
		}
	}
	return n.Backend.List(ctx, r)
}

func (n *network) set(f func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

func away([]storage.Op) error { return storage.ErrUnavailable }

// process is one of those that share a store.
type process struct {
	*lead.Leader
	net   *network
	store *storage.Store
	stop  context.CancelFunc
}

// begin starts a process in the bubble of a test.
func begin(t *testing.T, db storage.Backend) *process {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	n := &network{Backend: db}
	store := storage.New(n)
	p := &process{lead.New(lead.Config{Store: store}), n, store, cancel}
	go p.Run(ctx)
	return p
}

// leading returns the processes that lead.
func leading(of []*process) (out []*process) {
	for _, p := range of {
		if p.Leads() {
			out = append(out, p)
		}
	}
	return out
}

func bubble(t *testing.T, f func(t *testing.T, db *memory.DB)) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		f(t, db)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
	})
}

func TestOneLeads(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		all := []*process{begin(t, db), begin(t, db), begin(t, db)}
		synctest.Wait()
		first := leading(all)
		require.Len(t, first, 1)
		time.Sleep(time.Hour)
		require.Equal(t, first, leading(all), "nobody replaces a leader that beats")
	})
}

func TestALeaderThatStopsIsReplacedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		all := []*process{begin(t, db), begin(t, db)}
		synctest.Wait()
		leading(all)[0].stop()
		time.Sleep(lead.DefaultBeat)
		require.Len(t, leading(all), 1)
	})
}

func TestALeaderThatIsCutOffCeasesBeforeItIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		all := []*process{begin(t, db), begin(t, db)}
		synctest.Wait()
		for range 20 {
			old := leading(all)[0]
			old.net.set(func(n *network) { n.fault = away })
			cut := time.Now()
			for old.Leads() || len(leading(all)) == 0 {
				require.LessOrEqual(t, len(leading(all)), 1)
				require.Less(t, time.Since(cut), replacement)
				time.Sleep(100 * time.Millisecond)
			}
			old.net.set(func(n *network) { n.fault = nil })
			time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Second))))
			require.Len(t, leading(all), 1)
		}
	})
}

func TestWhatAPausedLeaderWritesIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		all := []*process{begin(t, db), begin(t, db)}
		synctest.Wait()
		old := leading(all)[0]
		during, release, ok := old.During(t.Context())
		require.True(t, ok)
		defer release()
		wake := make(chan struct{})
		old.net.set(func(n *network) { n.gate = wake })
		key := storage.SysKey("work")
		done := make(chan error)
		go func() {
			_, err := old.store.Commit(context.WithoutCancel(during), []storage.Op{storage.Put(key, []byte("late"), storage.Any)})
			done <- err
		}()
		time.Sleep(replacement)
		next := all[0]
		if next == old {
			next = all[1]
		}
		require.True(t, next.Leads())
		old.net.set(func(n *network) { n.gate = nil })
		close(wake)
		require.ErrorIs(t, <-done, storage.ErrFenced)
		synctest.Wait()
		require.ErrorIs(t, during.Err(), context.Canceled, "the work is told")
		require.False(t, old.Leads())
		_, err := db.Get(t.Context(), key)
		require.ErrorIs(t, err, storage.ErrNotFound)
	})
}

func TestALeaderWhoseFirstAnswerIsLostLeads(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		n := &network{Backend: db, answer: func(error) error { return storage.ErrUnknownOutcome }}
		l := lead.New(lead.Config{Store: storage.New(n)})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.Run(ctx)
		synctest.Wait()
		require.False(t, l.Leads())
		n.set(func(n *network) { n.answer = nil })
		time.Sleep(lead.DefaultBeat)
		synctest.Wait()
		require.True(t, l.Leads())
	})
}

func TestATermThatCannotBeReadIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(storage.SysKey("leader", "background", "term"), []byte("{"), storage.Absent)})
		require.NoError(t, err)
		p := begin(t, db)
		time.Sleep(replacement)
		require.True(t, p.Leads())
	})
}

func TestAStoreOfOneProcessNeedsNoRecords(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	before, err := db.Revision(t.Context())
	require.NoError(t, err)
	l := lead.New(lead.Config{Store: storage.New(db)})
	require.True(t, l.Leads())
	ctx, cancel := context.WithCancel(t.Context())
	l.While(ctx, func(during context.Context) {
		require.Equal(t, ctx, during, "no fence")
		cancel()
	})
	l.Run(ctx)
	after, err := db.Revision(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Two hundred leaders are killed, paused or cut off while each writes its term to one record as fast as it
// can. What is written never goes back to an earlier term.
func TestNoTermWritesAfterTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		key := storage.SysKey("work")
		var mu sync.Mutex
		terms := 0
		working, rest := context.WithCancel(t.Context())
		work := func(p *process) func(context.Context) {
			return func(ctx context.Context) {
				mu.Lock()
				terms++
				mine := terms
				mu.Unlock()
				for ctx.Err() == nil {
					_, err := p.store.Commit(context.WithoutCancel(ctx), []storage.Op{storage.Put(key, []byte(strconv.Itoa(mine)), storage.Any)})
					if err != nil && !errors.Is(err, storage.ErrFenced) && !errors.Is(err, storage.ErrUnavailable) {
						t.Error(err)
					}
					time.Sleep(time.Duration(1+rand.Int64N(50)) * time.Millisecond)
				}
			}
		}
		start := func() *process {
			p := begin(t, db)
			go p.While(working, work(p))
			return p
		}
		seen := make(chan error, 1)
		watching, end := context.WithCancel(t.Context())
		go func() {
			last := 0
			for batch, err := range db.Watch(watching, key, 1) {
				if err != nil {
					break
				}
				for _, c := range batch.Changes {
					n, err := strconv.Atoi(string(c.Value))
					if err != nil || n < last {
						seen <- fmt.Errorf("%q after %d: %w", c.Value, last, err)
						return
					}
					last = n
				}
			}
			close(seen)
		}()
		all := []*process{start(), start(), start()}
		synctest.Wait()
		for i := range 200 {
			time.Sleep(time.Duration(rand.Int64N(int64(5 * time.Second))))
			began := time.Now()
			old := leading(all)[0]
			switch i % 3 {
			case 0: // killed, while a commit of its hangs in the network
				wake := make(chan struct{})
				old.net.set(func(n *network) { n.gate = wake })
				time.AfterFunc(time.Minute, func() { old.stop(); close(wake) })
			case 1:
				old.net.set(func(n *network) { n.fault = away })
			case 2:
				old.stop()
			}
			for j, p := range all {
				if p == old {
					all[j] = start()
				}
			}
			for len(leading(all)) == 0 {
				require.Less(t, time.Since(began), replacement)
				time.Sleep(50 * time.Millisecond)
			}
		}
		rest()
		for _, p := range all {
			p.stop()
		}
		time.Sleep(2 * time.Minute) // those that were killed
		end()
		require.NoError(t, <-seen)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, terms, 150)
	})
}

func TestTimesThatCannotBe(t *testing.T) {
	require.NoError(t, lead.Config{}.Check())
	require.NoError(t, lead.Config{Beat: time.Second, Patience: 3 * time.Second}.Check())
	require.ErrorContains(t, lead.Config{Beat: 10 * time.Second}.Check(), "a patience of 12s is shorter than three beats of 10s")
}
