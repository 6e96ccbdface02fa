package bbolt

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// How long a test waits for an event, and how often it checks.
const (
	waitLimit = time.Minute
	tick      = time.Millisecond
)

var errDisk = errors.New("the disk is on fire")

type (
	beginFunc  func(writable bool) (*bolt.Tx, error)
	commitFunc func(*bolt.Tx) error
)

// seam is between a store and bbolt. A test can make it delay, fail, crash, or call the real disk.
type seam struct {
	begin  atomic.Pointer[func(really beginFunc, writable bool) (*bolt.Tx, error)]
	commit atomic.Pointer[func(really commitFunc, tx *bolt.Tx) error]

	allocate atomic.Pointer[func(from, to int64) error]
}

func (s *seam) option() Option {
	return func(o *options) {
		o.disk = func(d disk) disk {
			return disk{
				begin: func(writable bool) (*bolt.Tx, error) {
					if f := s.begin.Load(); f != nil {
						return (*f)(d.begin, writable)
					}
					return d.begin(writable)
				},
				allocate: func(from, to int64) error {
					if f := s.allocate.Load(); f != nil {
						return (*f)(from, to)
					}
					return d.allocate(from, to)
				},
				commit: func(tx *bolt.Tx) error {
					if f := s.commit.Load(); f != nil {
						return (*f)(d.commit, tx)
					}
					return d.commit(tx)
				},
			}
		}
	}
}

func (s *seam) onBegin(f func(really beginFunc, writable bool) (*bolt.Tx, error)) { s.begin.Store(&f) }

func (s *seam) onCommit(f func(really commitFunc, tx *bolt.Tx) error) { s.commit.Store(&f) }

// heal restores the real disk.
func (s *seam) heal() {
	s.begin.Store(nil)
	s.commit.Store(nil)
}

// held are syncs that wait for the test.
type held struct {
	waiting chan struct{} // a sync has arrived
	pass    chan struct{} // it may continue
}

func (s *seam) hold() held {
	h := held{make(chan struct{}), make(chan struct{})}
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		h.waiting <- struct{}{}
		<-h.pass
		return really(tx)
	})
	return h
}

// openSeam opens a new store with a seam.
func openSeam(t testing.TB, opts ...Option) (*DB, *seam) {
	t.Helper()
	s := &seam{}
	return open(t, filepath.Join(t.TempDir(), "store.db"), append(opts, s.option())...), s
}

// stateIn is the state that a transaction is about to make durable.
func stateIn(tx *bolt.Tx) state {
	s, err := parseState(tx.Bucket([]byte(metaBucket)).Get([]byte(stateKey)))
	if err != nil {
		panic(err)
	}
	return s
}

// outcome is the answer to a call in another goroutine.
type outcome struct {
	rev storage.Revision
	err error
}

func commitLater(ctx context.Context, db *DB, ops ...storage.Op) <-chan outcome {
	answer := make(chan outcome, 1)
	go func() {
		rev, err := db.Commit(ctx, ops)
		answer <- outcome{rev, err}
	}()
	return answer
}

// enqueue adds a commit to the queue, behind the n that wait already.
func enqueue(ctx context.Context, t testing.TB, db *DB, n int, ops ...storage.Op) <-chan outcome {
	t.Helper()
	answer := commitLater(ctx, db, ops...)
	require.Eventually(t, func() bool {
		db.queue.mu.Lock()
		defer db.queue.mu.Unlock()
		return len(db.queue.waiting) == n+1
	}, waitLimit, tick)
	return answer
}
