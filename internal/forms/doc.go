// Package forms lets processes that share a store agree on the form in which they write the objects
// of each kind. A rolling upgrade runs two programs beside each other. The newer one prefers a
// version that the older one cannot read, so it must write the older version for a while.
//
// Each process announces which forms of each kind it reads, and which of them it would write. The
// store has one record with the forms that are written. A process replaces a form by the one that it
// prefers when every process that is alive reads the new one, and no other process prefers the old
// one. So two programs that prefer different forms do not take turns.
//
// A process that starts announces first and reads the written forms then, in that order. Whoever
// replaces a form does so on condition that nobody has announced anything meanwhile. So a process
// either prevents the replacement or knows of it before it reads an object.
//
// Clocks are not compared. A process is alive while its beat changes; the others measure by their
// own clocks for how long it has not. One that was taken for dead and lives loses no data: it cannot
// read the objects that were written in the new form, says so in its readiness, and announces itself
// again.
//
// On a store that no other process can open ([storage.Exclusive]) there is nothing to agree on, and
// there are no records.
package forms
