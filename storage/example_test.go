package storage_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Create if absent, compare and swap, and a lost race.
func ExampleStore_Commit() {
	ctx := context.Background()
	store := storage.New(memory.New(memory.WithFirstRevision(100)))

	key := storage.ObjectKey("widgets", "default", "hinge")
	created, err := store.Commit(ctx, []storage.Op{storage.Put(key, []byte("brass"), storage.Absent)})
	fmt.Println(created, err)

	changed, err := store.Commit(ctx, []storage.Op{storage.Put(key, []byte("steel"), storage.Expect(created))})
	fmt.Println(changed, err)

	_, err = store.Commit(ctx, []storage.Op{storage.Delete(key, storage.Expect(created))})
	var conflict *storage.ConflictError
	fmt.Println(errors.As(err, &conflict), conflict.Actual)
	// Output:
	// 101 <nil>
	// 102 <nil>
	// true 102
}

// The names under which the store has objects, whether they are served or not.
func ExampleStore_StorageNames() {
	ctx := context.Background()
	store := storage.New(memory.New())
	for _, key := range []string{
		storage.ObjectKey("widgets", "a", "one"), storage.ObjectKey("widgets", "z", "two"),
		storage.ObjectKey("apps/widgets", "", "three"), storage.SysKey("phase", "a"),
	} {
		_, err := store.Commit(ctx, []storage.Op{storage.Put(key, []byte("{}"), storage.Absent)})
		if err != nil {
			fmt.Println(err)
		}
	}
	for name, err := range store.StorageNames(ctx) {
		fmt.Println(name, err)
	}
	// Output:
	// apps/widgets <nil>
	// widgets <nil>
}

// A check makes a commit depend on a key that it does not write: no widget is created in a
// terminating namespace.
func ExampleCheck() {
	ctx := context.Background()
	store := storage.New(memory.New(memory.WithFirstRevision(100)))

	phase := storage.SysKey("phase", "default")
	active, _ := store.Commit(ctx, []storage.Op{storage.Put(phase, []byte("Active"), storage.Absent)})
	_, _ = store.Commit(ctx, []storage.Op{storage.Put(phase, []byte("Terminating"), storage.Expect(active))})

	_, err := store.Commit(ctx, []storage.Op{
		storage.Check(phase, storage.Expect(active)),
		storage.Put(storage.ObjectKey("widgets", "default", "hinge"), nil, storage.Absent),
	})
	fmt.Println(err)
	// Output:
	// storage: commit "/sys/phase/default/": conflict on key "/sys/phase/default/": expected revision 101, found revision 102
}

// All pages of a list show one revision, whatever is written meanwhile.
func ExampleStore_List() {
	ctx := context.Background()
	store := storage.New(memory.New())
	for _, name := range []string{"anchor", "bolt", "clamp"} {
		_, _ = store.Commit(ctx, []storage.Op{storage.Put(storage.ObjectKey("widgets", "default", name), nil, storage.Absent)})
	}

	request := storage.ListRequest{Prefix: storage.ResourcePrefix("widgets"), Limit: 2}
	for {
		page, err := store.List(ctx, request)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, record := range page.Records {
			_, namespace, name, _ := storage.SplitObjectKey(record.Key)
			fmt.Println(namespace, name)
		}
		if !page.More {
			return
		}
		request.At, request.After = page.Revision, page.Records[len(page.Records)-1].Key
		_, _ = store.Commit(ctx, []storage.Op{storage.Put(storage.ObjectKey("widgets", "default", "dowel"), nil, storage.Any)})
	}
	// Output:
	// default anchor
	// default bolt
	// default clamp
}

// A watch yields every change after a revision, first from history.
func ExampleStore_Watch() {
	ctx := context.Background()
	store := storage.New(memory.New(memory.WithFirstRevision(100)))
	key := storage.ObjectKey("widgets", "default", "hinge")
	_, _ = store.Commit(ctx, []storage.Op{storage.Put(key, []byte("brass"), storage.Absent)})
	_, _ = store.Commit(ctx, []storage.Op{storage.Put(key, []byte("steel"), storage.Any)})
	_, _ = store.Commit(ctx, []storage.Op{storage.Delete(key, storage.Any)})

	for batch, err := range store.Watch(ctx, storage.ResourcePrefix("widgets"), 101) {
		if err != nil {
			fmt.Println(err) // always the last pair: compacted, closed, or the context's error
			return
		}
		for _, change := range batch.Changes {
			fmt.Printf("%d: %q, deleted: %v\n", change.Revision, change.Value, change.Deleted)
			if change.Deleted {
				return // breaking out releases everything
			}
		}
	}
	// Output:
	// 102: "steel", deleted: false
	// 103: "", deleted: true
}

// One backend holds several tenants that do not see each other.
func ExamplePrefix() {
	ctx := context.Background()
	shared := memory.New()
	acme := storage.New(storage.Prefix(shared, "acme"))
	umbrella := storage.New(storage.Prefix(shared, "umbrella"))

	key := storage.ObjectKey("widgets", "default", "hinge")
	_, _ = acme.Commit(ctx, []storage.Op{storage.Put(key, []byte("acme's"), storage.Absent)})
	_, err := umbrella.Get(ctx, key)
	fmt.Println(err)
	// Output:
	// storage: get "/r/widgets/default/hinge\x01/": key not found
}

// Optional interfaces of a backend are found through its wrappers.
func ExampleAs() {
	store := storage.New(storage.Prefix(memory.New(), "acme"))
	if checker, ok := storage.As[storage.Checker](store); ok {
		fmt.Println(checker.Check(context.Background()))
	}
	// Output:
	// <nil>
}
