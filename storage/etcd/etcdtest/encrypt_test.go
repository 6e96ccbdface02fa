package etcdtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// encryptionRules encrypts all objects with the first of the keys.
func encryptionRules(names ...string) []encrypt.Rule {
	var keys []encrypt.Key
	for _, name := range names {
		keys = append(keys, encrypt.Key{Name: name, Secret: []byte(strings.Repeat(name, 32)[:32])})
	}
	return []encrypt.Rule{{Resources: []string{"*.*"}, Providers: []encrypt.Provider{encrypt.AESGCM(keys...)}}}
}

// The contract holds over an encrypted etcd, below a tenant's view, and a second process reads what
// the first one wrote.
func TestENC_05_EncryptedEtcd(t *testing.T) {
	all := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	wrap := func(t testing.TB, db *etcd.DB) storage.Backend {
		e, err := encrypt.New(db, encryptionRules("a"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return storage.Prefix(e, "tenant")
	}
	inner := func(t testing.TB, b storage.Backend) *etcd.DB {
		db, ok := storage.As[*etcd.DB](b)
		require.True(t, ok)
		return db
	}
	h := storagetest.Harness{
		Open: func(t testing.TB) storage.Backend { return wrap(t, all.fresh(t)) },
		Join: func(t testing.TB, b storage.Backend) (storage.Backend, error) {
			return wrap(t, all.open(t, inner(t, b).Prefix())), nil
		},
		Seeds: *seeds,
		Steps: 200,
	}
	if *long {
		storagetest.Run(t, h)
	}
	b := h.Open(t)
	rev, err := b.Commit(t.Context(), []storage.Op{storage.Put(widget("a"), []byte("value"), storage.Any)})
	require.NoError(t, err)
	joined, err := h.Join(t, b)
	require.NoError(t, err)
	r, err := joined.Get(t.Context(), widget("a"))
	require.NoError(t, err)
	require.Equal(t, "value", string(r.Value))
	stored, err := inner(t, b).Get(t.Context(), "/t/tenant"+widget("a"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(stored.Value), "k8s:enc:aesgcm:v1:a:"))
	e, ok := storage.As[*encrypt.Backend](joined)
	require.True(t, ok)
	require.NoError(t, e.Use(encryptionRules("b", "a")))
	recoder, ok := storage.As[storage.Recoder](joined)
	require.True(t, ok)
	outdated, err := recoder.Outdated(t.Context(), widget("a"), rev)
	require.NoError(t, err)
	require.True(t, outdated)
	storagetest.CheckInvariants(t, b)
	require.NoError(t, b.Close())
	require.NoError(t, joined.Close())
}
