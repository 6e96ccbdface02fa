package conformance

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// mishap is what happens to a call of a faulty store.
type mishap int

const (
	fine    mishap = iota
	slow           // it takes longer than some requests may
	refused        // nothing is done, and the error says so
	undone         // nothing is done, and the outcome is called unknown
	unsaid         // it is done, and the outcome is called unknown
	mishaps        // how many there are
)

// odds are how many of a thousand calls meet each mishap.
type odds [mishaps]int

// slowest is how long a slow call takes at most.
const slowest = 10 * time.Second

// faultyStore is a store that fails while on is set. It outlives its servers.
type faultyStore struct {
	storage.Backend
	on  atomic.Bool
	met [mishaps]atomic.Int64

	mu   sync.Mutex // guards dice
	dice *rand.Rand
}

func newFaultyStore(seed uint64, b storage.Backend) *faultyStore {
	return &faultyStore{Backend: b, dice: rand.New(rand.NewPCG(seed, 0))}
}

func (f *faultyStore) Unwrap() storage.Backend { return f.Backend }

func (f *faultyStore) Close() error { return nil }

// roll decides about a call, and how long it takes if it is slow.
func (f *faultyStore) roll(of odds) (mishap, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.dice.IntN(1000)
	for m := slow; m < mishaps; m++ {
		if n -= of[m]; n < 0 {
			return m, time.Duration(f.dice.Int64N(int64(slowest)))
		}
	}
	return fine, 0
}

// fault decides about a call, and waits if it is slow. An error says that the call does nothing.
func (f *faultyStore) fault(ctx context.Context, of odds) (mishap, error) {
	if !f.on.Load() {
		return fine, nil
	}
	m, delay := f.roll(of)
	f.met[m].Add(1)
	switch m {
	case slow:
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return m, ctx.Err()
		}
	case refused:
		return m, storage.ErrUnavailable
	case undone:
		return m, fmt.Errorf("%w: it did not happen", storage.ErrUnknownOutcome)
	}
	return m, nil
}

// read carries out a call that changes nothing.
func read[T any](ctx context.Context, f *faultyStore, call func() (T, error)) (T, error) {
	if _, err := f.fault(ctx, odds{slow: 60, refused: 50}); err != nil {
		var none T
		return none, err
	}
	return call()
}

func (f *faultyStore) Get(ctx context.Context, key string) (storage.Record, error) {
	return read(ctx, f, func() (storage.Record, error) { return f.Backend.Get(ctx, key) })
}

func (f *faultyStore) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	return read(ctx, f, func() (storage.Page, error) { return f.Backend.List(ctx, r) })
}

func (f *faultyStore) Revision(ctx context.Context) (storage.Revision, error) {
	return read(ctx, f, func() (storage.Revision, error) { return f.Backend.Revision(ctx) })
}

func (f *faultyStore) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	return read(ctx, f, func() (storage.Revision, error) { return f.Backend.Sync(ctx, prefix) })
}

func (f *faultyStore) History(
	ctx context.Context, r storage.HistoryRequest,
) (storage.HistoryPage, error) {
	return read(ctx, f, func() (storage.HistoryPage, error) { return f.Backend.History(ctx, r) })
}

func (f *faultyStore) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	m, err := f.fault(ctx, odds{slow: 20, refused: 80, undone: 20, unsaid: 50})
	if err != nil {
		return 0, err
	}
	revision, err := f.Backend.Commit(ctx, ops)
	if err == nil && m == unsaid {
		return 0, fmt.Errorf("%w: it did happen", storage.ErrUnknownOutcome)
	}
	return revision, err
}

func (f *faultyStore) Watch(
	ctx context.Context, prefix string, after storage.Revision,
) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range f.Backend.Watch(ctx, prefix, after) {
			if err == nil {
				_, err = f.fault(ctx, odds{slow: 20, refused: 10})
			}
			if err != nil {
				yield(storage.Batch{}, err)
				return
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}
