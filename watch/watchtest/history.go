package watchtest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Commit is one commit's effect on one object: the new state, or its deletion.
type Commit struct {
	Revision storage.Revision
	Key      string       // the storage key of the object
	Next     *watch.Entry // nil if the object was deleted
}

// History holds all commits to one kind. It derives previous states from earlier commits. The zero
// History is empty. It is safe for concurrent use.
type History struct {
	mu      sync.Mutex
	changes []*change            // by revision
	keys    []string             // every key ever used, sorted
	byKey   map[string][]*change // by revision
}

// change is a commit with the previous state.
type change struct {
	revision   storage.Revision
	prev, next *watch.Entry
}

// Add adds a commit. Commits may be added in any order, but must be complete before a check.
func (h *History) Add(c Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey == nil {
		h.byKey = make(map[string][]*change)
	}
	own, known := h.byKey[c.Key]
	if !known {
		at, _ := slices.BinarySearch(h.keys, c.Key)
		h.keys = slices.Insert(h.keys, at, c.Key)
	}
	ch := &change{revision: c.Revision, next: c.Next}
	at := place(own, c.Revision)
	if at > 0 {
		ch.prev = own[at-1].next
	}
	if at < len(own) {
		own[at].prev = ch.next
	}
	h.byKey[c.Key] = slices.Insert(own, at, ch)
	h.changes = slices.Insert(h.changes, place(h.changes, c.Revision), ch)
}

// place returns the index of the first change above a revision. Most commits are the newest.
func place(changes []*change, revision storage.Revision) int {
	if n := len(changes); n == 0 || changes[n-1].revision <= revision {
		return n
	}
	at, _ := slices.BinarySearchFunc(changes, revision+1, func(c *change, r storage.Revision) int { return cmp.Compare(c.revision, r) })
	return at
}

// Len returns the number of commits.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.changes)
}

// Last returns the revision of the newest change, at or below upTo, that a watcher with this filter
// sees, or 0.
func (h *History) Last(match func(*watch.Entry) bool, upTo storage.Revision) storage.Revision {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range slices.Backward(h.changes[:place(h.changes, upTo)]) {
		if _, ok := ch.event(match); ok {
			return ch.revision
		}
	}
	return 0
}

// since returns the events after a revision for a watcher with this filter.
func (h *History) since(after storage.Revision, match func(*watch.Entry) bool) []expected {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []expected
	for _, ch := range h.changes[place(h.changes, after):] {
		if e, ok := ch.event(match); ok {
			events = append(events, e)
		}
	}
	return events
}

// state returns the initial events at a revision for a watcher with this filter, in key order.
func (h *History) state(at storage.Revision, match func(*watch.Entry) bool) []expected {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []expected
	for _, key := range h.keys {
		own := h.byKey[key]
		n := place(own, at)
		if n == 0 || own[n-1].next == nil || !match(own[n-1].next) {
			continue
		}
		events = append(events, expected{typ: meta.Added, state: own[n-1].next, revision: own[n-1].revision})
	}
	return events
}

// expected is an event that a watcher must receive.
type expected struct {
	typ      meta.EventType
	state    *watch.Entry // the state that it shows
	revision storage.Revision
}

// event converts a change to an event. Only whether the object matched before and matches now
// counts (WATCH-21). A deletion shows the last state that matched (WATCH-26).
func (c *change) event(match func(*watch.Entry) bool) (expected, bool) {
	before, now := c.prev != nil && match(c.prev), c.next != nil && match(c.next)
	switch {
	case before && now:
		return expected{meta.Modified, c.next, c.revision}, true
	case now:
		return expected{meta.Added, c.next, c.revision}, true
	case before:
		return expected{meta.Deleted, c.prev, c.revision}, true
	}
	return expected{}, false
}
