package watches

import (
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// ProgressEvery is the longest time that an idle watch stays behind the store when nobody asks for
// the revision.
const ProgressEvery = time.Second

// Log is a store as its watches see it.
type Log interface {
	// Bounds returns the oldest revision from which changes are known, or the error of a store that
	// is closed. The caller holds the lock.
	Bounds() (compacted storage.Revision, err error)

	// Read appends to w.Ready what follows w.Reached, as much as may be read at once, and moves
	// Reached behind it. It takes the lock, and reports whether Reached is the current revision.
	Read(w *Watch) (caughtUp bool, err error)
}

// Set is the running watches of a store, by prefix. A commit finds the watches that it concerns by
// looking up each prefix of its keys, and does not visit the others. Methods say which lock they need.
type Set struct {
	mu      *sync.RWMutex
	current *storage.Revision // guarded by mu
	log     Log
	done    <-chan struct{}

	at     map[string][]*Watch    // by prefix, cut after its last slash
	places *ordered.Map[struct{}] // the keys of at
	parked int

	timer  *time.Timer    // runs while some parked watch may have reported less than current
	timers sync.WaitGroup // its goroutine; Wait waits for it
}

// New returns the watches of a store: its lock, its current revision, which the lock guards, its log,
// and a channel that is closed when the store is.
func New(mu *sync.RWMutex, current *storage.Revision, log Log, done <-chan struct{}) *Set {
	return &Set{mu: mu, current: current, log: log, done: done, at: map[string][]*Watch{}, places: ordered.New[struct{}]()}
}

// place returns the index key of a watch. Prefixes end in a slash. A prefix that does not is filed
// under the part up to its last slash, and its watch wakes a little too often.
func place(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')+1] }

func (s *Set) add(w *Watch) {
	p := place(w.Prefix)
	if w.slot = len(s.at[p]); w.slot == 0 {
		s.places.Set(p, struct{}{})
	}
	s.at[p] = append(s.at[p], w)
}

func (s *Set) remove(w *Watch) {
	if w.parked {
		w.parked = false
		s.parked--
	}
	p := place(w.Prefix)
	list := s.at[p]
	last := len(list) - 1
	list[w.slot] = list[last]
	list[w.slot].slot = w.slot
	list[last] = nil
	if last == 0 {
		delete(s.at, p)
		s.places.Delete(p)
		return
	}
	s.at[p] = list[:last]
}

// park adds a watch that has reached current.
func (s *Set) park(w *Watch) {
	w.parked = true
	s.parked++
	if w.told < w.Reached {
		s.fallBehind()
	}
}

// Wake unparks the watches that a commit about to be published concerns: it has n changes, of these
// keys. They continue from the revision before it, so the store calls Wake before current moves. The
// lock is held for writing.
func (s *Set) Wake(n int, key func(i int) string) {
	if s.parked == 0 {
		return
	}
	for i := range n {
		key := key(i)
		s.wakeAt("")
		for end := range len(key) {
			if key[end] == '/' {
				s.wakeAt(key[:end+1])
			}
		}
	}
	s.FallBehind()
}

func (s *Set) wakeAt(place string) {
	for _, w := range s.at[place] {
		s.unpark(w)
	}
}

// WakeAll unparks every watch. The lock is held for writing.
func (s *Set) WakeAll() {
	for w := range s.below("") {
		s.unpark(w)
	}
}

// below yields the watches of a prefix and those below it.
func (s *Set) below(prefix string) iter.Seq[*Watch] {
	return func(yield func(*Watch) bool) {
		for p := range s.places.Ascend(prefix) {
			if !strings.HasPrefix(p, prefix) {
				return
			}
			for _, w := range s.at[p] {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// Ask demands of the watches below a prefix that they tell their readers of the current revision. It
// reports whether any of them must be woken for that, by WakeLate. The lock may be held for reading.
func (s *Set) Ask(prefix string) (late bool) {
	for w := range s.below(prefix) {
		// A plain store is enough: current cannot move while anybody holds the lock.
		w.asked.Store(uint64(*s.current))
		late = late || s.isLate(w)
	}
	return late
}

func (s *Set) isLate(w *Watch) bool { return w.parked && w.told < *s.current }

// WakeLate wakes the watches below a prefix that have progress to report. The lock is held for
// writing.
func (s *Set) WakeLate(prefix string) {
	for w := range s.below(prefix) {
		if s.isLate(w) {
			s.unpark(w)
		}
	}
}

func (s *Set) unpark(w *Watch) {
	if !w.parked {
		return
	}
	w.parked = false
	s.parked--
	w.Reached = *s.current
	w.wake <- struct{}{} // never blocks: it read its last wake-up before it parked again
}

// FallBehind records that current has moved, or is about to, without a change for the watches that
// are parked: progress is due, at the latest when the timer fires. The lock is held for writing.
func (s *Set) FallBehind() {
	if s.parked > 0 {
		s.fallBehind()
	}
}

func (s *Set) fallBehind() {
	if s.timer == nil {
		s.timers.Add(1)
		s.timer = time.AfterFunc(ProgressEvery, s.tick)
	}
}

// tick demands progress as if somebody had asked for the revision.
func (s *Set) tick() {
	defer s.timers.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.Ask("")
	s.WakeLate("")
}

// Close stops the timer. The lock is held for writing. Afterwards, without the lock, call Wait.
func (s *Set) Close() {
	if s.timer != nil && s.timer.Stop() {
		s.timers.Done()
	}
}

// Wait waits for a timer that fired before Close.
func (s *Set) Wait() { s.timers.Wait() }

// Parked returns how many watches sleep. The lock is held.
func (s *Set) Parked() int { return s.parked }

// Len returns how many watches run. The lock is held.
func (s *Set) Len() (n int) {
	for range s.below("") {
		n++
	}
	return n
}

// Check requires that each watch is where it is filed, and that those that sleep are counted and have
// missed nothing: missed returns the first change below a prefix after a revision. The lock is held.
func (s *Set) Check(missed func(prefix string, after storage.Revision) (storage.Change, bool)) error {
	parked := 0
	for p, list := range s.at {
		for slot, w := range list {
			if w.slot != slot || place(w.Prefix) != p {
				return fmt.Errorf("the watch of %q is not where it is filed", w.Prefix)
			}
			if !w.parked {
				continue
			}
			parked++
			if c, ok := missed(w.Prefix, w.Reached); ok {
				return fmt.Errorf("the watch of %q sleeps though %q changed at revision %d", w.Prefix, c.Key, c.Revision)
			}
		}
	}
	if parked != s.parked {
		return fmt.Errorf("%d watches are parked, %d are counted", parked, s.parked)
	}
	return nil
}
