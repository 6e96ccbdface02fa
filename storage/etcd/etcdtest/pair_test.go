package etcdtest_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// pair is two handles of one store, as two processes have them. Each call goes to another one than the
// call before.
type pair struct {
	handles [2]*etcd.DB
	calls   atomic.Uint64
}

func (p *pair) other() *etcd.DB { return p.handles[p.calls.Add(1)%2] }

func (p *pair) Get(ctx context.Context, key string) (storage.Record, error) {
	return p.other().Get(ctx, key)
}

func (p *pair) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	return p.other().List(ctx, r)
}

func (p *pair) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	return p.other().Commit(ctx, ops)
}

func (p *pair) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return p.other().Watch(ctx, prefix, after)
}

func (p *pair) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	return p.other().History(ctx, r)
}

func (p *pair) Revision(ctx context.Context) (storage.Revision, error) {
	return p.other().Revision(ctx)
}

// Sync concerns the watches of the handle that it is called on, so it is called on both.
func (p *pair) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	if _, err := p.handles[0].Sync(ctx, prefix); err != nil {
		return 0, err
	}
	return p.handles[1].Sync(ctx, prefix)
}

// Compact is called on both, too: a handle that has not compacted itself may still have more in its log,
// and begin a watch where nothing is missing.
func (p *pair) Compact(ctx context.Context, at storage.Revision) error {
	if err := p.handles[0].Compact(ctx, at); err != nil {
		return err
	}
	return p.handles[1].Compact(ctx, at)
}

func (p *pair) Limits() storage.Limits { return p.handles[0].Limits() }

func (p *pair) Close() error { return errors.Join(p.handles[0].Close(), p.handles[1].Close()) }

// Two processes are one store: the contract holds when each call comes from another one.
func TestSTORE_02_TwoHandles(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 3, etcdtest.Options{})}
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			first := s.fresh(t)
			return &pair{handles: [2]*etcd.DB{first, s.open(t, first.Prefix())}}
		},
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			p, ok := b.(*pair)
			require.True(t, ok)
			require.NoError(t, p.Close())
			prefix := p.handles[0].Prefix()
			return &pair{handles: [2]*etcd.DB{s.open(t, prefix), s.open(t, prefix)}}
		},
		Seeds: *seeds,
		Steps: *steps,
	})
}
