// Package engine serves the kinds that package registry describes: what reading and writing their objects means.
//
// The engine compiles each description into a Kind, which it never changes, and puts it into the Set, an immutable snapshot
// that is swapped as a whole (Engine.Change). Resolve finds what a request names; the verbs are methods of the result. The steps
// of each write stand in pipeline.go.
//
// It knows no HTTP: registry/rest has the handlers. Users of the library see it as registry.Objects. Read set.go first, then
// change.go and pipeline.go.
package engine
