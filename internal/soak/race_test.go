//go:build race

package soak

// defaultEvents is the number of events that a run delivers. The race detector makes everything
// about ten times slower.
const defaultEvents = 40_000
