// Package engine serves the kinds that package registry describes. It defines what reading and
// writing their objects means.
//
// The engine compiles each description into a Kind, which never changes. Kinds are collected in a
// Set, an immutable snapshot that Engine.Change replaces as a whole. Resolve finds the target of a
// request; the verbs are methods of the result. pipeline.go lists the steps of each write.
//
// The engine does not know HTTP: internal/rest has the handlers. Users of the library see it as
// registry.Objects. Read set.go first, then change.go and pipeline.go.
package engine
