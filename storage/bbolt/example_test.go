package bbolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// Commits and their history survive: when the file is opened again, a watch continues where it
// stopped.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "store.db")
	ctx := context.Background()
	key := storage.ObjectKey("example.dev/widgets", "team", "one")

	db, err := bbolt.Open(path)
	if err != nil {
		panic(err)
	}
	store := storage.New(db)
	first, _ := store.Commit(ctx, []storage.Op{storage.Put(key, []byte("red"), storage.Absent)})
	_, err = store.Commit(ctx, []storage.Op{storage.Put(key, []byte("blue"), storage.Absent)})
	fmt.Println("created again:", err != nil)
	_, _ = store.Commit(ctx, []storage.Op{storage.Put(key, []byte("green"), storage.Expect(first))})
	_ = store.Close()

	db, err = bbolt.Open(path)
	if err != nil {
		panic(err)
	}
	store = storage.New(db)
	defer func() { _ = store.Close() }()
	record, _ := store.Get(ctx, key)
	fmt.Printf("now: %s\n", record.Value)
	page, err := store.History(ctx, storage.HistoryRequest{Prefix: storage.ResourcePrefix("example.dev/widgets"), After: first, Limit: 1, Prev: true})
	if err != nil {
		panic(err)
	}
	change := page.Batches[0].Changes[0]
	fmt.Printf("since the first: %s, before that %s\n", change.Value, change.Prev.Value)
	// Output:
	// created again: true
	// now: green
	// since the first: green, before that red
}

// A backup is a store. When opened, it continues far above the revisions of the original.
func ExampleDB_Backup() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	db, err := bbolt.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	_, _ = db.Commit(ctx, []storage.Op{storage.Put(storage.SysKey("color"), []byte("red"), storage.Any)})
	at, err := db.Backup(ctx, filepath.Join(dir, "backup.db"))
	if err != nil {
		panic(err)
	}
	lost, _ := db.Commit(ctx, []storage.Op{storage.Put(storage.SysKey("color"), []byte("blue"), storage.Any)})

	restored, err := bbolt.Open(filepath.Join(dir, "backup.db"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = restored.Close() }()
	record, _ := restored.Get(ctx, storage.SysKey("color"))
	now, _ := restored.Revision(ctx)
	fmt.Printf("%s, above everything issued before: %t\n", record.Value, at < lost && lost < now)
	// Output:
	// red, above everything issued before: true
}
