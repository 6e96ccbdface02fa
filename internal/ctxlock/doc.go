// Package ctxlock has a mutex for work that may take long, such as a read of a store. A caller that
// waits for it gives up when its context ends.
//
// It is not for work that cannot block: a sync.Mutex is smaller and faster. It waits for one holder,
// and not for room among many; that is package internal/flow.
package ctxlock
