package bbolt

import (
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/ordered"
)

// progressEvery is the longest time that an idle watch stays behind the store when nobody asks for
// the revision.
const progressEvery = time.Second

// watchers is the index of running watches by prefix. A commit finds the watches that it concerns
// by looking up each prefix of its keys, and does not visit the others. All of it is guarded by the
// DB's lock, held for writing.
type watchers struct {
	db     *DB
	at     map[string][]*watch    // by prefix, cut after its last slash
	places *ordered.Map[struct{}] // the keys of at
	parked int

	timer  *time.Timer    // runs while some parked watch may have reported less than current
	timers sync.WaitGroup // its goroutine; Close waits for it
}

func (ws *watchers) init(db *DB) {
	ws.db = db
	ws.at = make(map[string][]*watch)
	ws.places = ordered.New[struct{}]()
}

// placeOf returns the index key of a watch. Prefixes end in a slash. A prefix that does not is filed
// under the part up to its last slash, and its watch wakes a little too often.
func placeOf(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')+1] }

func (ws *watchers) add(w *watch) {
	p := placeOf(w.prefix)
	if w.slot = len(ws.at[p]); w.slot == 0 {
		ws.places.Set(p, struct{}{})
	}
	ws.at[p] = append(ws.at[p], w)
}

func (ws *watchers) remove(w *watch) {
	if w.parked {
		w.parked = false
		ws.parked--
	}
	p := placeOf(w.prefix)
	list := ws.at[p]
	last := len(list) - 1
	list[w.slot] = list[last]
	list[w.slot].slot = w.slot
	list[last] = nil
	if last == 0 {
		delete(ws.at, p)
		ws.places.Delete(p)
		return
	}
	ws.at[p] = list[:last]
}

// park adds a watch that has reached current.
func (ws *watchers) park(w *watch) {
	w.parked = true
	ws.parked++
	if w.told < w.reached {
		ws.fallBehind()
	}
}

// wake unparks the watches that changes about to be published concern. They continue from the
// revision before them.
func (ws *watchers) wake(changes []change) {
	if ws.parked == 0 {
		return
	}
	for i := range changes {
		key := changes[i].key
		ws.wakeAt("")
		for end := range len(key) {
			if key[end] == '/' {
				ws.wakeAt(key[:end+1])
			}
		}
	}
	if ws.parked > 0 {
		ws.fallBehind()
	}
}

func (ws *watchers) wakeAt(place string) {
	for _, w := range ws.at[place] {
		ws.unpark(w)
	}
}

// below yields the watches of a prefix and those below it.
func (ws *watchers) below(prefix string) iter.Seq[*watch] {
	return func(yield func(*watch) bool) {
		for p := range ws.places.Ascend(prefix) {
			if !strings.HasPrefix(p, prefix) {
				return
			}
			for _, w := range ws.at[p] {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// ask demands of the watches below a prefix that they tell their readers of the current revision. It
// reports whether any of them must be woken for that. The lock may be held for reading.
func (ws *watchers) ask(prefix string) (late bool) {
	for w := range ws.below(prefix) {
		// A plain store is enough: current cannot move while anybody holds the lock.
		w.asked.Store(uint64(ws.db.current))
		late = late || ws.isLate(w)
	}
	return late
}

func (ws *watchers) isLate(w *watch) bool { return w.parked && w.told < ws.db.current }

// wakeLate wakes the watches below a prefix that have progress to report.
func (ws *watchers) wakeLate(prefix string) {
	for w := range ws.below(prefix) {
		if ws.isLate(w) {
			ws.unpark(w)
		}
	}
}

func (ws *watchers) unpark(w *watch) {
	if !w.parked {
		return
	}
	w.parked = false
	ws.parked--
	w.reached = ws.db.current
	w.wake <- struct{}{} // never blocks: it read its last wake-up before it parked again
}

// fallBehind records that progress is due, at the latest when the timer fires.
func (ws *watchers) fallBehind() {
	if ws.timer == nil {
		ws.timers.Add(1)
		ws.timer = time.AfterFunc(progressEvery, ws.tick)
	}
}

// tick demands progress as if somebody had asked for the revision.
func (ws *watchers) tick() {
	defer ws.timers.Done()
	ws.db.mu.Lock()
	defer ws.db.mu.Unlock()
	ws.timer = nil
	ws.ask("")
	ws.wakeLate("")
}

// close stops the timer. If the timer fires already, Close waits for it.
func (ws *watchers) close() {
	if ws.timer != nil && ws.timer.Stop() {
		ws.timers.Done()
	}
}
