//go:build !race

package soak

// defaultEvents is how many events a run delivers.
const defaultEvents = 1_000_000
