// Package lead decides which of the processes that share a store does the work in the background:
// expiry, collection, migration, the end of namespaces, the trimming of history. There is one leader at
// a time, and a leader that has lost its place writes nothing more.
//
// The store keeps two records. The term says who leads; only a new leader writes it. The beat is
// written by the leader every few seconds. Whoever sees no new beat for a while, by its own clock,
// writes the next term, on condition that neither record has changed. Clocks of different machines
// are never compared, and no lease of the store is needed, so it works on every backend.
//
// The beat only says when to look for another leader. What makes it safe is the fence: each commit of
// the work carries the condition that the term is still the one it began with ([storage.WithFence]). A
// process that was paused for an hour in the middle of a commit is refused by the store.
//
// On a store that no other process can open ([storage.Exclusive]) the process leads from the
// beginning, and there are no records.
package lead
