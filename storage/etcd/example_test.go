package etcd_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
)

// A program opens the store that all its instances share. It needs an etcd, so this example is built
// but not run.
func Example() {
	ctx := context.Background()
	db, err := etcd.Open(ctx, etcd.Config{
		Endpoints: []string{"http://10.0.0.1:2379", "http://10.0.0.2:2379", "http://10.0.0.3:2379"},
		Prefix:    "/widgets.example.dev",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	store := storage.New(db)
	fmt.Println(store.Revision(ctx))
}

// Whatever is wrong with the configuration, the error says what to do.
func ExampleOpen() {
	_, err := etcd.Open(context.Background(), etcd.Config{Endpoints: []string{"10.0.0.1:2379"}})
	fmt.Println(err)
	// Output:
	// etcd: the endpoint "10.0.0.1:2379" is not a URL such as https://10.0.0.1:2379
}
