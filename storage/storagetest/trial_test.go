package storagetest

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// network loses requests and answers, and breaks watches. It is between a handle and a store.
type network struct {
	bad atomic.Int64 // how many more messages pass before it is good again
}

// handle is a process's way to the store that now returns.
func (n *network) handle(now func() storage.Backend) *mutant {
	m := &mutant{}
	m.Backend = now()
	m.get = func(ctx context.Context, key string) (storage.Record, error) {
		if n.loses() {
			return storage.Record{}, storage.ErrUnavailable
		}
		return now().Get(ctx, key)
	}
	m.list = func(ctx context.Context, r storage.ListRequest) (storage.Page, error) { return now().List(ctx, r) }
	m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
		if n.loses() {
			return 0, storage.ErrUnavailable
		}
		rev, err := now().Commit(ctx, ops)
		if n.loses() {
			return 0, storage.ErrUnknownOutcome
		}
		return rev, err
	}
	m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
		return func(yield func(storage.Batch, error) bool) {
			for b, err := range now().Watch(ctx, prefix, after) {
				if err == nil && n.loses() {
					b, err = storage.Batch{}, storage.ErrUnavailable
				}
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	}
	m.revision = func(ctx context.Context) (storage.Revision, error) { return now().Sync(ctx, "") }
	m.compact = func(ctx context.Context, at storage.Revision) error { return now().Compact(ctx, at) }
	m.history = func(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
		return now().History(ctx, r)
	}
	m.close = func() error { return nil }
	return m
}

// loses says whether a message is lost: every third one while the network is bad.
func (n *network) loses() bool { return n.bad.Load() > 0 && n.bad.Add(-1)%3 == 0 }

// trialOf makes trials of two processes on one store in memory, and breaks both handles in the same way.
func trialOf(breakIt func(m *mutant)) Trials {
	return Trials{
		timeout: 5 * time.Second,
		Open: func(t testing.TB, random *rand.Rand) Trial {
			db := memory.New()
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			n := &network{}
			var trial Trial
			for range 2 {
				h := n.handle(func() storage.Backend { return db })
				breakIt(h)
				trial.Handles = append(trial.Handles, h)
			}
			trial.Faults = []func(){func() { n.bad.Store(int64(10 + random.IntN(30))) }}
			return trial
		},
	}
}

// A store that loses requests and answers, and says so, keeps the contract.
func TestTrialsPassAHealthyStore(t *testing.T) {
	f := RunTrials(t, func() Trials {
		trials := trialOf(func(*mutant) {})
		trials.Count = 20
		return trials
	}())
	require.Positive(t, f.Unknown)
	require.Positive(t, f.Happened)
	require.Positive(t, f.Refused)
	require.Positive(t, f.Resumed)
	require.Positive(t, f.Conflicts)
}

// Each broken store is caught. The number of the first trial that notices is logged.
func TestTrialsCatch(t *testing.T) {
	for name, trials := range map[string]Trials{
		"an event that is dropped": trialOf(func(m *mutant) {
			watch, n := m.watch, atomic.Int64{}
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					for b, err := range watch(ctx, prefix, after) {
						if err == nil && !b.Progress && n.Add(1)%50 == 49 {
							continue
						}
						if !yield(b, err) {
							return
						}
					}
				}
			}
		}),
		"a watch that resumes after the next event": trialOf(func(m *mutant) {
			watch := m.watch
			begun := atomic.Bool{}
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				if now, _ := m.Backend.Revision(ctx); begun.Swap(true) && after < now {
					after++
				}
				return watch(ctx, prefix, after)
			}
		}),
		"a newest revision that is a moment old": trialOf(func(m *mutant) {
			revision := m.revision
			var mu sync.Mutex
			var known storage.Revision
			asked := 0
			m.revision = func(ctx context.Context) (storage.Revision, error) {
				mu.Lock()
				defer mu.Unlock()
				if asked++; asked%4 == 1 || known == 0 {
					rev, err := revision(ctx)
					known = rev
					return rev, err
				}
				return known, nil
			}
		}),
		"a transaction that is sent again": trialOf(func(m *mutant) {
			commit := m.commit
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := commit(ctx, ops)
				if err == storage.ErrUnknownOutcome { //nolint:errorlint // it is this very one
					return commit(ctx, ops)
				}
				return rev, err
			}
		}),
		"an unknown outcome that is answered as a refusal": trialOf(func(m *mutant) {
			commit := m.commit
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := commit(ctx, ops)
				if err == storage.ErrUnknownOutcome { //nolint:errorlint // it is this very one
					err = storage.ErrUnavailable
				}
				return rev, err
			}
		}),
		"a read from the reader's own memory": trialOf(func(m *mutant) {
			get := m.get
			var mu sync.Mutex
			known, times := map[string]storage.Record{}, map[string]int{}
			m.get = func(ctx context.Context, key string) (storage.Record, error) {
				mu.Lock()
				defer mu.Unlock()
				if times[key]++; times[key]%4 == 0 && known[key].Revision != 0 {
					return known[key], nil
				}
				r, err := get(ctx, key)
				known[key] = r
				return r, err
			}
		}),
		"a list that is read key by key": trialOf(func(m *mutant) {
			m.list = func(ctx context.Context, _ storage.ListRequest) (p storage.Page, err error) {
				for _, key := range trialKeys {
					r, err := m.Backend.Get(ctx, key)
					if err == nil {
						p.Records = append(p.Records, r)
					}
					time.Sleep(50 * time.Microsecond)
				}
				p.Revision, err = m.Backend.Revision(ctx)
				return p, err
			}
		}),
		"a commit that is acknowledged before it is durable": forgetful(),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			for seed := uint64(1); ; seed++ {
				var anomalies []string
				r := record(t, func(t testing.TB) { _, anomalies = trials.one(t, seed) })
				if len(anomalies) > 0 || r.Failed() {
					t.Logf("trial %d, %v: %.300s", seed, time.Since(begin), fmt.Sprint(anomalies, r.text()))
					return
				}
				require.Less(t, seed, uint64(300), "nobody noticed")
			}
		})
	}
}

// forgetful is a store that now and then crashes and comes back without its last commits.
func forgetful() Trials {
	return Trials{
		timeout: 5 * time.Second,
		Open: func(t testing.TB, random *rand.Rand) Trial {
			var mu sync.RWMutex
			db := memory.New()
			saved, err := db.Fork()
			require.NoError(t, err)
			n := &network{}
			now := func() storage.Backend {
				mu.RLock()
				defer mu.RUnlock()
				return db
			}
			h := n.handle(now)
			commit, commits := h.commit, 0
			h.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				mu.Lock()
				if commits++; commits%5 == 0 {
					_ = saved.Close()
					saved, _ = db.Fork()
				}
				mu.Unlock()
				return commit(ctx, ops)
			}
			t.Cleanup(func() { _, _ = db.Close(), saved.Close() })
			return Trial{Handles: []storage.Backend{h}, Faults: []func(){func() {
				mu.Lock()
				defer mu.Unlock()
				old := db
				db, _ = saved.Fork()
				_ = old.Close()
				n.bad.Store(int64(random.IntN(10)))
			}}}
		},
	}
}
