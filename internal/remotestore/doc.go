// Package remotestore takes a store from one process to another over a socket, for tests: a suite of
// the core runs on a backend that only another module can link, such as storage/etcd.
//
// [Serve] offers stores by name, [Open] returns one as a backend. It is made for bubbles of
// testing/synctest. A call reads from the socket, which a bubble does not count as waiting, so
// virtual time stands still during it. A watch waits in the bubble until something was committed or
// asked for through its own handle, and then reads everything up to there. So it does not notice
// what others commit to the same store until its own handle is used.
package remotestore
