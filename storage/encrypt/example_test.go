package encrypt_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
)

// Secrets are encrypted, and nothing else. A new key goes before the old one, which still reads.
func Example() {
	ctx := context.Background()
	db := memory.New()
	oldKey := encrypt.Key{Name: "2025", Secret: []byte("a secret of thirty-two bytes, ok")}
	newKey := encrypt.Key{Name: "2026", Secret: []byte("another one of 32 bytes, as well")}
	rules := func(keys ...encrypt.Key) []encrypt.Rule {
		return []encrypt.Rule{{Resources: []string{"secrets"}, Providers: []encrypt.Provider{encrypt.AESGCM(keys...), encrypt.Identity()}}}
	}
	store, err := encrypt.New(db, rules(oldKey))
	if err != nil {
		fmt.Println(err)
		return
	}
	key := storage.ObjectKey("secrets", "team", "password")
	rev, _ := store.Commit(ctx, []storage.Op{storage.Put(key, []byte("hunter2"), storage.Absent)})
	stored, _ := db.Get(ctx, key)
	fmt.Println(strings.HasPrefix(string(stored.Value), "k8s:enc:aesgcm:v1:2025:"), strings.Contains(string(stored.Value), "hunter2"))

	fmt.Println(store.Use(rules(newKey, oldKey)))
	read, _ := store.Get(ctx, key)
	outdated, _ := store.Outdated(ctx, key, rev)
	fmt.Println(string(read.Value), outdated)
	// Output:
	// true false
	// <nil>
	// hunter2 true
}
