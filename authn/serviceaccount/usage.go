package serviceaccount

import (
	"context"
	"sync"

	"github.com/kindwright/kindwright/meta"
)

// Use is the first use of a legacy token on a day.
type Use struct {
	Namespace, Secret string
	UID               meta.UID // of the Secret
	Day               string   // such as 2026-11-23
}

// maxUses bounds how many uses wait to be recorded. Those beyond are noted when the token is used again.
const maxUses = 1000

// usage holds the uses that wait to be recorded.
type usage struct {
	mu      sync.Mutex
	waiting []Use
	seen    map[Use]bool
	signal  chan struct{} // has a value while a use may wait
}

func newUsage() *usage { return &usage{seen: map[Use]bool{}, signal: make(chan struct{}, 1)} }

// note adds a use, unless it waits already.
func (u *usage) note(one Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[one] || len(u.waiting) >= maxUses {
		return
	}
	u.seen[one] = true
	u.waiting = append(u.waiting, one)
	select {
	case u.signal <- struct{}{}:
	default:
	}
}

// take returns the uses that wait.
func (u *usage) take() []Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.waiting
	u.waiting = nil
	clear(u.seen)
	return out
}

// Record calls record for the first use of each legacy token on a day, until ctx ends. It is how
// kinds.ServiceAccounts writes [LastUsedLabel] beside the requests.
func (t *Tokens) Record(ctx context.Context, record func(context.Context, Use)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.used.signal:
		}
		for _, one := range t.used.take() {
			record(ctx, one)
		}
	}
}
