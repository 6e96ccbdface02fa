// Package ctxlock has a mutex for work that may take long, such as a read of a store. A caller that
// waits for it gives up when its context ends. For everything else there is package sync.
package ctxlock
