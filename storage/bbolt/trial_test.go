package bbolt

import (
	"context"
	"errors"
	"flag"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// trials is how many histories of several processes are checked: go test -run Trials -trials=500.
var trials = flag.Int("trials", 5, "histories of clients in several processes")

// restarting is a store whose process crashes and starts again, on a disk that fails.
type restarting struct {
	t    testing.TB
	mu   sync.RWMutex
	db   *DB
	disk *life
}

// life is the disk of one process, until it fails.
type life struct {
	mu      sync.Mutex
	slow    *rand.Rand
	failed  bool
	written bool // a commit on the failed disk is written before it fails
}

func (l *life) option() Option {
	s := &seam{}
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.failed && l.written:
			return errors.Join(really(tx), errDisk)
		case l.failed:
			return errDisk
		}
		time.Sleep(time.Duration(l.slow.IntN(300)) * time.Microsecond) // the latency of the disk
		return really(tx)
	})
	return s.option()
}

func newLife() *life { return &life{slow: rand.New(rand.NewPCG(1, 1))} }

func (r *restarting) begin(path string) {
	r.disk = newLife()
	r.db = open(r.t, path, r.disk.option())
}

// crash stops the machine: what is in the file at this moment is all that is left. Nothing is
// acknowledged any more.
func (r *restarting) crash() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disk.mu.Lock()
	r.disk.failed = true
	image := readFile(r.t, r.db.path)
	r.disk.mu.Unlock()
	require.NoError(r.t, r.db.Close())
	r.begin(placeFile(r.t, image))
}

// fails lets the disk fail, and opens the store again when a client has noticed, or none writes.
func (r *restarting) fails(written bool) {
	r.disk.mu.Lock()
	r.disk.failed, r.disk.written = true, written
	r.disk.mu.Unlock()
	for db, tries := r.now(), 0; db.Healthy() == nil && tries < 100; tries++ {
		time.Sleep(100 * time.Microsecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NoError(r.t, r.db.Close())
	r.begin(r.db.path)
}

func (r *restarting) now() *DB {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.db
}

func (r *restarting) Get(ctx context.Context, key string) (storage.Record, error) {
	return r.now().Get(ctx, key)
}

func (r *restarting) List(ctx context.Context, l storage.ListRequest) (storage.Page, error) {
	return r.now().List(ctx, l)
}

func (r *restarting) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	return r.now().Commit(ctx, ops)
}

func (r *restarting) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return r.now().Watch(ctx, prefix, after)
}

func (r *restarting) History(ctx context.Context, h storage.HistoryRequest) (storage.HistoryPage, error) {
	return r.now().History(ctx, h)
}

func (r *restarting) Revision(ctx context.Context) (storage.Revision, error) {
	return r.now().Revision(ctx)
}

func (r *restarting) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	return r.now().Sync(ctx, prefix)
}

func (r *restarting) Compact(ctx context.Context, at storage.Revision) error {
	return r.now().Compact(ctx, at)
}

func (r *restarting) Limits() storage.Limits { return r.now().Limits() }

func (r *restarting) Close() error { return r.now().Close() }

// Three processes use a store over connections that break, while its disk is slow and fails and its
// machine stops. Some order of the calls explains every answer.
func TestSTORE_04_Trials(t *testing.T) {
	f := storagetest.RunTrials(t, storagetest.Trials{
		Count: *trials,
		Open: func(t testing.TB, random *rand.Rand) storagetest.Trial {
			dir := t.TempDir()
			r := &restarting{t: t}
			r.begin(filepath.Join(dir, "store.db"))
			s, err := remotestore.Share(t.Context(), filepath.Join(dir, "s"), 3, r)
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, s.Close())
				require.NoError(t, r.Close())
			})
			return storagetest.Trial{Handles: s.Handles, Faults: []func(){
				s.Cut, r.crash, func() { r.fails(random.IntN(2) == 0) },
			}}
		},
	})
	require.Positive(t, f.Unknown)
	require.Positive(t, f.Resumed)
}
