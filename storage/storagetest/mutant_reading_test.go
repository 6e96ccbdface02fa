package storagetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func compactionFaults() []fault {
	compactAt := func(shift func(at, now storage.Revision) storage.Revision) func() Harness {
		return in(func(m *mutant) {
			m.compact = func(ctx context.Context, at storage.Revision) error {
				now, err := m.Backend.Revision(ctx)
				if err != nil {
					return err
				}
				return m.Backend.Compact(ctx, shift(at, now))
			}
		})
	}
	return []fault{
		{"compaction does nothing", []string{"below the compacted revision everything fails, at it and above everything is exact", "a page of a compacted revision fails"}, in(func(m *mutant) {
			m.compact = func(context.Context, storage.Revision) error { return nil }
		})},
		{"compaction stops short", []string{"below the compacted revision everything fails, at it and above everything is exact", randomHistory}, compactAt(func(at, now storage.Revision) storage.Revision {
			if at > now {
				return at
			}
			return at - min(at, 1)
		})},
		{"compaction goes too far", []string{"below the compacted revision everything fails, at it and above everything is exact", "compacting the same or older again does nothing", "lists and watches go on beside compaction", randomHistory}[:3], compactAt(func(at, now storage.Revision) storage.Revision {
			return min(at+2, max(now, at))
		})},
		{"compaction forgets previous records", []string{"the first change after compaction names the record it replaced", "compacting the current revision leaves now", randomHistory}, in(func(m *mutant) {
			var compacted atomic.Uint64
			m.compact = func(ctx context.Context, at storage.Revision) error {
				compacted.Store(max(compacted.Load(), uint64(at)))
				return m.Backend.Compact(ctx, at)
			}
			m.history = func(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
				p, err := m.Backend.History(ctx, r)
				for i, b := range p.Batches {
					changes := slices.Clone(b.Changes)
					for j, c := range changes {
						if c.Prev != nil && uint64(c.Prev.Revision) <= compacted.Load() {
							changes[j].Prev = nil
						}
					}
					p.Batches[i].Changes = changes
				}
				return p, err
			}
		})},
		{"compacting again fails", []string{"compacting the same or older again does nothing"}, in(func(m *mutant) {
			var last storage.Revision
			m.compact = func(ctx context.Context, at storage.Revision) error {
				if at <= last {
					return storage.ErrCompacted
				}
				last = at
				return m.Backend.Compact(ctx, at)
			}
		})},
		{"compacting the future compacts all", []string{"compacting the future is refused"}, compactAt(func(at, now storage.Revision) storage.Revision { return min(at, now) })},
		{"deleted keys come back with compaction", []string{"compaction keeps what lives and drops what was deleted"}, in(func(m *mutant) {
			deleted, back := map[string]bool{}, false
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				for _, op := range ops {
					deleted[op.Key] = op.Type == storage.OpDelete
				}
				return m.Backend.Commit(ctx, ops)
			}
			m.compact = func(ctx context.Context, at storage.Revision) error {
				back = true
				return m.Backend.Compact(ctx, at)
			}
			m.get = func(ctx context.Context, key string) (storage.Record, error) {
				if back && deleted[key] {
					return storage.Record{Key: key, Revision: 1}, nil
				}
				return m.Backend.Get(ctx, key)
			}
		})},
		{"compaction takes a revision", []string{"compaction takes no revision"}, in(func(m *mutant) {
			m.compact = func(ctx context.Context, at storage.Revision) error {
				if _, err := m.Backend.Commit(ctx, []storage.Op{storage.Put(sys("compacted"), nil, storage.Any)}); err != nil {
					return err
				}
				return m.Backend.Compact(ctx, at)
			}
		})},
		{"a page of a compacted revision shows now", []string{"a page of a compacted revision fails"}, in(func(m *mutant) {
			m.list = func(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
				p, err := m.Backend.List(ctx, r)
				if errors.Is(err, storage.ErrCompacted) && r.After != "" {
					r.At = 0
					return m.Backend.List(ctx, r)
				}
				return p, err
			}
		})},
		{"an overtaken watch skips ahead", []string{"a watch that compaction overtakes misses nothing or says so"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					for b, err := range m.Backend.Watch(ctx, prefix, after) {
						if errors.Is(err, storage.ErrCompacted) {
							now, _ := m.Backend.Revision(ctx)
							yield(storage.Batch{Revision: now, Progress: true}, nil)
							return
						}
						if !yield(b, err) {
							return
						}
					}
				}
			}
		})},
	}
}

func contextFaults() []fault {
	return []fault{
		{"contexts are ignored", []string{"a context that has ended does nothing"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				return m.Backend.Commit(context.WithoutCancel(ctx), ops)
			}
			m.get = func(ctx context.Context, key string) (storage.Record, error) {
				return m.Backend.Get(context.WithoutCancel(ctx), key)
			}
		})},
		{"a watch ends in silence", []string{"a sleeping watch ends with its context", "closing ends the watches"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					for b, err := range m.Backend.Watch(ctx, prefix, after) {
						if err != nil || !yield(b, nil) {
							return
						}
					}
				}
			}
		})},
		{"a watch gives all its history before it looks at its context", []string{"a watch in the middle of history ends with its context"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					history, err := collect(context.WithoutCancel(ctx), m.Backend, prefix, after, after+200)
					for _, b := range history {
						if !yield(b, nil) {
							return
						}
					}
					yield(storage.Batch{}, errors.Join(err, ctx.Err()))
				}
			}
		})},
		{"a commit that happened is answered with the context's error", []string{"a commit whose context ends happens whole or not at all"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := m.Backend.Commit(ctx, ops)
				time.Sleep(500 * time.Microsecond)
				if ctx.Err() != nil {
					return 0, ctx.Err()
				}
				return rev, err
			}
		})},
	}
}

func closingFaults() []fault {
	return []fault{
		{"closing does nothing", []string{"a closed backend refuses everything"}, in(func(m *mutant) {
			m.close = func() error { return nil }
		})},
		{"watches of a closed backend say they were cancelled", []string{"closing ends the watches", "closing within a watch's range is allowed"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					for b, err := range m.Backend.Watch(ctx, prefix, after) {
						if errors.Is(err, storage.ErrClosed) {
							err = context.Canceled
						}
						if !yield(b, err) {
							return
						}
					}
				}
			}
		})},
		{"commits of a closed backend fail in their own way", []string{"closing beside running calls ends each of them cleanly"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := m.Backend.Commit(ctx, ops)
				if errors.Is(err, storage.ErrClosed) {
					err = io.ErrUnexpectedEOF
				}
				return rev, err
			}
		})},
		{"closing waits for readers of watches", []string{"closing within a watch's range is allowed"}, in(func(m *mutant) {
			var running sync.WaitGroup
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				return func(yield func(storage.Batch, error) bool) {
					running.Add(1)
					defer running.Done()
					m.Backend.Watch(ctx, prefix, after)(yield)
				}
			}
			m.close = func() error {
				ended := make(chan struct{})
				go func() { running.Wait(); close(ended) }()
				select {
				case <-ended:
				case <-time.After(100 * time.Millisecond):
					return errors.New("watches are still running")
				}
				return m.Backend.Close()
			}
		})},
	}
}

func concurrencyFaults() []fault {
	return []fault{
		{"expectations are looked at before the commit", []string{"of concurrent writers of one record exactly one wins", "gets, commits and deletes are linearizable"}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				var actual storage.Revision
				if r, err := m.Backend.Get(ctx, ops[0].Key); err == nil {
					actual = r.Revision
				}
				if !ops[0].Expect.Holds(actual) {
					return 0, &storage.ConflictError{Key: ops[0].Key, Expected: ops[0].Expect, Actual: actual}
				}
				time.Sleep(50 * time.Microsecond)
				op := ops[0]
				op.Expect = storage.Any
				return m.Backend.Commit(ctx, []storage.Op{op})
			}
		})},
		{"gets are stale", []string{"gets, commits and deletes are linearizable", randomHistory}, in(func(m *mutant) {
			var mu sync.Mutex
			n, old := 0, map[string]storage.Record{}
			m.get = func(ctx context.Context, key string) (storage.Record, error) {
				mu.Lock()
				defer mu.Unlock()
				n++
				if r, ok := old[key]; ok && n%4 != 0 {
					return r, nil
				}
				r, err := m.Backend.Get(ctx, key)
				if err == nil {
					old[key] = r
				}
				return r, err
			}
		})},
		{"a commit is visible a little after it is acknowledged", []string{"gets, commits and deletes are linearizable", "the current revision is the newest commit's"}, in(func(m *mutant) {
			var hidden atomic.Int64
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := m.Backend.Commit(ctx, ops)
				hidden.Store(time.Now().Add(time.Millisecond).UnixNano())
				return rev, err
			}
			late := func(now storage.Revision) storage.Revision {
				if time.Now().UnixNano() < hidden.Load() {
					return now - 1
				}
				return now
			}
			m.revision = func(ctx context.Context) (storage.Revision, error) {
				now, err := m.Backend.Revision(ctx)
				return late(now), err
			}
			m.get = func(ctx context.Context, key string) (storage.Record, error) {
				now, err := m.Backend.Revision(ctx)
				if err != nil {
					return storage.Record{}, err
				}
				p, err := m.Backend.List(ctx, storage.ListRequest{Prefix: key, At: late(now), Limit: 1})
				if err == nil && len(p.Records) == 0 {
					return storage.Record{}, storage.ErrNotFound
				}
				if err != nil {
					return storage.Record{}, err
				}
				return p.Records[0], nil
			}
		})},
	}
}

func reopeningFaults() []fault {
	// A healthy store whose data survives: making a view again reopens it.
	open := func(testing.TB) storage.Backend { return storage.Prefix(memory.New(), "here") }
	again := func(b storage.Backend) storage.Backend {
		_ = b.Close()
		return storage.Prefix(b.(storage.Unwrapper).Unwrap(), "here")
	}
	return []fault{
		{"reopening loses everything but the revision", []string{"records and history survive a reopen"}, func() Harness {
			return Harness{Open: open, Reopen: func(_ testing.TB, b storage.Backend) storage.Backend {
				rev, _ := b.Revision(context.Background())
				_ = b.Close()
				return storage.Prefix(memory.New(memory.WithFirstRevision(rev)), "here")
			}}
		}},
		{"reopening begins anew", []string{"revisions are never reused after a reopen", "an empty store can be reopened", "closing beside running calls ends each of them cleanly"}, func() Harness {
			return Harness{Open: open, Reopen: func(_ testing.TB, b storage.Backend) storage.Backend {
				_ = b.Close()
				return storage.Prefix(memory.New(memory.WithFirstRevision(1)), "here")
			}}
		}},
		{"reopening forgets that history was compacted", []string{"compaction survives a reopen"}, func() Harness {
			forgetful := func(b storage.Backend) storage.Backend {
				m := &mutant{Backend: b}
				var compacted storage.Revision
				m.compact = func(_ context.Context, at storage.Revision) error {
					compacted = max(compacted, at)
					return nil
				}
				m.list = func(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
					if r.At != 0 && r.At < compacted {
						return storage.Page{}, storage.ErrCompacted
					}
					return m.Backend.List(ctx, r)
				}
				return m
			}
			return Harness{
				Open: func(t testing.TB) storage.Backend { return forgetful(open(t)) },
				Reopen: func(_ testing.TB, b storage.Backend) storage.Backend {
					return forgetful(again(b.(*mutant).Backend))
				},
			}
		}},
	}
}

func crashingFaults() []fault {
	open := func(testing.TB) storage.Backend { return storage.Prefix(memory.New(), "here") }
	return []fault{
		{"commits are acknowledged before they are durable", []string{"acknowledged commits survive a crash"}, func() Harness {
			return Harness{Open: open, Crash: func(_ testing.TB, b storage.Backend) storage.Backend {
				rev, _ := b.Revision(context.Background())
				_ = b.Close()
				return storage.Prefix(memory.New(memory.WithFirstRevision(rev+1)), "here")
			}}
		}},
		{"two processes have a store each", []string{
			"data that is opened twice is one store, or the second opening is refused",
			"a second handle sees each commit at once, everywhere",
			"a watch of one handle gives the commits of both in order",
			"compaction through one handle holds for both",
			"of writers on two handles exactly one wins, and calls are linearizable",
		}, func() Harness {
			return Harness{Open: open, Join: func(testing.TB, storage.Backend) (storage.Backend, error) { return memory.New(), nil }}
		}},
	}
}
