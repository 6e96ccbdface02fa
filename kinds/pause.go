package kinds

import "time"

// How long background work waits after a failure, at first and at most.
const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)
