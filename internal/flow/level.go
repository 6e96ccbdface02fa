package flow

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Outcome says what became of a request that asked for a seat.
type Outcome int

// The outcomes.
const (
	Seated    Outcome = iota
	QueueFull         // the queue of its flow has as many requests as may wait
	NoSeat            // no seat is free, and requests do not wait at this level
	TimedOut          // it has waited as long as it may
	Cancelled         // its context ended while it waited
)

// Reason returns the outcome's word in metrics, "" for Seated.
func (o Outcome) Reason() string {
	return [...]string{"", "queue-full", "concurrency-limit", "time-out", "cancelled"}[o]
}

// Queuing says how requests wait. The zero value: they do not.
type Queuing struct {
	Queues int // how many there are
	Hand   int // among how many of them a flow chooses; above 16 counts as 16
	Length int // how many requests may wait in one
}

const maxHand = 16

// assumedService is how long a request is assumed to take until it has ended, so that a flow that
// begins many at once has its turn later.
const assumedService = 3 * time.Millisecond

// Level shares seats among flows. A flow is told by a hash. It waits in one of a few queues, which
// the hash chooses (shuffle sharding), and the queues take turns by the work that they have had.
// A queue that had none lately does not gain by that: work is counted in virtual time, which passes
// at the rate at which a busy queue is served.
//
// A request that comes when seats are free waits for nobody, and costs a few counters.
//
// Source: KEP-1040, APF-03, APF-05. It is safe for concurrent use.
type Level struct {
	mu      sync.Mutex
	seats   int // how many there are; what runs already may be more
	exempt  bool
	queuing Queuing
	queues  map[int]*queue // those that have requests, by their number
	idle    []*queue       // for use again
	virtual float64        // virtual time, in seconds of a seat
	at      time.Time      // when virtual was computed

	running, waiting           int // requests
	runningSeats, waitingSeats int
	ended                      [Cancelled + 1]uint64
	demand                     demand
	use                        Use
}

// Use is how long a level used which part of its seats: a histogram over each nanosecond.
type Use struct {
	Buckets [len(useBounds)]uint64 // nanoseconds at most at the bound of UseBounds, smaller ones not included
	Count   uint64                 // nanoseconds
	Sum     float64                // of the part that was used
}

var useBounds = [...]float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}

// UseBounds returns the bounds of the buckets of Use.
func UseBounds() []float64 { return useBounds[:] }

func (u *Use) pass(span time.Duration, part float64) {
	if span <= 0 {
		return
	}
	u.Count += uint64(span)
	u.Sum += float64(span) * part
	if i, _ := slices.BinarySearch(useBounds[:], part); i < len(useBounds) {
		u.Buckets[i] += uint64(span)
	}
}

// queue is a line of requests, with what they have had.
type queue struct {
	number       int
	waiting      []*waiter
	running      int
	runningSeats int
	waitingSeats int
	turn         float64 // the virtual time at which its next request begins
}

// waiter is a request that waits.
type waiter struct {
	width  int
	seated chan struct{} // closed when it has its seats
	began  time.Time
}

// Seat is what a request has got of a Level until it leaves.
type Seat struct {
	level *Level
	queue *queue
	width int
	began time.Time
}

// NewLevel returns a level without seats.
func NewLevel() *Level { return &Level{queues: map[int]*queue{}} }

// Configure says how many seats there are, and how requests wait. An exempt level has seats for all.
// What waits goes on waiting in the queue that it has.
func (l *Level) Configure(seats int, exempt bool, q Queuing, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(now)
	l.exempt, l.queuing = exempt, q
	l.setSeats(seats, now)
}

// SetSeats changes how many seats there are.
func (l *Level) SetSeats(seats int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(now)
	l.setSeats(seats, now)
}

func (l *Level) setSeats(seats int, now time.Time) {
	l.seats = seats
	l.dispatch(now)
}

// Enter takes seats for a request of a flow. It waits for them until the context ends, but no longer
// than patience. A request that is wider than all seats takes all. The caller must call Leave if the
// outcome is Seated.
func (l *Level) Enter(ctx context.Context, hash uint64, width int, patience time.Duration) (Seat, Outcome) {
	now := time.Now()
	l.mu.Lock()
	l.pass(now)
	width = max(1, min(width, l.seats))
	if l.exempt {
		defer l.mu.Unlock()
		return l.begin(nil, width, now), Seated
	}
	free := l.waiting == 0 && l.runningSeats+width <= l.seats
	if !free && l.queuing.Queues == 0 {
		defer l.mu.Unlock()
		return Seat{}, l.end(NoSeat)
	}
	q := l.choose(hash)
	if free {
		defer l.mu.Unlock()
		return l.begin(q, width, now), Seated
	}
	if len(q.waiting) >= l.queuing.Length {
		defer l.mu.Unlock()
		l.forget(q)
		return Seat{}, l.end(QueueFull)
	}
	w := &waiter{width: width, seated: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.waitingSeats += width
	l.waiting++
	l.waitingSeats += width
	l.demand.become(l.runningSeats+l.waitingSeats, now)
	l.dispatch(now)
	l.mu.Unlock()
	return l.wait(ctx, q, w, patience)
}

func (l *Level) wait(ctx context.Context, q *queue, w *waiter, patience time.Duration) (Seat, Outcome) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	out := TimedOut
	select {
	case <-w.seated:
		return Seat{l, q, w.width, w.began}, Seated
	case <-timer.C:
	case <-ctx.Done():
		out = Cancelled
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 { // it was seated meanwhile
		return Seat{l, q, w.width, w.began}, Seated
	}
	now := time.Now()
	l.pass(now)
	q.waiting = slices.Delete(q.waiting, i, i+1)
	l.unwait(q, w.width, now)
	l.forget(q)
	l.dispatch(now) // the next one may be narrower
	return Seat{}, l.end(out)
}

// unwait takes a request out of the counts of those that wait.
func (l *Level) unwait(q *queue, width int, now time.Time) {
	q.waitingSeats -= width
	l.waiting--
	l.waitingSeats -= width
	l.demand.become(l.runningSeats+l.waitingSeats, now)
}

// begin gives a request its seats. q is nil at an exempt level, and where nobody waits.
func (l *Level) begin(q *queue, width int, now time.Time) Seat {
	if q != nil {
		q.turn += float64(width) * assumedService.Seconds()
		q.running++
		q.runningSeats += width
	}
	l.running++
	l.runningSeats += width
	l.end(Seated)
	l.demand.become(l.runningSeats+l.waitingSeats, now)
	return Seat{l, q, width, now}
}

// Leave gives the seats back. It must be called once.
func (s Seat) Leave() {
	now := time.Now()
	l, q := s.level, s.queue
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(now)
	l.running--
	l.runningSeats -= s.width
	l.demand.become(l.runningSeats+l.waitingSeats, now)
	if q != nil {
		q.running--
		q.runningSeats -= s.width
		q.turn += (now.Sub(s.began) - assumedService).Seconds() * float64(s.width)
		l.forget(q)
	}
	l.dispatch(now)
}

func (l *Level) end(o Outcome) Outcome {
	l.ended[o]++
	return o
}

// pass lets virtual time pass until now: it passes for each busy queue as if it had its even part of
// the seats that are in use.
func (l *Level) pass(now time.Time) {
	if !l.at.IsZero() && l.seats > 0 {
		l.use.pass(now.Sub(l.at), float64(l.runningSeats)/float64(l.seats))
	}
	if n := len(l.queues); n > 0 {
		used := min(l.runningSeats+l.waitingSeats, l.seats)
		l.virtual += now.Sub(l.at).Seconds() * float64(used) / float64(n)
	}
	l.at = now
}

// dispatch seats those whose turn it is. The queue is the one whose next request would end first in
// virtual time; if there is no room for that request, the others wait for it, so that wide requests
// have their turn.
func (l *Level) dispatch(now time.Time) {
	for l.waiting > 0 {
		var next *queue
		var least float64
		for _, q := range l.queues {
			if len(q.waiting) == 0 {
				continue
			}
			end := q.turn + float64(q.waiting[0].width)*assumedService.Seconds()
			if next == nil || end < least || end == least && q.number < next.number {
				next, least = q, end
			}
		}
		w := next.waiting[0]
		width := max(1, min(w.width, l.seats))
		if !l.exempt && l.runningSeats+width > l.seats {
			return
		}
		next.waiting = slices.Delete(next.waiting, 0, 1)
		l.unwait(next, w.width, now)
		l.begin(next, width, now)
		w.width, w.began = width, now
		close(w.seated)
	}
}

// choose returns the queue of a flow: of its hand, the one with the least to do.
func (l *Level) choose(hash uint64) *queue {
	n := l.queuing.Queues
	if n == 0 {
		return nil
	}
	var hand [maxHand]int
	var best *queue
	for i := range max(1, min(l.queuing.Hand, maxHand, n)) {
		card := int(hash % uint64(n-i))
		hash /= uint64(n - i)
		card = deal(hand[:i], card)
		hand[i] = card
		q := l.queues[card]
		if q == nil {
			return l.open(card)
		}
		if best == nil || q.load() < best.load() {
			best = q
		}
	}
	return best
}

// deal returns the card at a place among those that are not in the hand.
func deal(hand []int, place int) int {
	slices.Sort(hand)
	for _, card := range hand {
		if card <= place {
			place++
		}
	}
	return place
}

func (q *queue) load() int { return q.runningSeats + q.waitingSeats }

// open returns a queue that has nothing to do yet. Its turn is now.
func (l *Level) open(number int) *queue {
	var q *queue
	if n := len(l.idle); n > 0 {
		q = l.idle[n-1]
		l.idle = l.idle[:n-1]
	} else {
		q = &queue{}
	}
	q.number, q.turn = number, l.virtual
	l.queues[number] = q
	return q
}

// forget puts a queue away that has nothing to do.
func (l *Level) forget(q *queue) {
	if q.running > 0 || len(q.waiting) > 0 || l.queues[q.number] != q {
		return
	}
	delete(l.queues, q.number)
	if len(l.idle) < 64 {
		*q = queue{waiting: q.waiting[:0]}
		l.idle = append(l.idle, q)
	}
}

// State is what a level does at a moment.
type State struct {
	Seats            int
	Exempt           bool
	Running, Waiting int // requests
	RunningSeats     int
	ActiveQueues     int                   // those in which requests wait
	Ended            [Cancelled + 1]uint64 // since the start, by Outcome
	Use              Use
	VirtualTime      float64      // in seconds of a seat
	Queues           []QueueState // those that have requests, by number
}

// QueueState is what a queue does at a moment.
type QueueState struct {
	Number, Running, Waiting   int
	RunningSeats, WaitingSeats int
	Turn                       float64
	WaitingWork                float64 // what is assumed of those that wait, in seconds of a seat
}

// State returns what the level does now.
func (l *Level) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(time.Now())
	s := State{
		Use:   l.use,
		Seats: l.seats, Exempt: l.exempt, Running: l.running, Waiting: l.waiting, RunningSeats: l.runningSeats,
		Ended: l.ended, VirtualTime: l.virtual,
	}
	for _, q := range l.queues {
		if len(q.waiting) > 0 {
			s.ActiveQueues++
		}
		s.Queues = append(s.Queues, QueueState{
			Number: q.number, Running: q.running, Waiting: len(q.waiting), RunningSeats: q.runningSeats, WaitingSeats: q.waitingSeats,
			Turn: q.turn, WaitingWork: float64(q.waitingSeats) * assumedService.Seconds(),
		})
	}
	slices.SortFunc(s.Queues, func(a, b QueueState) int { return a.Number - b.Number })
	return s
}

// Demand returns how many seats were asked for since the last call, and begins anew.
func (l *Level) Demand(now time.Time) (average, deviation, highest float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.demand.become(l.runningSeats+l.waitingSeats, now)
	return l.demand.read()
}
