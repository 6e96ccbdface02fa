//go:build race

package cel_test

// attackBytes is how much an attack may allocate. Under the race detector, a sync.Pool loses items on
// purpose, and package regexp keeps its machines in pools.
const attackBytes = 4 << 30
