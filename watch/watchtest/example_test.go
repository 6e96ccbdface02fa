package watchtest_test

import (
	"fmt"

	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// A watcher that was not told of a change is found out.
func ExampleHistory_Check() {
	var history watchtest.History
	first, second := object("argo", 4), object("argo", 6)
	history.Add(watchtest.Commit{Revision: 4, Key: first.Key(), Next: first})
	history.Add(watchtest.Commit{Revision: 6, Key: first.Key(), Next: second})

	recording := &watchtest.Recording{Match: func(*watch.Entry) bool { return true }, From: 3}
	event, err := watchtest.ParseLine([]byte(`{"type":"ADDED","object":{"metadata":{"name":"argo","namespace":"ns","resourceVersion":"4","uid":"u"}}}`))
	fmt.Println(event, err)
	recording.Tell(event)
	fmt.Println(history.Check(recording, 5))
	fmt.Println(history.Check(recording, 6))
	// Output:
	// ADDED ns/argo at 4 <nil>
	// <nil>
	// watch from 3: ends without MODIFIED ns/argo at 6, which had happened by 6
}
