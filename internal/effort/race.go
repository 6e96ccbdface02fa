//go:build race

package effort

// Raced says whether the race detector runs. It also makes sync.Pool lose what it keeps, so limits on
// what a test allocates are higher with it.
const Raced = true
