package storagetest

import (
	"context"
	"iter"
	"testing"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func wideFaults() []fault {
	return []fault{
		{"a commit has one revision whatever it changes", []string{"changes of one resource in a commit take a revision each, in the order of keys"}, withBatches(func() func(storage.Batch) []storage.Batch {
			return func(b storage.Batch) []storage.Batch { return []storage.Batch{flat(b)} }
		})},
		{"a commit answers its first revision", []string{"changes of one resource in a commit take a revision each, in the order of keys", randomHistory}, in(func(m *mutant) {
			m.commit = func(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
				rev, err := m.Backend.Commit(ctx, ops)
				if places := storage.Places(ops, nil); err == nil && len(places) > 0 {
					rev -= storage.Revision(places[len(places)-1].Rank)
				}
				return rev, err
			}
		})},
		{"a list inside of a commit shows half of it", []string{"a list inside of a commit shows the whole commit", randomHistory}, withList(nil, func(r storage.ListRequest, p *storage.Page) {
			if r.At != 0 {
				p.Revision = r.At
			}
		})},
		{"a watch in the middle of a commit skips the rest", []string{"a watch resumes in the middle of a commit", randomHistory}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				if p, err := m.Backend.List(ctx, storage.ListRequest{At: after, Limit: 1}); err == nil {
					after = p.Revision
				}
				return m.Backend.Watch(ctx, prefix, after)
			}
		})},
		{"a watch in the middle of a commit repeats it", []string{"a watch resumes in the middle of a commit"}, in(func(m *mutant) {
			m.watch = func(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
				if p, err := m.Backend.List(ctx, storage.ListRequest{At: after, Limit: 1}); err == nil && p.Revision > after {
					after -= 2
				}
				return m.Backend.Watch(ctx, prefix, after)
			}
		})},
		{"a history cuts a commit", []string{"a history begins and ends in the middle of a commit"}, in(func(m *mutant) {
			m.history = func(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
				p, err := m.Backend.History(ctx, r)
				if n := len(p.Batches); n > 0 && r.Until != 0 && p.Revision > r.Until {
					p.Revision = r.Until
					last := &p.Batches[n-1]
					for last.Changes[len(last.Changes)-1].Revision > r.Until {
						last.Changes = last.Changes[:len(last.Changes)-1]
					}
				}
				return p, err
			}
		})},
		{"compaction goes on to the end of a commit", []string{"compaction halves no commit"}, in(func(m *mutant) {
			m.compact = func(ctx context.Context, at storage.Revision) error {
				if p, err := m.Backend.List(ctx, storage.ListRequest{At: at, Limit: 1}); err == nil {
					at = p.Revision
				}
				return m.Backend.Compact(ctx, at)
			}
		})},
		{"reopening makes a commit of every revision", []string{"a commit of several revisions survives a reopen"}, func() Harness {
			return Harness{
				Open: func(testing.TB) storage.Backend { return storage.Prefix(memory.New(), "here") },
				Reopen: func(_ testing.TB, b storage.Backend) storage.Backend {
					_ = b.Close()
					m := &mutant{Backend: storage.Prefix(b.(storage.Unwrapper).Unwrap(), "here")}
					m.history = func(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
						p, err := m.Backend.History(ctx, r)
						for i := range p.Batches {
							p.Batches[i] = flat(p.Batches[i])
						}
						return p, err
					}
					return m
				},
			}
		}},
	}
}

// flat gives all changes of a batch the revision of the batch.
func flat(b storage.Batch) storage.Batch {
	b = withoutPrevious([]storage.Batch{b})[0]
	for i := range b.Changes {
		b.Changes[i].Revision = b.Revision
	}
	return b
}
