package etcdtest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// Keys are rotated on two handles at different times, as a file of keys reaches servers, while writers on
// both rewrite a few values and readers follow. A key is added everywhere before anybody writes with it
// (ENC-06).
func TestENC_06_RotationOnEtcd(t *testing.T) {
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	var handles [2]*encrypt.Backend
	for i := range handles {
		db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: cluster.Endpoints()})
		require.NoError(t, err)
		handles[i], err = encrypt.New(db, encryptionRules("a"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, handles[i].Close()) })
	}
	start, err := handles[0].Revision(t.Context())
	require.NoError(t, err)
	const writers, each, values = 4, 60, 5
	ctx, cancel := context.WithCancel(t.Context())
	var watching, writing sync.WaitGroup
	for _, e := range handles {
		watching.Go(func() {
			seen := 0
			for batch, err := range e.Watch(ctx, "", start) {
				if !assert.NoError(t, err) {
					return
				}
				for _, c := range batch.Changes {
					assert.NoError(t, c.Err)
					assert.Contains(t, string(c.Value), "value ")
					if seen++; seen == writers*each {
						return
					}
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			e := handles[w%2]
			for i := range each {
				key, want := widget(fmt.Sprint("w", w, "-", i%values)), fmt.Sprint("value ", i)
				_, err := e.Commit(ctx, []storage.Op{storage.Put(key, []byte(want), storage.Any)})
				assert.NoError(t, err)
				r, err := e.Get(ctx, key)
				assert.NoError(t, err)
				assert.Equal(t, want, string(r.Value))
			}
		})
	}
	for _, keys := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "a", "c"}, {"c", "a", "b"}} {
		for _, e := range handles {
			time.Sleep(20 * time.Millisecond) // the other handle goes on with the keys from before
			require.NoError(t, e.Use(encryptionRules(keys...)))
		}
	}
	writing.Wait()
	watching.Wait()
	cancel()
	for w := range writers { // what a storage migration does
		for i := range values {
			key := widget(fmt.Sprint("w", w, "-", i))
			r, err := handles[0].Get(t.Context(), key)
			require.NoError(t, err)
			_, err = handles[0].Commit(t.Context(), []storage.Op{storage.Put(key, r.Value, storage.Expect(r.Revision))})
			require.NoError(t, err)
		}
	}
	for _, e := range handles {
		require.NoError(t, e.Use(encryptionRules("c")))
		page, err := e.List(t.Context(), storage.ListRequest{Prefix: storage.ObjectRoot, Limit: 100})
		require.NoError(t, err)
		require.Len(t, page.Records, writers*values)
		for _, r := range page.Records {
			require.NoError(t, r.Err, r.Key)
			outdated, err := e.Outdated(t.Context(), r.Key, r.Revision)
			require.NoError(t, err)
			require.False(t, outdated)
		}
	}
	// A key that is lost in the middle takes away the values that need it, and nothing else.
	require.NoError(t, handles[0].Use(encryptionRules("d")))
	page, err := handles[1].List(t.Context(), storage.ListRequest{Prefix: storage.ObjectRoot, Limit: 100})
	require.NoError(t, err)
	require.NoError(t, page.Records[0].Err)
	page, err = handles[0].List(t.Context(), storage.ListRequest{Prefix: storage.ObjectRoot, Limit: 100})
	require.NoError(t, err)
	for _, r := range page.Records {
		require.ErrorIs(t, r.Err, storage.ErrUnreadable)
	}
	_, err = handles[0].Commit(t.Context(), []storage.Op{storage.Put(widget("new"), []byte("value"), storage.Absent)})
	require.NoError(t, err)
}
