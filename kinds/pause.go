package kinds

import (
	"context"
	"time"
)

// How long background work waits after a failure, at first and at most.
const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// pause waits until d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
