package kinds

import (
	"context"
	"time"
)

// How long the background work waits after a failure before it tries again: the first time, and at most.
const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// pause waits for a time or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
