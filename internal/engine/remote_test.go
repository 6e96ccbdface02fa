package engine_test

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// remote is a store behind a network: a handle on data that other servers use, too. Its watch brings
// nothing before somebody asks for the newest revision, so a view that nobody asks to be fresh is as
// old as it can be.
type remote struct {
	storage.Backend

	latency               atomic.Int64 // of each call, in nanoseconds
	syncs, commits, reads atomic.Int64

	mu    sync.Mutex
	asked chan struct{}   // closed by the next Sync; nil: the watch is not held back
	line  context.Context //nolint:containedctx // ends with the connection to the store
	cut   context.CancelFunc
}

// newRemote returns a handle whose watch is held back.
func newRemote(db *memory.DB) *remote {
	r := newPrompt(db)
	r.asked = make(chan struct{})
	return r
}

// newPrompt returns a handle whose watch is not held back.
func newPrompt(db *memory.DB) *remote {
	r := &remote{Backend: db}
	r.heal()
	return r
}

// heal connects the handle with its store. The function cut ends that.
func (r *remote) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line, r.cut = context.WithCancel(context.Background())
}

// connection returns the present connection, which has ended if the store is out of reach.
func (r *remote) connection() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.line
}

// Ready implements storage.Readiness.
func (r *remote) Ready() error {
	if r.connection().Err() != nil {
		return storage.ErrUnavailable
	}
	return nil
}

func (r *remote) Unwrap() storage.Backend { return r.Backend }

// Exclusive implements storage.Exclusive.
func (*remote) Exclusive() bool { return false }

// Resident implements storage.Resident.
func (*remote) Resident() bool { return false }

// trips returns how many calls have been made.
func (r *remote) trips() int64 { return r.syncs.Load() + r.commits.Load() + r.reads.Load() }

func (r *remote) travel(ctx context.Context) error {
	if err := r.Ready(); err != nil {
		return err
	}
	latency := time.Duration(r.latency.Load())
	if latency == 0 {
		return nil
	}
	select {
	case <-time.After(latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *remote) Get(ctx context.Context, key string) (storage.Record, error) {
	r.reads.Add(1)
	if err := r.travel(ctx); err != nil {
		return storage.Record{}, err
	}
	return r.Backend.Get(ctx, key)
}

func (r *remote) List(ctx context.Context, l storage.ListRequest) (storage.Page, error) {
	r.reads.Add(1)
	if err := r.travel(ctx); err != nil {
		return storage.Page{}, err
	}
	return r.Backend.List(ctx, l)
}

func (r *remote) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	r.commits.Add(1)
	if err := r.travel(ctx); err != nil {
		return 0, err
	}
	return r.Backend.Commit(ctx, ops)
}

func (r *remote) History(ctx context.Context, h storage.HistoryRequest) (storage.HistoryPage, error) {
	r.reads.Add(1)
	if err := r.travel(ctx); err != nil {
		return storage.HistoryPage{}, err
	}
	return r.Backend.History(ctx, h)
}

// Revision implements storage.Backend. It is not counted: the trimming of history asks at any time.
func (r *remote) Revision(ctx context.Context) (storage.Revision, error) {
	if err := r.travel(ctx); err != nil {
		return 0, err
	}
	return r.Backend.Revision(ctx)
}

func (r *remote) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	r.syncs.Add(1)
	if err := r.travel(ctx); err != nil {
		return 0, err
	}
	rev, err := r.Backend.Sync(ctx, prefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != nil {
		close(r.asked)
		r.asked = make(chan struct{})
	}
	return rev, err
}

// next returns the channel that the next Sync closes.
func (r *remote) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// Watch implements storage.Backend. Each batch waits until somebody has asked, after the batch before
// it, for a revision that is at least as high.
func (r *remote) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		if err := r.travel(ctx); err != nil {
			yield(storage.Batch{}, err)
			return
		}
		line := r.connection()
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(line, cancel)()
		asked := r.next()
		reached, err := r.Backend.Revision(inner) // somebody may have asked for it before there was a watch
		if err != nil {
			yield(storage.Batch{}, err)
			return
		}
		for batch, err := range r.Backend.Watch(inner, prefix, after) {
			for err == nil && asked != nil && batch.Revision > reached {
				select {
				case <-asked:
				case <-inner.Done():
				}
				asked = r.next()
				reached, err = r.Backend.Revision(inner)
			}
			if line.Err() != nil && ctx.Err() == nil {
				batch, err = storage.Batch{}, storage.ErrUnavailable
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}
