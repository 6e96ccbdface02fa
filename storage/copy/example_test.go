package copy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
)

// A store moves while it is written to. Writers stop only for the end.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	open := func(name string) *bbolt.DB {
		db, err := bbolt.Open(filepath.Join(dir, name))
		if err != nil {
			panic(err)
		}
		return db
	}
	from, to := open("old.db"), open("new.db")
	write := func(name string) storage.Revision {
		rev, err := from.Commit(ctx, []storage.Op{storage.Put(storage.ObjectKey("widgets", "team", name), []byte("{}"), storage.Any)})
		if err != nil {
			panic(err)
		}
		return rev
	}

	first := write("first")
	f, err := copy.Begin(ctx, from, to, copy.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println("served meanwhile:", copy.Unfinished(ctx, to) == nil)
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan error)
	go func() { kept <- f.Keep(keeping) }()
	write("second") // the server goes on

	stop() // the server has stopped
	if err := <-kept; err != nil {
		panic(err)
	}
	result, err := f.Finish(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("records keep their revisions:", result.KeptRevisions)
	r, err := to.Get(ctx, storage.ObjectKey("widgets", "team", "first"))
	fmt.Println("the first one did:", err == nil && r.Revision == first)
	page, err := to.List(ctx, storage.ListRequest{Limit: 10})
	fmt.Println("records:", len(page.Records), err)
	fmt.Println("served now:", copy.Unfinished(ctx, to) == nil)
	if err := from.Close(); err != nil {
		panic(err)
	}
	if err := to.Close(); err != nil {
		panic(err)
	}
	// Output:
	// served meanwhile: false
	// records keep their revisions: true
	// the first one did: true
	// records: 2 <nil>
	// served now: true
}
