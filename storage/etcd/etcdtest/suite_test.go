package etcdtest_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// seeds and steps make the random histories longer: go test -seeds=20 -steps=10000.
var (
	seeds = flag.Int("seeds", 1, "random histories per suite")
	steps = flag.Int("steps", 1000, "steps of a random history")
	long  = flag.Bool("long", false, "all of the suite on stores without a log, too")
)

func TestMain(m *testing.M) { etcdtest.Main(m) }

// stores opens stores with prefixes of their own in one cluster.
type stores struct {
	cluster  *etcdtest.Cluster
	logBytes int // for what is recent; 0 is the default
	opened   atomic.Int64
}

func (s *stores) open(t testing.TB, prefix string) *etcd.DB {
	t.Helper()
	config := etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: prefix, MaxLogBytes: s.logBytes}
	db, err := etcd.Open(context.Background(), config)
	require.NoError(t, err)
	return db
}

// fresh opens a store with a prefix that no other test has.
func (s *stores) fresh(t testing.TB) *etcd.DB {
	t.Helper()
	return s.open(t, s.prefix())
}

func (s *stores) prefix() string { return fmt.Sprintf("/store-%d", s.opened.Add(1)) }

func (s *stores) harness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB) storage.Backend { return s.fresh(t) },
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			db, ok := storage.As[*etcd.DB](b)
			require.True(t, ok)
			require.NoError(t, b.Close())
			return s.open(t, db.Prefix())
		},
		Join: func(t testing.TB, b storage.Backend) (storage.Backend, error) {
			db, ok := storage.As[*etcd.DB](b)
			require.True(t, ok)
			return s.open(t, db.Prefix()), nil
		},
		Seeds: *seeds,
		Steps: *steps,
	}
}

func TestSTORE_02_OneMember(t *testing.T) {
	storagetest.Run(t, (&stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}).harness())
}

func TestSTORE_02_ThreeMembers(t *testing.T) {
	storagetest.Run(t, (&stores{cluster: etcdtest.Start(t, 3, etcdtest.Options{})}).harness())
}

// Without a log to speak of, watches and histories read from etcd. Etcd looks for readers of the past
// ten times a second, so all of the suite takes minutes; TestWideCommits has the essence of it.
func TestSTORE_02_WithoutLog(t *testing.T) {
	h := (&stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{}), logBytes: 1}).harness()
	if *long {
		storagetest.Run(t, h)
		return
	}
	db := h.Open(t)
	for i := range 20 {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(strconv.Itoa(i%3)), nil, storage.Any)})
		require.NoError(t, err)
	}
	storagetest.CheckInvariants(t, db)
	require.NoError(t, db.Close())
}
