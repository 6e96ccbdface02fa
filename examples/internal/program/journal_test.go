package program

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The outcomes of an attempt. In these tests no write can be rejected.
const (
	unknown      = "unknown" // no answer came, or none yet
	acknowledged = "acknowledged"
)

// attempt is one request of a client with its outcome. A read counts too: what it saw must stay.
type attempt struct {
	verb    string // create, replace, patch, delete, read
	object  string
	mark    string // unique to this attempt, part of the object it writes; for a read, what was found, "" for nothing
	base    uint64 // the version that it replaces or deletes, 0 for any
	floor   uint64 // the highest version that any client knew when it was sent
	outcome string
	version uint64 // of what was written or read, once acknowledged
	uid     string // of what is deleted
}

func (a *attempt) String() string {
	return fmt.Sprintf("%s %s mark=%q base=%d floor=%d: %s version=%d uid=%s", a.verb, a.object, a.mark, a.base, a.floor, a.outcome, a.version, a.uid)
}

// journal is what clients know: every attempt, in the order of sending. An object has one writer,
// so the attempts to write it follow one another.
type journal struct {
	mu       sync.Mutex
	attempts []*attempt
	objects  map[string][]*attempt
	highest  uint64
	acks     int
	alarms   map[int]chan struct{} // closed when so many writes have been acknowledged
}

func newJournal() *journal {
	return &journal{objects: map[string][]*attempt{}, alarms: map[int]chan struct{}{}}
}

// begin records an attempt that is about to be sent.
func (j *journal) begin(a *attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a.outcome, a.floor = unknown, j.highest
	j.attempts = append(j.attempts, a)
	j.objects[a.object] = append(j.objects[a.object], a)
}

// acknowledge records that an attempt was answered. Answers to deletions have no version.
func (j *journal) acknowledge(a *attempt, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a.outcome, a.version = acknowledged, version
	j.highest = max(j.highest, version)
	if a.verb == "read" {
		return
	}
	j.acks++
	if alarm, ok := j.alarms[j.acks]; ok {
		delete(j.alarms, j.acks)
		close(alarm)
	}
}

// after returns a channel that is closed when n more writes have been acknowledged.
func (j *journal) after(n int) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	alarm := make(chan struct{})
	j.alarms[j.acks+n] = alarm
	return alarm
}

// state is an object at some moment. The zero state is an absent object.
type state struct {
	mark, uid, side string
	version         uint64 // 0 in an expectation: unknown
}

// expected returns the possible states of an object, from its writer's view: the one after the last
// answer, or after any later attempt with an unknown outcome.
func (j *journal) expected(object string) []state {
	states := []state{{}}
	for _, a := range j.objects[object] {
		s := state{mark: a.mark, version: a.version}
		if a.outcome == acknowledged {
			states = []state{s}
		} else if a.verb != "read" {
			states = append(states, s)
		}
	}
	return states
}

// checkList compares a list with the journal: every acknowledged write is in it, or was superseded.
// The caller makes sure that no client writes.
func (j *journal) checkList(listed map[string]state) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var problems []string
	for object := range j.objects {
		found := listed[object]
		ok := slices.ContainsFunc(j.expected(object), func(want state) bool {
			return want.mark == found.mark && (want.version == 0 || want.version == found.version)
		})
		if !ok {
			problems = append(problems, fmt.Sprintf("%s is listed as %+v; its writer expects one of %+v", object, found, j.expected(object)))
		}
	}
	for object := range listed {
		if _, ok := j.objects[object]; !ok {
			problems = append(problems, object+" is listed, and nobody made it")
		}
	}
	return problems
}

// event is one event of a watch.
type event struct {
	verb    string // ADDED, MODIFIED, DELETED
	object  string
	version uint64
	state   state // for DELETED: the last one
}

func (e event) String() string {
	return fmt.Sprintf("%s %s at %d %+v", e.verb, e.object, e.version, e.state)
}

// replay returns the objects that exist after the events up to a version.
func replay(events []event, upTo uint64) map[string]state {
	objects := map[string]state{}
	for _, e := range events {
		switch {
		case e.version > upTo:
			return objects
		case e.verb == "DELETED":
			delete(objects, e.object)
		default:
			objects[e.object] = e.state
		}
	}
	return objects
}

// checkHistory compares all events that a watch saw with the journal. Each object's chain of
// versions is whole, every acknowledged write is one event at its version, and every event is one
// write. The watch has seen everything that was acknowledged.
func (j *journal) checkHistory(events []event) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := &reading{journal: j, objects: map[string]state{}, writes: map[string]*attempt{}, happened: map[*attempt]bool{}}
	for _, a := range j.attempts {
		if a.mark != "" && a.verb != "read" {
			h.writes[a.mark] = a
		}
	}
	for _, e := range events {
		h.read(e)
	}
	for _, a := range j.attempts {
		if a.outcome == acknowledged && a.verb != "read" && !h.happened[a] {
			h.problem("acknowledged, and no event says so: %s", a)
		}
	}
	return h.problems
}

// reading is the state of checkHistory between two events.
type reading struct {
	*journal
	objects  map[string]state
	writes   map[string]*attempt // by mark
	happened map[*attempt]bool
	last     uint64
	problems []string
}

func (h *reading) problem(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

func (h *reading) read(e event) {
	if e.version <= h.last {
		h.problem("a version is not above the one before it, %d: %s", h.last, e)
	}
	h.last = e.version
	before, existed := h.objects[e.object]
	a := h.cause(e, before)
	switch {
	case a == nil:
		h.problem("nobody asked for this: %s", e)
		return
	case h.happened[a]:
		h.problem("happened twice: %s as %s", a, e)
	case e.version <= a.floor:
		h.problem("a version that was issued before the write was sent: %s as %s", a, e)
	case a.base != 0 && a.base != before.version:
		h.problem("it was conditional on another version than %d: %s as %s", before.version, a, e)
	case a.outcome == acknowledged && a.version != 0 && a.version != e.version:
		h.problem("acknowledged at another version: %s as %s", a, e)
	}
	h.happened[a] = true
	switch e.verb {
	case "DELETED":
		if !existed || e.state.mark != before.mark || e.state.uid != before.uid {
			h.problem("what is deleted is not what was there, %+v: %s", before, e)
		}
		delete(h.objects, e.object)
		return
	case "ADDED":
		if existed || a.verb != "create" {
			h.problem("added by %s, over %+v: %s", a, before, e)
		}
	case "MODIFIED":
		if !existed || a.verb == "create" || e.state.uid != before.uid {
			h.problem("modified by %s, from %+v: %s", a, before, e)
		}
	}
	h.objects[e.object] = e.state
}

// cause finds the attempt behind an event.
func (h *reading) cause(e event, before state) *attempt {
	if e.verb != "DELETED" {
		if a := h.writes[e.state.mark]; a != nil && a.object == e.object {
			return a
		}
		return nil
	}
	var last *attempt
	for _, a := range h.journal.objects[e.object] {
		if a.verb == "delete" && a.uid == before.uid && a.base == before.version {
			last = a // after earlier attempts the object still existed
		}
	}
	return last
}

// story prints everything about the objects that problems name.
func (j *journal) story(problems []string, events []event) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for object, attempts := range j.objects {
		named := func(p string) bool { return strings.Contains(p, object+" ") }
		if !slices.ContainsFunc(problems[:min(3, len(problems))], named) {
			continue
		}
		for _, a := range attempts[max(0, len(attempts)-20):] {
			fmt.Fprintf(&b, "sent %s\n", a)
		}
		for _, e := range events {
			if e.object == object {
				fmt.Fprintf(&b, "seen %s\n", e)
			}
		}
	}
	return b.String()
}

// selected computes the events of a watch of one side from those of a watch of everything. An
// object that comes to the side is added. One that leaves it is deleted, in the last state that was
// on it.
func selected(events []event, side string) []event {
	var out []event
	before := map[string]state{}
	for _, e := range events {
		old, existed := before[e.object]
		was := existed && old.side == side
		is := e.verb != "DELETED" && e.state.side == side
		switch {
		case is && was:
			out = append(out, event{"MODIFIED", e.object, e.version, e.state})
		case is:
			out = append(out, event{"ADDED", e.object, e.version, e.state})
		case was:
			gone := old
			gone.version = e.version
			out = append(out, event{"DELETED", e.object, e.version, gone})
		}
		if e.verb == "DELETED" {
			delete(before, e.object)
		} else {
			before[e.object] = e.state
		}
	}
	return out
}

// life is a journal of one object's life, its events, and the list at the end.
func life() (*journal, []event, map[string]state) {
	j := newJournal()
	for _, a := range []*attempt{
		{verb: "create", object: "a", mark: "one", version: 10},
		{verb: "replace", object: "a", mark: "two", base: 10, version: 12},
		{verb: "patch", object: "a", mark: "lost"},
		{verb: "read", object: "a", mark: "two", version: 12},
		{verb: "delete", object: "a", uid: "u1", base: 12},
		{verb: "create", object: "b", mark: "other", version: 17},
		{verb: "create", object: "a", mark: "three"},
	} {
		j.begin(a)
		if a.mark != "lost" && a.mark != "three" {
			j.acknowledge(a, a.version)
		}
	}
	at := func(verb, object, mark, uid string, version uint64) event {
		return event{verb, object, version, state{mark: mark, uid: uid, side: "left", version: version}}
	}
	events := []event{
		at("ADDED", "a", "one", "u1", 10), at("MODIFIED", "a", "two", "u1", 12), at("DELETED", "a", "two", "u1", 15),
		at("ADDED", "b", "other", "u2", 17), at("ADDED", "a", "three", "u3", 20),
	}
	return j, events, replay(events, 20)
}

func TestJournalNoticesWrongHistories(t *testing.T) {
	j, events, _ := life()
	assert.Empty(t, j.checkHistory(events))
	assert.Empty(t, j.checkHistory(events[:4]), "the last write was not acknowledged: it may not have happened")
	wrong := map[string][]event{"a write of nobody": append(slices.Clone(events), event{"ADDED", "c", 21, state{mark: "ghost", uid: "u9"}})}
	for i := range events[:4] {
		wrong[fmt.Sprintf("event %d is missing", i)] = slices.Delete(slices.Clone(events), i, i+1)
	}
	for i := range events {
		twice := slices.Insert(slices.Clone(events), i, events[i])
		wrong[fmt.Sprintf("event %d comes twice", i)] = twice
		if i > 0 {
			swapped := slices.Clone(events)
			swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
			wrong[fmt.Sprintf("event %d comes before its time", i)] = swapped
		}
		for name, spoil := range map[string]func(*event){
			"another mark":   func(e *event) { e.state.mark = "one more" },
			"another object": func(e *event) { e.object = "c" },
			"a version that was issued before": func(e *event) {
				e.version -= 10
				e.state.version -= 10
			},
		} {
			spoiled := slices.Clone(events)
			spoil(&spoiled[i])
			wrong[fmt.Sprintf("event %d has %s", i, name)] = spoiled
		}
	}
	for _, i := range []int{1, 2} {
		spoiled := slices.Clone(events)
		spoiled[i].state.uid = "u7"
		wrong[fmt.Sprintf("event %d has another uid", i)] = spoiled
	}
	for name, events := range wrong {
		assert.NotEmpty(t, j.checkHistory(events), name)
	}
}

func TestJournalNoticesWrongLists(t *testing.T) {
	j, events, list := life()
	assert.Empty(t, j.checkList(list))
	assert.Empty(t, j.checkList(replay(events, 17)), "the last write may not have happened")
	assert.NotEmpty(t, j.checkList(replay(events, 16)), "an acknowledged creation is lost")
	assert.NotEmpty(t, j.checkList(replay(events, 12)), "an acknowledged deletion is lost")
	for name, spoil := range map[string]func(map[string]state){
		"an old state is back":       func(l map[string]state) { l["a"] = state{mark: "two", uid: "u1", version: 12} },
		"a version was issued again": func(l map[string]state) { l["b"] = state{mark: "other", uid: "u2", version: 18} },
		"an object came from nobody": func(l map[string]state) { l["c"] = state{mark: "ghost", uid: "u9", version: 19} },
	} {
		_, _, list := life()
		spoil(list)
		assert.NotEmpty(t, j.checkList(list), name)
	}
}

func TestSelectedEventsHaveTheEdges(t *testing.T) {
	on := func(side string, version uint64) state {
		return state{mark: "m", uid: "u", side: side, version: version}
	}
	events := []event{
		{"ADDED", "a", 1, on("right", 1)},
		{"MODIFIED", "a", 2, on("left", 2)},
		{"MODIFIED", "a", 3, on("left", 3)},
		{"MODIFIED", "a", 4, on("right", 4)},
		{"MODIFIED", "a", 5, on("left", 5)},
		{"DELETED", "a", 6, on("left", 6)},
	}
	assert.Equal(t, []event{
		{"ADDED", "a", 2, on("left", 2)},
		{"MODIFIED", "a", 3, on("left", 3)},
		{"DELETED", "a", 4, on("left", 4)},
		{"ADDED", "a", 5, on("left", 5)},
		{"DELETED", "a", 6, on("left", 6)},
	}, selected(events, "left"))
}
