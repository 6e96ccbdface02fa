package watchtest_test

import (
	"fmt"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// A watcher that was not told of a change is found out.
func ExampleHistory_Check() {
	var history watchtest.History
	first, second := object("argo", 4), object("argo", 6)
	history.Add(watchtest.Commit{Revision: 4, Next: first})
	history.Add(watchtest.Commit{Revision: 6, Prev: first, Next: second})

	recording := &watchtest.Recording{Match: func(*watch.Entry) bool { return true }, From: 3}
	recording.Events(watch.Event{Type: meta.Added, Entry: first, Revision: 4})
	fmt.Println(history.Check(recording, 5))
	fmt.Println(history.Check(recording, 6))
	// Output:
	// <nil>
	// watch from 3: ends without MODIFIED /r/boats/ns/argo/ at 6, which had happened by 6
}
