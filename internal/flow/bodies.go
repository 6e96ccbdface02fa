package flow

import (
	"context"
	"sync"
)

// Free is how much of each body is not counted: requests with small bodies are bounded by their
// number.
const Free = 64 << 10

// decodeFactor is how many bytes are reserved to decode each byte of a body.
const decodeFactor = 10

// Bodies is the memory for the bodies of requests. A body first takes what has arrived of it, and
// is refused if there is no room, so that clients that stall hold what they have sent and nothing
// else. When it is complete, it waits for its turn to be decoded, which takes a multiple. It is safe
// for concurrent use.
type Bodies struct {
	reading, perUser, decoding int64 // the bounds

	mu      sync.Mutex
	read    int64
	users   map[string]int64 // of read
	decoded int64
	queue   []*turn // those that wait, in order
}

// turn is a body that waits to be decoded.
type turn struct {
	size  int64
	ready chan struct{} // closed when it has got its size
}

// NewBodies returns an empty budget: for bodies that arrive, of which one user can take half, and
// for bodies that are decoded.
func NewBodies(reading, decoding int64) *Bodies {
	return &Bodies{reading: reading, perUser: reading / 2, decoding: decoding, users: map[string]int64{}}
}

// Hold is what one request has taken. The zero value has taken nothing, and has no bound. It belongs
// to one goroutine.
type Hold struct {
	of            *Bodies
	user          string
	read, decoded int64
}

// For returns a hold of a user. The caller must call Release.
func (b *Bodies) For(user string) Hold { return Hold{of: b, user: user} }

// Grow makes the hold take size bytes in all for a body that arrives, and reports whether there is
// room.
func (h *Hold) Grow(size int64) bool {
	b, more := h.of, size-Free-h.read
	if b == nil || more <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read+more > b.reading || b.users[h.user]+more > b.perUser {
		return false
	}
	b.read += more
	b.users[h.user] += more
	h.read += more
	return true
}

// Decode waits until the hold can take what decoding a body of size bytes needs. The error is that
// of the context.
func (h *Hold) Decode(ctx context.Context, size int64) error {
	b := h.of
	if b == nil || h.decoded > 0 {
		return nil
	}
	size = min(size*decodeFactor, b.decoding)
	b.mu.Lock()
	if len(b.queue) == 0 && b.decoded+size <= b.decoding {
		b.decoded += size
		b.mu.Unlock()
		h.decoded = size
		return nil
	}
	t := &turn{size: size, ready: make(chan struct{})}
	b.queue = append(b.queue, t)
	b.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		if b.withdraw(t) {
			return ctx.Err()
		}
	}
	h.decoded = size
	return nil
}

// advance gives their turn to those at the head of the queue that have room.
func (b *Bodies) advance() {
	for len(b.queue) > 0 && b.decoded+b.queue[0].size <= b.decoding {
		t := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.decoded += t.size
		close(t.ready)
	}
}

// withdraw takes a body out of the queue and reports whether it was there.
func (b *Bodies) withdraw(t *turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.queue {
		if other == t {
			b.queue = append(b.queue[:i:i], b.queue[i+1:]...)
			b.advance()
			return true
		}
	}
	return false
}

// Release gives back what the hold has taken.
func (h *Hold) Release() {
	b := h.of
	if b == nil || h.read == 0 && h.decoded == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read -= h.read
	b.decoded -= h.decoded
	if b.users[h.user] -= h.read; b.users[h.user] == 0 {
		delete(b.users, h.user)
	}
	h.read, h.decoded = 0, 0
	b.advance()
}
