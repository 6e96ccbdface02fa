//go:build race

package crd_test

// raced says that the race detector runs, which empties pools at random.
const raced = true
