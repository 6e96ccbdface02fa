//go:build race

package soak

// defaultEvents is how many events a run delivers; the race detector slows everything down about tenfold.
const defaultEvents = 40_000
