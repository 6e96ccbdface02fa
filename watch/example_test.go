package watch_test

import (
	"context"
	"fmt"
	"os"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// A kind is stored, listed and watched. The list and the watch share the revision at which one ends
// and the other begins, so nothing falls between them.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	store := storage.New(memory.New(memory.WithFirstRevision(100)))
	dispatcher := watch.NewDispatcher(store)
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()

	boats, err := dispatcher.Add(ctx, watch.CacheConfig{
		StorageName: "boats",
		Decode: func(r storage.Record) (*watch.Entry, error) {
			// The engine reads this from the stored JSON; a boat's record is its name.
			name := string(r.Value)
			body := watch.Body{Prefix: []byte(`{"metadata":{"name":"` + name + `",`), Suffix: []byte(`"uid":"1"}}`)}
			return watch.NewEntry(r.Key, r.Revision, body, watch.Facts{Namespace: "harbour", Name: name}), nil
		},
	})
	if err != nil {
		panic(err)
	}
	launch := func(name string) storage.Revision {
		key := storage.ObjectKey("boats", "harbour", name)
		revision, err := store.Commit(ctx, []storage.Op{storage.Put(key, []byte(name), storage.Absent)})
		if err != nil {
			panic(err)
		}
		return revision
	}

	// A write waits until its own effect can be seen.
	if err := boats.WaitFor(ctx, launch("argo")); err != nil {
		panic(err)
	}
	list := boats.Snapshot()
	fmt.Println("list at", list.Revision())
	for entry := range list.Ascend("", "") {
		_, _ = entry.WriteTo(os.Stdout)
		fmt.Println()
	}

	cursor, err := boats.Watch(ctx, watch.WatchRequest{
		Filter: watch.Filter{Namespace: "harbour"},
		After:  list.Revision(),
	})
	if err != nil {
		panic(err)
	}
	launch("beagle")
	events, err := cursor.Next(ctx, nil)
	if err != nil {
		panic(err)
	}
	for _, event := range events {
		fmt.Printf("%s", event.AppendFrame(nil))
	}
	fmt.Println("a bookmark could say", cursor.Progress())

	cursor.Close()
	cancel()
	fmt.Println(<-ended, store.Close())
	// Output:
	// list at 101
	// {"metadata":{"name":"argo","resourceVersion":"101","uid":"1"}}
	// {"type":"ADDED","object":{"metadata":{"name":"beagle","resourceVersion":"102","uid":"1"}}}
	// a bookmark could say 102
	// <nil> <nil>
}

// A filter's selectors are judged by an entry's facts.
func ExampleFilter_Matches() {
	entry := watch.NewEntry(storage.ObjectKey("boats", "harbour", "argo"), 7, watch.Body{}, watch.Facts{
		Namespace: "harbour",
		Name:      "argo",
		Labels:    meta.NewLabelSet(map[string]string{"rig": "square"}),
	})
	for _, text := range []string{"rig=square", "rig=gaff", "!sunk"} {
		selector, err := meta.ParseSelector(text)
		if err != nil {
			panic(err)
		}
		fmt.Println(text, watch.Filter{Namespace: "harbour", Labels: selector}.Matches(entry))
	}
	// Output:
	// rig=square true
	// rig=gaff false
	// !sunk true
}
