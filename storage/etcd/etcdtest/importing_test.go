package etcdtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
	"github.com/kindwright/kindwright/storage/storagetest"
)

func TestImport(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	storagetest.RunImports(t, s.harness())

	// Other handles learn where the store begins after an import, and that its records are from before.
	a := s.fresh(t)
	b := s.open(t, a.Prefix())
	rev, err := b.Revision(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.Import(t.Context(), storage.Import{Put: []storage.Record{{Key: widget("a"), Value: []byte("a"), Revision: 7}}}))
	require.NoError(t, a.Import(t.Context(), storage.Import{Above: rev + 1<<40}))
	next := commit(t, b, storage.Put(widget("a"), []byte("b"), 7))
	require.Greater(t, next, rev+1<<40)
	for _, db := range []storage.Backend{a, b} {
		require.Equal(t, next, revisionOf(t, db, widget("a")))
		require.NoError(t, db.Close())
	}
}
