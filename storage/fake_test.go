package storage_test

import (
	"context"
	"iter"
	"testing"

	"github.com/kindwright/kindwright/storage"
)

// fake is a backend that answers every call with one error, or fails the test if it is called at
// all.
type fake struct {
	t       testing.TB
	err     error
	batches []storage.Batch // yielded before err
	closed  int
}

var _ storage.Backend = (*fake)(nil)

func (f *fake) reached(call string) {
	if f.t != nil {
		f.t.Errorf("%s reached the backend", call)
	}
}

func (f *fake) Get(context.Context, string) (storage.Record, error) {
	f.reached("get")
	return storage.Record{}, f.err
}

func (f *fake) List(context.Context, storage.ListRequest) (storage.Page, error) {
	f.reached("list")
	return storage.Page{}, f.err
}

func (f *fake) Commit(context.Context, []storage.Op) (storage.Revision, error) {
	f.reached("commit")
	return 0, f.err
}

func (f *fake) Watch(context.Context, string, storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		f.reached("watch")
		for _, b := range f.batches {
			if !yield(b, nil) {
				return
			}
		}
		yield(storage.Batch{}, f.err)
	}
}

func (f *fake) History(context.Context, storage.HistoryRequest) (storage.HistoryPage, error) {
	f.reached("history")
	return storage.HistoryPage{Batches: f.batches}, f.err
}

func (f *fake) Sync(context.Context, string) (storage.Revision, error) {
	f.reached("sync")
	return 0, f.err
}

func (f *fake) Revision(context.Context) (storage.Revision, error) {
	f.reached("revision")
	return 0, f.err
}

func (f *fake) Compact(context.Context, storage.Revision) error {
	f.reached("compact")
	return f.err
}

func (f *fake) Limits() storage.Limits {
	return storage.Limits{MaxValueBytes: 100, MaxOps: 4, MaxCommitBytes: 300}
}

func (f *fake) Close() error {
	f.closed++
	return f.err
}
