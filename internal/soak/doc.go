// Package soak runs a whole server under everything that can go wrong for a watcher, and checks
// every delivered event. Random writers use all verbs. Watchers use every kind of filter and form,
// in process and over HTTP/2. They read slowly or not at all, disconnect, and return at any
// version. Meanwhile history is compacted and the server restarts.
//
// The expected events come from the store's commits, below the server. The delivered ones come from
// the bytes that clients read, above it. Package watchtest compares the two. So the run does not
// depend on any code between them.
//
// The package has no code outside its tests, and nothing imports it. One run delivers a million
// events, fewer with the race detector or with -short:
//
//	go test ./internal/soak -run TestSoak -v
//	go test ./internal/soak -run TestSoak -v -events 10000000 -seed 7
//	make soak EVENTS=10000000
//
// TestFaultsAreReported shows that the run can fail: it detects a wire that drops, duplicates or
// swaps one event.
package soak
