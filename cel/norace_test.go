//go:build !race

package cel_test

// attackBytes is how much an attack may allocate.
const attackBytes = 256 << 20
