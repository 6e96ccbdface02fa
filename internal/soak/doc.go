// Package soak runs a whole server under everything that can go wrong for a watcher, and checks every event that is
// delivered: random writers of all verbs, watchers of every kind of filter and form, in process and over HTTP/2, who read
// slowly or not at all, go away and come back at any version, while history is compacted and the server restarts.
//
// What happened is taken from the store's commits, below the server; what was delivered from the bytes that clients read,
// above it; package watchtest compares the two. So the run knows nothing of what is between.
//
// It has no code outside its tests and nothing imports it. One run delivers a million events, fewer with the race detector
// or with -short:
//
//	go test ./internal/soak -run TestSoak -v
//	go test ./internal/soak -run TestSoak -v -events 10000000 -seed 7
//	make soak EVENTS=10000000
//
// TestFaultsAreReported shows that it can fail: a wire that drops, doubles or swaps one event is reported.
package soak
