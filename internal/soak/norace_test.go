//go:build !race

package soak

// defaultEvents is the number of events that a run delivers.
const defaultEvents = 1_000_000
