package interop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// mishap is what a faulty backend does to a commit.
type mishap int

const (
	fine         mishap = iota
	refused             // nothing is done, and the error says so
	closed              // the same, as a store answers that is closed
	doneUnsaid          // it is done, and the outcome is called unknown
	undoneUnsaid        // nothing is done, and the outcome is called unknown
	later               // the outcome is called unknown, and then it is done
	slowBefore          // it waits before it is done, and does nothing if the request ends first
	slowAfter           // it is done, and the answer waits; its outcome is unknown if the request ends first
	mishaps
)

// odds are how many of a thousand commits meet each mishap.
var odds = [mishaps]int{refused: 80, closed: 20, doneUnsaid: 40, undoneUnsaid: 20, later: 20, slowBefore: 20, slowAfter: 20}

// Of a thousand questions for the revision, which come before each write, some fail; some batches of
// a watch are late. Delays are longer than requests may take, at times.
const (
	unreadable = 10
	late       = 5
	longest    = 50 * time.Second
)

var errMedium = errors.New("the medium refuses, as the test wants it")

// fact is one operation that the store has carried out, and the request that asked for it.
type fact struct {
	storage.Op
	revision storage.Revision
	by       *attempt // nil: the server itself
}

// faulty is a backend that fails as planned, and that knows what has really happened. The store
// behind it can be replaced.
type faulty struct {
	on atomic.Bool

	mu       sync.Mutex // guards the fields below
	inner    storage.Backend
	dice     *rand.Rand
	facts    []fact
	head     storage.Revision // the newest of facts
	met      [mishaps]int
	problems []error

	postponed chan func()
	worker    sync.WaitGroup
}

var _ storage.Backend = (*faulty)(nil)

func newFaulty(seed uint64, inner storage.Backend) *faulty {
	b := &faulty{inner: inner, dice: rand.New(rand.NewPCG(seed, 1)), postponed: make(chan func(), 1<<16)}
	b.worker.Go(func() {
		for commit := range b.postponed {
			commit()
		}
	})
	return b
}

// settle ends the faults and returns when nothing is postponed any more.
func (b *faulty) settle() {
	b.on.Store(false)
	time.Sleep(longest) // what is slow ends
	close(b.postponed)
	b.worker.Wait()
}

// replace puts another store behind the backend.
func (b *faulty) replace(inner storage.Backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inner = inner
}

// store returns the store behind the backend.
func (b *faulty) store() storage.Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inner
}

// chance reports whether something happens that does so n times in a thousand, and how long it
// takes.
func (b *faulty) chance(n int) (bool, time.Duration) {
	if !b.on.Load() {
		return false, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dice.IntN(1000) < n, time.Duration(b.dice.Int64N(int64(longest)))
}

// next rolls the dice for a commit.
func (b *faulty) next() (mishap, time.Duration) {
	if !b.on.Load() {
		return fine, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	is, n := fine, b.dice.IntN(1000)
	for m := refused; m < mishaps && is == fine; m++ {
		if n -= odds[m]; n < 0 {
			is = m
		}
	}
	b.met[is]++
	return is, time.Duration(b.dice.Int64N(int64(longest)))
}

// Commit implements storage.Backend.
func (b *faulty) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	revision, err := b.try(ctx, ops)
	if by := attemptOf(ctx); by != nil && errors.Is(err, storage.ErrUnknownOutcome) {
		by.unsure.Store(true)
	}
	return revision, err
}

func (b *faulty) try(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	is, delay := b.next()
	switch is {
	case refused:
		return 0, errMedium
	case closed:
		return 0, storage.ErrClosed
	case undoneUnsaid:
		return 0, storage.ErrUnknownOutcome
	case later:
		ops, by := slices.Clone(ops), attemptOf(ctx)
		b.postponed <- func() {
			time.Sleep(delay / 10)
			_, _ = b.really(by, ops) // nobody waits for the answer
		}
		return 0, storage.ErrUnknownOutcome
	case slowBefore:
		if err := pause(ctx, delay); err != nil {
			return 0, err
		}
	}
	revision, err := b.really(attemptOf(ctx), ops)
	switch {
	case err != nil:
		return 0, err
	case is == doneUnsaid:
		return 0, storage.ErrUnknownOutcome
	case is == slowAfter:
		if err := pause(ctx, delay); err != nil {
			return 0, fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, err)
		}
	}
	return revision, nil
}

// really commits, and records it. A request that ends does not end the commit: its outcome would be
// unknown to the record, too.
func (b *faulty) really(by *attempt, ops []storage.Op) (storage.Revision, error) {
	revision, err := b.store().Commit(context.Background(), ops)
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, storage.ErrUnknownOutcome) {
		b.problems = append(b.problems, fmt.Errorf("the store itself does not know: %w", err))
	}
	if err != nil {
		return 0, err
	}
	for _, op := range ops {
		if op.Type != storage.OpCheck {
			b.facts = append(b.facts, fact{op, revision, by})
			b.head = max(b.head, revision)
		}
	}
	return revision, nil
}

// newest returns the revision of the newest commit that is on record.
func (b *faulty) newest() storage.Revision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get implements storage.Backend.
func (b *faulty) Get(ctx context.Context, key string) (storage.Record, error) {
	return b.store().Get(ctx, key)
}

// List implements storage.Backend.
func (b *faulty) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	return b.store().List(ctx, r)
}

// Watch implements storage.Backend. Some batches are late.
func (b *faulty) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range b.store().Watch(ctx, prefix, after) {
			if yes, delay := b.chance(late); yes {
				_ = pause(ctx, delay) // an end of ctx is the next thing that the store says
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// Revision implements storage.Backend.
func (b *faulty) Revision(ctx context.Context) (storage.Revision, error) {
	if yes, _ := b.chance(unreadable); yes {
		return 0, errMedium
	}
	return b.store().Revision(ctx)
}

// Sync implements storage.Backend.
func (b *faulty) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	if yes, _ := b.chance(unreadable); yes {
		return 0, errMedium
	}
	return b.store().Sync(ctx, prefix)
}

// History implements storage.Backend.
func (b *faulty) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	if yes, _ := b.chance(unreadable); yes {
		return storage.HistoryPage{}, errMedium
	}
	return b.store().History(ctx, r)
}

// Compact implements storage.Backend.
func (b *faulty) Compact(ctx context.Context, at storage.Revision) error {
	return b.store().Compact(ctx, at)
}

// Limits implements storage.Backend.
func (b *faulty) Limits() storage.Limits { return b.store().Limits() }

// Unwrap gives access to the store's optional interfaces.
func (b *faulty) Unwrap() storage.Backend { return b.store() }

// Close implements storage.Backend.
func (b *faulty) Close() error { return b.store().Close() }
