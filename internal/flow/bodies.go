package flow

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Free is how much of each body is not counted: requests with small bodies are bounded by their
// number.
const Free = 64 << 10

// decodeFactor is how many bytes are reserved to decode each byte of a body.
const decodeFactor = 10

// largeBody is the size above which a body is decoded in the lane of large bodies.
const largeBody = 256 << 10

// seatTime is how long a large body keeps others from being decoded. What its request still does then
// is not decoding: it waits, for an admission plugin for example.
const seatTime = time.Second

// lingering is how many refused bodies are read at once, so that their clients see the answer.
const lingering = 8

// Patience is how long a request waits for room that others take. A client that is refused is told to
// come back after a second; some come at once, and each of their requests costs what it sends.
const Patience = 2 * time.Second

// Bodies is the memory for the bodies of requests. A body first takes what has arrived of it, and
// is refused if there is no room for two seconds, so that clients that stall hold what they have sent and nothing
// else. When it is complete, it waits for its turn to be decoded, which takes a multiple.
//
// Large bodies wait in a lane of their own, and leave one processor to all others: a small request
// does not wait for those who send large ones. It is safe for concurrent use.
type Bodies struct {
	reading, perUser int64 // the bounds

	mu           sync.Mutex
	read         int64
	users        map[string]int64 // of read
	wants        []*want          // who waits for room, in order
	small, large lane
	lingering    int
}

// lane is a queue of bodies that wait to be decoded, in order.
type lane struct {
	bound, used  int64
	seats, taken int
	queue        []*turn
}

// turn is a body that is decoded, or waits for it.
type turn struct {
	size  int64
	ready chan struct{} // closed when it has got its size; nil if it did not wait
	timer *time.Timer   // gives its seat back
	stood bool          // it has given its seat back
}

// NewBodies returns an empty budget: for bodies that arrive, of which one user can take half, and
// for bodies that are decoded, of which small bodies have a third.
func NewBodies(reading, decoding int64) *Bodies {
	const unbounded = 1 << 30
	return &Bodies{
		reading: reading, perUser: reading / 2, users: map[string]int64{},
		small: lane{bound: decoding / 3, seats: unbounded},
		large: lane{bound: decoding - decoding/3, seats: max(1, runtime.GOMAXPROCS(0)-1)},
	}
}

// Hold is what one request has taken. The zero value has taken nothing, and has no bound. It belongs
// to one goroutine.
type Hold struct {
	of   *Bodies
	user string
	read int64
	lane *lane // where its turn is; nil if it has none
	turn *turn
}

// For returns a hold of a user. The caller must call Release.
func (b *Bodies) For(user string) Hold { return Hold{of: b, user: user} }

// want is what a hold waits for.
type want struct {
	hold  *Hold
	bytes int64
	ready chan struct{} // closed when the hold has got it
}

// Grow makes the hold take size bytes in all for a body that arrives. It waits for room, and reports
// whether there was any.
func (h *Hold) Grow(ctx context.Context, size int64) bool {
	more := size - Free - h.read
	b := h.of
	if b == nil || more <= 0 {
		return true
	}
	b.mu.Lock()
	if b.take(h, more) {
		b.mu.Unlock()
		return true
	}
	w := &want{h, more, make(chan struct{})}
	b.wants = append(b.wants, w)
	b.mu.Unlock()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-w.ready:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return !b.forgo(w)
}

// forgo takes somebody out of those who wait for room, and reports whether they were there.
func (b *Bodies) forgo(w *want) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.wants, w)
	if i < 0 {
		return false
	}
	b.wants = slices.Delete(b.wants, i, i+1)
	return true
}

// Count takes what of each body is not counted, without waiting, and reports whether there was room. It is
// for a request that waits for its client and whose number nothing else bounds.
func (h *Hold) Count() bool {
	if h.of == nil {
		return true
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return h.of.take(h, Free)
}

// take gives a hold more bytes if there is room. The caller has the lock.
func (b *Bodies) take(h *Hold, more int64) bool {
	if b.read+more > b.reading || b.users[h.user]+more > b.perUser {
		return false
	}
	b.read += more
	b.users[h.user] += more
	h.read += more
	return true
}

// give gives room to those who wait for it. Nobody is woken for whom there is none: hundreds may wait, and others
// would stand behind all of them whenever a body is done. The caller has the lock.
func (b *Bodies) give() {
	b.wants = slices.DeleteFunc(b.wants, func(w *want) bool {
		if !b.take(w.hold, w.bytes) {
			return false
		}
		close(w.ready)
		return true
	})
}

// Decode waits until the hold can take what decoding a body of size bytes needs. The error is that
// of the context.
func (h *Hold) Decode(ctx context.Context, size int64) error {
	b := h.of
	if b == nil || h.turn != nil {
		return nil
	}
	l := &b.small
	if size > largeBody {
		l = &b.large
	}
	t := &turn{size: min(size*decodeFactor, l.bound)}
	b.mu.Lock()
	if len(l.queue) == 0 && l.fits(t) {
		b.begin(l, t)
		b.mu.Unlock()
		h.lane, h.turn = l, t
		return nil
	}
	t.ready = make(chan struct{})
	l.queue = append(l.queue, t)
	b.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		if b.withdraw(l, t) {
			return ctx.Err()
		}
	}
	h.lane, h.turn = l, t
	return nil
}

func (l *lane) fits(t *turn) bool { return l.used+t.size <= l.bound && l.taken < l.seats }

// begin gives a body its turn. The caller has the lock.
func (b *Bodies) begin(l *lane, t *turn) {
	l.used += t.size
	l.taken++
	if l == &b.large {
		t.timer = time.AfterFunc(seatTime, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stand(l, t)
		})
	}
}

// stand gives the seat of a turn back, once. The caller has the lock.
func (b *Bodies) stand(l *lane, t *turn) {
	if t.stood {
		return
	}
	t.stood = true
	l.taken--
	b.advance(l)
}

// advance gives their turn to those at the head of the queue that have room.
func (b *Bodies) advance(l *lane) {
	for len(l.queue) > 0 && l.fits(l.queue[0]) {
		t := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		b.begin(l, t)
		close(t.ready)
	}
}

// withdraw takes a body out of the queue and reports whether it was there.
func (b *Bodies) withdraw(l *lane, t *turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(l.queue, t)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	b.advance(l)
	return true
}

// Decoded ends the turn: the answer begins, and its client may take its time to read it.
func (h *Hold) Decoded() {
	b, l, t := h.of, h.lane, h.turn
	if t == nil {
		return
	}
	h.lane, h.turn = nil, nil
	if t.timer != nil {
		t.timer.Stop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.used -= t.size
	b.stand(l, t)
	b.advance(l)
}

// Release gives back what the hold has taken.
func (h *Hold) Release() {
	h.Decoded()
	b := h.of
	if b == nil || h.read == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read -= h.read
	if b.users[h.user] -= h.read; b.users[h.user] == 0 {
		delete(b.users, h.user)
	}
	h.read = 0
	b.give()
}

// Linger reports whether a refused body may be read for a while, and counts it. If it may, the caller
// must call done.
func (h *Hold) Linger() (done func(), ok bool) {
	b := h.of
	if b == nil {
		return func() {}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lingering >= lingering {
		return nil, false
	}
	b.lingering++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lingering--
	}, true
}
