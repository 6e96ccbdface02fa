package storagetest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// mutant is a backend with one fault: the calls that are set replace those of the healthy backend
// below.
type mutant struct {
	storage.Backend
	get      func(ctx context.Context, key string) (storage.Record, error)
	list     func(ctx context.Context, r storage.ListRequest) (storage.Page, error)
	commit   func(ctx context.Context, ops []storage.Op) (storage.Revision, error)
	watch    func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error]
	history  func(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error)
	revision func(ctx context.Context) (storage.Revision, error)
	compact  func(ctx context.Context, at storage.Revision) error
	close    func() error
}

func (m *mutant) Get(ctx context.Context, key string) (storage.Record, error) {
	if m.get != nil {
		return m.get(ctx, key)
	}
	return m.Backend.Get(ctx, key)
}

func (m *mutant) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	if m.list != nil {
		return m.list(ctx, r)
	}
	return m.Backend.List(ctx, r)
}

func (m *mutant) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if m.commit != nil {
		return m.commit(ctx, ops)
	}
	return m.Backend.Commit(ctx, ops)
}

func (m *mutant) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	if m.watch != nil {
		return m.watch(ctx, prefix, after)
	}
	return m.Backend.Watch(ctx, prefix, after)
}

func (m *mutant) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	if m.history != nil {
		return m.history(ctx, r)
	}
	return m.Backend.History(ctx, r)
}

func (m *mutant) Revision(ctx context.Context) (storage.Revision, error) {
	if m.revision != nil {
		return m.revision(ctx)
	}
	return m.Backend.Revision(ctx)
}

func (m *mutant) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	if m.revision != nil {
		return m.revision(ctx)
	}
	return m.Backend.Sync(ctx, prefix)
}

func (m *mutant) Compact(ctx context.Context, at storage.Revision) error {
	if m.compact != nil {
		return m.compact(ctx, at)
	}
	return m.Backend.Compact(ctx, at)
}

func (m *mutant) Close() error {
	if m.close != nil {
		return m.close()
	}
	return m.Backend.Close()
}

// fault describes a mutant and the cases that must detect it.
type fault struct {
	name     string
	caughtBy []string
	harness  func() Harness
}

// in breaks each new backend in the same way.
func in(breakIt func(m *mutant)) func() Harness {
	return func() Harness {
		return Harness{Open: func(testing.TB) storage.Backend {
			m := &mutant{Backend: memory.New()}
			breakIt(m)
			return m
		}}
	}
}

// withCommit changes the operations before they reach the backend.
func withCommit(alter func(ops []storage.Op) []storage.Op) func() Harness {
	return in(func(m *mutant) {
		m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
			return m.Backend.Commit(ctx, alter(slices.Clone(ops)))
		}
	})
}

// withBatches changes the batches of watches. Each range gets a new alter.
func withBatches(alter func() func(storage.Batch) []storage.Batch) func() Harness {
	return in(func(m *mutant) {
		m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
			return func(yield func(storage.Batch, error) bool) {
				change := alter()
				for b, err := range m.Backend.Watch(ctx, prefix, after) {
					if err != nil {
						yield(b, err)
						return
					}
					for _, b := range change(b) {
						if !yield(b, nil) {
							return
						}
					}
				}
			}
		}
	})
}

// withHistory changes the pages of histories.
func withHistory(alter func(p *storage.HistoryPage)) func() Harness {
	return in(func(m *mutant) {
		m.history = func(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
			p, err := m.Backend.History(ctx, r)
			if err == nil {
				alter(&p)
			}
			return p, err
		}
	})
}

// withList changes a list's request before the call and its answer after it.
func withList(before func(m *mutant, r *storage.ListRequest), after func(r storage.ListRequest, p *storage.Page)) func() Harness {
	return in(func(m *mutant) {
		m.list = func(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
			asked := r
			if before != nil {
				before(m, &r)
			}
			p, err := m.Backend.List(ctx, r)
			if err == nil && after != nil {
				after(asked, &p)
			}
			return p, err
		}
	})
}

func TestEveryFaultIsCaughtAndEveryCaseCatchesOne(t *testing.T) {
	h := Harness{Seeds: 1, Steps: 1000, timeout: time.Second}
	h.Reopen = func(testing.TB, storage.Backend) storage.Backend { return nil }
	h.Crash, h.Join = h.Reopen, func(testing.TB, storage.Backend) (storage.Backend, error) { return nil, nil }
	cases := map[string]testCase{}
	idle := map[string]bool{}
	for _, c := range h.cases() {
		require.NotContains(t, cases, c.name, "two cases of one name")
		cases[c.name] = c
		idle[c.name] = true
	}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			for _, name := range f.caughtBy {
				require.Contains(t, cases, name)
				delete(idle, name)
				broken := f.harness()
				broken.timeout = h.timeout
				r := record(t, func(t testing.TB) { cases[name].try(t, broken) })
				require.True(t, r.Failed(), "the case %q did not notice", name)
			}
		})
	}
	require.Empty(t, idle, "cases of which no fault shows that they can fail")
}

// The recorder itself must not fail a healthy backend.
func TestRecorderPassesAHealthyBackend(t *testing.T) {
	healthy := in(func(*mutant) {})()
	healthy.Seeds, healthy.Steps = 1, 1000
	for _, c := range healthy.cases() {
		r := record(t, func(t testing.TB) { c.try(t, healthy) })
		require.False(t, r.Failed(), "%s: %s", c.name, r.text())
	}
}

func TestCheckInvariantsNoticesFaults(t *testing.T) {
	for _, name := range []string{"a list at a revision shows now", "a watch loses batches", "changes forget their previous record", "a full page promises no more"} {
		i := slices.IndexFunc(faults(), func(f fault) bool { return f.name == name })
		require.GreaterOrEqual(t, i, 0, name)
		b := faults()[i].harness().Open(t)
		for i := range 40 {
			_, err := b.Commit(t.Context(), []storage.Op{storage.Put(widget(string(rune('a'+i%20))), []byte{byte(i)}, storage.Any)})
			require.NoError(t, err)
		}
		r := record(t, func(t testing.TB) { checkWithin(t, b, time.Second) })
		require.True(t, r.Failed(), name)
		require.NoError(t, b.Close())
	}
}

const randomHistory = "a random history answers as a plain map does, seed 1"

func faults() []fault {
	return slices.Concat(commitFaults(), wideFaults(), revisionFaults(), listFaults(), watchFaults(), compactionFaults(), contextFaults(), closingFaults(), concurrencyFaults(), reopeningFaults(), crashingFaults())
}

func commitFaults() []fault {
	return []fault{
		{"a put ignores that the key should be absent", []string{"put expecting absent creates once", randomHistory}, withCommit(func(ops []storage.Op) []storage.Op {
			return expecting(ops, storage.OpPut, func(e storage.Expect) bool { return e == storage.Absent }, storage.Any)
		})},
		{"a put ignores the revision expected", []string{"put expecting a revision replaces that record and no other", "operations on different resources happen at one revision", randomHistory}[:1], withCommit(func(ops []storage.Op) []storage.Op {
			return expecting(ops, storage.OpPut, func(e storage.Expect) bool { return e != storage.Absent }, storage.Any)
		})},
		{"a put only creates", []string{"put expecting any creates and replaces"}, withCommit(func(ops []storage.Op) []storage.Op {
			return expecting(ops, storage.OpPut, func(storage.Expect) bool { return true }, storage.Absent)
		})},
		{"equal bytes are not written", []string{"putting equal bytes is a change"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				if r, err := m.Backend.Get(ctx, ops[0].Key); err == nil && string(r.Value) == string(ops[0].Value) {
					return r.Revision, nil
				}
				return m.Backend.Commit(ctx, ops)
			}
		})},
		{"a delete ignores the revision expected", []string{"delete expecting a revision ends that record and no other"}, withCommit(func(ops []storage.Op) []storage.Op {
			return expecting(ops, storage.OpDelete, func(storage.Expect) bool { return true }, storage.Any)
		})},
		{"deleting an absent key is a conflict", []string{"delete expecting any of an absent key is no change"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				for _, op := range ops {
					if _, err := m.Backend.Get(ctx, op.Key); err != nil && op.Type == storage.OpDelete {
						return 0, &storage.ConflictError{Key: op.Key, Expected: op.Expect}
					}
				}
				return m.Backend.Commit(ctx, ops)
			}
		})},
		{"a deleted key counts as existing", []string{"a deleted key can be created again"}, in(func(m *mutant) {
			deleted := map[string]bool{}
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				for _, op := range ops {
					if deleted[op.Key] && op.Expect == storage.Absent {
						return 0, &storage.ConflictError{Key: op.Key, Expected: op.Expect, Actual: 1}
					}
					deleted[op.Key] = op.Type == storage.OpDelete
				}
				return m.Backend.Commit(ctx, ops)
			}
		})},
		{"checks are ignored", []string{"a check guards a commit and writes nothing"}, withCommit(func(ops []storage.Op) []storage.Op {
			return slices.DeleteFunc(ops, func(op storage.Op) bool { return op.Type == storage.OpCheck })
		})},
		{"checks write", []string{"a check guards a commit and writes nothing", "a commit of checks alone takes no revision"}, withCommit(func(ops []storage.Op) []storage.Op {
			for i := range ops {
				if ops[i].Type == storage.OpCheck {
					ops[i].Type = storage.OpPut
				}
			}
			return ops
		})},
		{"a commit is made operation by operation", []string{"operations on different resources happen at one revision", "one failed expectation anywhere writes nothing", "a commit whose context ends happens whole or not at all", "lists beside concurrent writers never show half a commit"}, in(oneByOne)},
		{"the last conflict is named", []string{"a conflict names the first failing operation"}, withCommit(func(ops []storage.Op) []storage.Op {
			slices.Reverse(ops)
			return ops
		})},
		{"a full commit loses its last operation", []string{"a commit has as many operations as the limits say"}, withCommit(func(ops []storage.Op) []storage.Op {
			return ops[:min(len(ops), 127)]
		})},
		{"large values are cut", []string{"values are kept byte for byte up to the limit"}, withCommit(func(ops []storage.Op) []storage.Op {
			for i := range ops {
				ops[i].Value = ops[i].Value[:min(len(ops[i].Value), 1<<20)]
			}
			return ops
		})},
		{"an empty value deletes", []string{"an empty value is a value"}, withCommit(func(ops []storage.Op) []storage.Op {
			for i := range ops {
				if ops[i].Type == storage.OpPut && len(ops[i].Value) == 0 {
					ops[i].Type = storage.OpDelete
				}
			}
			return ops
		})},
	}
}

// expecting replaces some expectations.
func expecting(ops []storage.Op, t storage.OpType, which func(storage.Expect) bool, e storage.Expect) []storage.Op {
	for i := range ops {
		if ops[i].Type == t && which(ops[i].Expect) {
			ops[i].Expect = e
		}
	}
	return ops
}

func oneByOne(m *mutant) {
	m.commit = func(ctx context.Context, ops []storage.Op) (rev storage.Revision, err error) {
		for i := range ops {
			if rev, err = m.Backend.Commit(ctx, ops[i:i+1]); err != nil {
				return 0, err
			}
			time.Sleep(50 * time.Microsecond) // a reader at this moment sees half of it
		}
		return rev, nil
	}
}

func revisionFaults() []fault {
	return []fault{
		{"an empty store is at revision zero", []string{"a fresh store is empty and its revision is not zero"}, in(func(m *mutant) {
			m.revision = func(ctx context.Context) (storage.Revision, error) {
				if p, err := m.Backend.List(ctx, storage.ListRequest{Limit: 1}); err == nil && len(p.Records) == 0 {
					return 0, nil
				}
				return m.Backend.Revision(ctx)
			}
		})},
		{"revisions are given twice", []string{"revisions increase with every commit", "a watch gives every acknowledged commit of concurrent writers in order"}, in(func(m *mutant) {
			var last atomic.Uint64
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := m.Backend.Commit(ctx, ops)
				if err == nil && last.Load() != 0 && rev%7 == 0 {
					return storage.Revision(last.Load()), nil
				}
				last.Store(uint64(rev))
				return rev, err
			}
		})},
		{"the current revision lags", []string{"the current revision is the newest commit's", randomHistory}, in(func(m *mutant) {
			var last atomic.Uint64
			m.revision = func(ctx context.Context) (storage.Revision, error) {
				rev, err := m.Backend.Revision(ctx)
				if before := last.Swap(uint64(rev)); before != 0 && err == nil {
					return storage.Revision(before), nil
				}
				return rev, err
			}
		})},
		{"all stores are one", []string{"stores opened apart share nothing"}, func() Harness {
			shared := memory.New()
			return Harness{Open: func(testing.TB) storage.Backend { return storage.Prefix(shared, "all") }}
		}},
	}
}

func listFaults() []fault {
	return []fault{
		{"a list is ordered without regard to case", []string{"a list is in byte order and stays below its prefix"}, withList(nil, func(_ storage.ListRequest, p *storage.Page) {
			slices.SortFunc(p.Records, func(a, b storage.Record) int {
				return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key))
			})
		})},
		{"a list's prefix loses its delimiter", []string{"a list is in byte order and stays below its prefix"}, withList(func(_ *mutant, r *storage.ListRequest) {
			r.Prefix = strings.TrimSuffix(r.Prefix, "/")
		}, nil)},
		{"keys are folded to lower case", []string{"strange keys are told apart by every call"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				ops = slices.Clone(ops)
				for i := range ops {
					ops[i].Key = strings.ToLower(ops[i].Key)
				}
				return m.Backend.Commit(ctx, ops)
			}
			m.get = func(ctx context.Context, key string) (storage.Record, error) {
				r, err := m.Backend.Get(ctx, strings.ToLower(key))
				r.Key = key
				return r, err
			}
		})},
		{"a full page promises no more", []string{"pages join to the list whatever their size"}, withList(nil, func(r storage.ListRequest, p *storage.Page) {
			p.More = p.More && len(p.Records) < r.Limit
		})},
		{"a page begins with the key it should come after", []string{"a page begins after a key that need not exist", "pages join to the list whatever their size"}, withList(func(_ *mutant, r *storage.ListRequest) {
			if r.After != "" {
				r.After = strings.TrimSuffix(r.After, "/") + ".\xff"
			}
		}, nil)},
		{"the second page shows now", []string{"pages go on at the revision of the first while others write"}, withList(func(_ *mutant, r *storage.ListRequest) {
			if r.After != "" {
				r.At = 0
			}
		}, func(r storage.ListRequest, p *storage.Page) {
			if r.At != 0 {
				p.Revision = r.At
			}
		})},
		{"a list at a revision shows now", []string{"a list at a retained revision is exact", "records and history survive a reopen", randomHistory}[:1], withList(func(_ *mutant, r *storage.ListRequest) { r.At = 0 }, atAsked)},
		{"a list at a revision shows the one before", []string{"a list at a retained revision is exact", randomHistory}, withList(func(_ *mutant, r *storage.ListRequest) {
			if r.At > 1 {
				r.At--
			}
		}, atAsked)},
		{"a future list shows now", []string{"a list at a future revision is refused", randomHistory}, withList(func(m *mutant, r *storage.ListRequest) {
			if now, err := m.Backend.Revision(context.Background()); err == nil && r.At > now {
				r.At = 0
			}
		}, atAsked)},
		{"a list keeps what it returned", []string{"what a list returned is the caller's"}, in(func(m *mutant) {
			pages := map[storage.ListRequest]storage.Page{}
			m.list = func(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
				if p, ok := pages[r]; ok {
					return p, nil
				}
				p, err := m.Backend.List(ctx, r)
				pages[r] = p
				return p, err
			}
		})},
	}
}

func atAsked(r storage.ListRequest, p *storage.Page) {
	if r.At != 0 {
		p.Revision = r.At
	}
}

func watchFaults() []fault {
	return append(batchFaults(),
		fault{"a watch begins at the revision it should begin after", []string{"a watch can resume after every revision"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return m.Backend.Watch(ctx, prefix, after-1)
			}
		})},
		fault{"a watch's prefix loses its delimiter", []string{"a watch sees its prefix and nothing else"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return m.Backend.Watch(ctx, strings.TrimSuffix(prefix, "/"), after)
			}
		})},
		fault{"a watch after the future begins now", []string{"a watch after a future revision is refused"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				now, _ := m.Backend.Revision(ctx)
				return m.Backend.Watch(ctx, prefix, min(now, after))
			}
		})},
		fault{"compaction ends all watches", []string{"a caught-up watch outlives compaction of what it saw", "lists and watches go on beside compaction"}, in(compactionEndsWatches)},
		fault{"a watch can be ranged once", []string{"each range of a watch begins anew"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				watch, used := m.Backend.Watch(ctx, prefix, after), false
				return func(yield func(storage.Batch, error) bool) {
					if used {
						yield(storage.Batch{}, errors.New("used up"))
						return
					}
					used = true
					watch(yield)
				}
			}
		})},
		fault{"breaking off leaves a goroutine", []string{"breaking off releases everything"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				go func() { time.Sleep(5 * time.Second) }()
				return m.Backend.Watch(ctx, prefix, after)
			}
		})},
		fault{"a full buffer drops batches", []string{"a reader that stops reading delays nobody and misses nothing"}, in(buffered)},
		fault{"of two watches of a prefix one sleeps on", []string{"many watches get the same changes"}, in(func(m *mutant) {
			var taken sync.Map
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					if _, twice := taken.LoadOrStore(prefix, true); twice {
						<-ctx.Done()
						yield(storage.Batch{}, ctx.Err())
						return
					}
					m.Backend.Watch(ctx, prefix, after)(yield)
				}
			}
		})},
		fault{"a watch holds a lock while its reader reads", []string{"a reader may call the backend between batches"}, in(func(m *mutant) {
			lock := make(chan struct{}, 1)
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				select {
				case lock <- struct{}{}:
					defer func() { <-lock }()
				case <-ctx.Done():
					return 0, ctx.Err()
				}
				return m.Backend.Commit(ctx, ops)
			}
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					for b, err := range m.Backend.Watch(ctx, prefix, after) {
						lock <- struct{}{}
						more := yield(b, err)
						<-lock
						if !more {
							return
						}
					}
				}
			}
		})},
	)
}

// batchFaults change the batches of watches.
func batchFaults() []fault {
	same := func(b storage.Batch) []storage.Batch { return []storage.Batch{b} }
	always := func(alter func(storage.Batch) []storage.Batch) func() func(storage.Batch) []storage.Batch {
		return func() func(storage.Batch) []storage.Batch { return alter }
	}
	return []fault{
		{"a watch loses batches", []string{"a watch gives history first and then commits as they happen", "a watch gives every acknowledged commit of concurrent writers in order", randomHistory}, withBatches(func() func(storage.Batch) []storage.Batch {
			n := 0
			return func(b storage.Batch) []storage.Batch {
				if n++; n%4 == 0 && !b.Progress {
					return nil
				}
				return same(b)
			}
		})},
		{"a watch gives batches twice", []string{"a watch gives history first and then commits as they happen"}, withBatches(always(func(b storage.Batch) []storage.Batch { return []storage.Batch{b, b} }))},
		{"a watch gives batches out of order", []string{"a watch can resume after every revision"}, withBatches(func() func(storage.Batch) []storage.Batch {
			var held []storage.Batch
			return func(b storage.Batch) []storage.Batch {
				if held = append(held, b); len(held) < 2 {
					return nil
				}
				pair := []storage.Batch{held[1], held[0]}
				held = nil
				return pair
			}
		})},
		{"changes forget their previous record", []string{"every change names the record it replaced", "a caught-up watch outlives compaction of what it saw"}, withHistory(func(p *storage.HistoryPage) {
			p.Batches = withoutPrevious(p.Batches)
		})},
		{"a history loses batches", []string{"a watch can resume after every revision", randomHistory}, withHistory(func(p *storage.HistoryPage) {
			p.Batches = p.Batches[:len(p.Batches)/2]
		})},
		{"a full page of history promises no more", []string{"strange keys are told apart by every call", randomHistory}, withHistory(func(p *storage.HistoryPage) {
			p.More = false
		})},
		{"a batch has one change only", []string{"a batch has the part of a commit that lies below the prefix"}, withBatches(always(func(b storage.Batch) []storage.Batch {
			b.Changes = b.Changes[:min(1, len(b.Changes))]
			return same(b)
		}))},
		{"there is no progress", []string{"foreign commits reach a sleeping watch as progress", "a watch that begins behind foreign commits reports progress"}, withBatches(always(func(b storage.Batch) []storage.Batch {
			if b.Progress {
				return nil
			}
			return same(b)
		}))},
		{"progress is for watches of everything", []string{"a watch below the prefix of a Sync reaches it"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					for b, err := range m.Backend.Watch(ctx, prefix, after) {
						if (!b.Progress || prefix == "") && !yield(b, err) {
							return
						}
					}
				}
			}
		})},
		{"progress runs ahead of changes", []string{"progress never runs ahead of changes", randomHistory}, withBatches(always(func(b storage.Batch) []storage.Batch {
			return []storage.Batch{{Revision: b.Revision, Progress: true}, b}
		}))},
		{"batches have the time of their delivery", []string{"batches have the time of their commit"}, withBatches(always(func(b storage.Batch) []storage.Batch {
			b.Time = time.Now()
			return same(b)
		}))},
	}
}

// compactionEndsWatches ends every watch at every compaction.
func compactionEndsWatches(m *mutant) {
	var mu sync.Mutex
	var running []context.CancelFunc
	m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
		return func(yield func(storage.Batch, error) bool) {
			inner, cancel := context.WithCancel(ctx)
			mu.Lock()
			running = append(running, cancel)
			mu.Unlock()
			for b, err := range m.Backend.Watch(inner, prefix, after) {
				if err != nil && ctx.Err() == nil {
					err = storage.ErrCompacted
				}
				if !yield(b, err) {
					return
				}
			}
		}
	}
	m.compact = func(ctx context.Context, at storage.Revision) error {
		mu.Lock()
		defer mu.Unlock()
		for _, cancel := range running {
			cancel()
		}
		return m.Backend.Compact(ctx, at)
	}
}

// buffered gives each watch a buffer of ten batches and drops the rest.
func buffered(m *mutant) {
	m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
		return func(yield func(storage.Batch, error) bool) {
			type pair struct {
				batch storage.Batch
				err   error
			}
			inner, cancel := context.WithCancel(ctx)
			buffer, done := make(chan pair, 10), make(chan struct{})
			defer func() { cancel(); <-done }()
			go func() {
				defer close(done)
				defer close(buffer)
				for b, err := range m.Backend.Watch(inner, prefix, after) {
					select {
					case buffer <- pair{b, err}:
					default:
					}
				}
			}()
			for p := range buffer {
				if !yield(p.batch, p.err) {
					return
				}
			}
		}
	}
}
