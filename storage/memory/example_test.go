package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// A store starts at the current time in microseconds, so all revisions issued before a restart are
// older.
func ExampleWithNow() {
	now := func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }
	db := memory.New(memory.WithNow(now))
	rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(storage.SysKey("format"), []byte("1"), storage.Absent)})
	fmt.Println(rev, err)
	// Output:
	// 1893553445000001 <nil>
}

// Every state since the last compaction can be listed.
func ExampleDB_List() {
	ctx := context.Background()
	db := memory.New(memory.WithFirstRevision(100))
	key := storage.ObjectKey("widgets", "default", "hinge")
	for _, value := range []string{"brass", "steel", "gold"} {
		_, _ = db.Commit(ctx, []storage.Op{storage.Put(key, []byte(value), storage.Any)})
	}
	_ = db.Compact(ctx, 102)
	for _, at := range []storage.Revision{101, 102, 103, 104} {
		page, err := db.List(ctx, storage.ListRequest{At: at, Limit: 10})
		for _, record := range page.Records {
			fmt.Printf("%d: %s\n", at, record.Value)
		}
		if err != nil {
			fmt.Printf("%d: %v\n", at, err)
		}
	}
	// Output:
	// 101: revision has been compacted
	// 102: steel
	// 103: gold
	// 104: revision has not been reached yet
}

// Two tests start with the same state and do not see each other's changes.
func ExampleDB_Fork() {
	ctx := context.Background()
	db := memory.New()
	key := storage.ObjectKey("widgets", "default", "hinge")
	_, _ = db.Commit(ctx, []storage.Op{storage.Put(key, []byte("brass"), storage.Any)})
	fork, _ := db.Fork()
	_, _ = fork.Commit(ctx, []storage.Op{storage.Put(key, []byte("gold"), storage.Any)})
	for _, db := range []*memory.DB{db, fork} {
		record, err := db.Get(ctx, key)
		fmt.Println(string(record.Value), err)
	}
	// Output:
	// brass <nil>
	// gold <nil>
}
