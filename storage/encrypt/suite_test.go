package encrypt_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// wrapped opens what the suite tests over a backend.
type wrapped func(t testing.TB, b storage.Backend) storage.Backend

// encrypted wraps a backend so that all objects are encrypted.
func encrypted(p encrypt.Provider) wrapped {
	return func(t testing.TB, b storage.Backend) storage.Backend {
		e, err := encrypt.New(b, []encrypt.Rule{{Resources: []string{"*.*"}, Providers: []encrypt.Provider{p}}})
		require.NoError(t, err)
		return e
	}
}

// The providers of the suites, by name.
func providers() map[string]encrypt.Provider {
	return map[string]encrypt.Provider{
		"aesgcm":    encrypt.AESGCM(key("a", 32)),
		"aescbc":    encrypt.AESCBC(key("a", 16)),
		"secretbox": encrypt.Secretbox(key("a", 32)),
	}
}

func key(name string, size int) encrypt.Key {
	secret := make([]byte, size)
	copy(secret, name)
	return encrypt.Key{Name: name, Secret: secret}
}

// The wrapper keeps the contract of storage over memory, with each provider, and on both sides of a
// tenant's view.
func TestENC_05_Memory(t *testing.T) {
	over := func(wrap wrapped) storagetest.Harness {
		return storagetest.Harness{
			Open: func(t testing.TB) storage.Backend { return wrap(t, memory.New()) },
			// No Reopen: memory does not survive Close by design.
			Seeds: 1,
			Steps: 1000,
		}
	}
	for name, p := range providers() {
		t.Run(name, func(t *testing.T) { storagetest.Run(t, over(encrypted(p))) })
	}
	aesgcm := encrypted(providers()["aesgcm"])
	t.Run("a view above", func(t *testing.T) {
		storagetest.Run(t, over(func(t testing.TB, b storage.Backend) storage.Backend {
			return storage.New(storage.Prefix(closing(t, aesgcm(t, b)), "tenant"))
		}))
	})
	t.Run("a view below", func(t *testing.T) {
		storagetest.Run(t, over(func(t testing.TB, b storage.Backend) storage.Backend {
			return storage.New(aesgcm(t, storage.Prefix(closing(t, b), "tenant")))
		}))
	})
}

// closing closes a backend that a view does not close.
func closing(t testing.TB, b storage.Backend) storage.Backend {
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// The same over a file, which is opened again.
func TestENC_05_File(t *testing.T) {
	wrap, paths := encrypted(providers()["aesgcm"]), map[*bbolt.DB]string{}
	open := func(t testing.TB, path string) storage.Backend {
		db, err := bbolt.Open(path)
		require.NoError(t, err)
		paths[db] = path
		return wrap(t, db)
	}
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend { return open(t, filepath.Join(t.TempDir(), "store.db")) },
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			db, ok := storage.As[*bbolt.DB](b)
			require.True(t, ok)
			require.NoError(t, b.Close())
			return open(t, paths[db])
		},
		Seeds: 1,
		Steps: 200, // each step waits for the disk
	})
}
