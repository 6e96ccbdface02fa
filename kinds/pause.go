package kinds

import (
	"context"
	"time"
)

// retryAfter is how long the background work waits after a failure of the store before it tries again.
const retryAfter = time.Second

// pause waits for retryAfter or the end of ctx.
func pause(ctx context.Context) {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
