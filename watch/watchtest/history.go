package watchtest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Commit is what one commit did to one object: Prev is nil when it was created, Next when it was deleted.
type Commit struct {
	Revision   storage.Revision
	Prev, Next *watch.Entry
}

// History is everything that happened to one kind. The zero History is empty. It may be used by many goroutines.
type History struct {
	mu      sync.Mutex
	commits []Commit // sorted by revision when sorted is set
	sorted  bool
}

// Add notes a commit; the order of calls does not matter.
func (h *History) Add(c Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits = append(h.commits, c)
	h.sorted = false
}

func (h *History) all() []Commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sorted {
		slices.SortStableFunc(h.commits, func(a, b Commit) int { return cmp.Compare(a.Revision, b.Revision) })
		h.sorted = true
	}
	return slices.Clone(h.commits)
}

// Check returns nil when the recording is what its watcher had to be told, from its beginning to wherever it was
// stopped, and complete at least up to the revision upTo: 0 asks for no more than that what is there is right. The
// error names the first difference.
func (h *History) Check(r *Recording, upTo storage.Revision) error {
	c := checker{recording: r, commits: h.all()}
	if err := c.check(upTo); err != nil {
		return fmt.Errorf("watch from %s: %w", r.From, err)
	}
	return nil
}

// checker walks a recording beside the events that it should consist of.
type checker struct {
	recording *Recording
	commits   []Commit
	expected  []watch.Event // after the initial ones
	next      int           // in expected
	told      storage.Revision
}

func (c *checker) check(upTo storage.Revision) error {
	steps := c.recording.steps
	if c.recording.Initial {
		marked, rest, err := c.initial(steps)
		if err == nil && !marked && upTo > 0 {
			return fmt.Errorf("ends after %d initial events, without the end mark", len(steps))
		}
		if err != nil || !marked {
			return err
		}
		steps = rest
	}
	c.told = c.recording.From
	c.expect(c.recording.From)
	for i, s := range steps {
		if err := c.step(s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if c.next < len(c.expected) && c.expected[c.next].Revision <= upTo {
		return fmt.Errorf("ends without %s, which had happened by %s", describe(c.expected[c.next]), upTo)
	}
	return nil
}

// expect works out every event after a revision.
func (c *checker) expect(after storage.Revision) {
	matches := func(e *watch.Entry) bool { return e != nil && c.recording.Match(e) }
	for _, commit := range c.commits {
		if commit.Revision <= after {
			continue
		}
		before, now := matches(commit.Prev), matches(commit.Next)
		event := watch.Event{Revision: commit.Revision, Entry: commit.Next}
		switch {
		case before && now:
			event.Type = meta.Modified
		case now:
			event.Type = meta.Added
		case before:
			event.Type, event.Entry = meta.Deleted, commit.Prev
		default:
			continue
		}
		c.expected = append(c.expected, event)
	}
}

func (c *checker) step(s step) error {
	if s.bookmark {
		if s.event.Revision < c.told {
			return fmt.Errorf("bookmark %s after %s was told", s.event.Revision, c.told)
		}
		if c.next < len(c.expected) && c.expected[c.next].Revision <= s.event.Revision {
			return fmt.Errorf("bookmark %s is ahead of %s", s.event.Revision, describe(c.expected[c.next]))
		}
		c.told = s.event.Revision
		return nil
	}
	if c.next == len(c.expected) {
		return fmt.Errorf("%s, but nothing more happened", describe(s.event))
	}
	if err := same(s.event, c.expected[c.next]); err != nil {
		return err
	}
	if s.event.Revision <= c.told {
		return fmt.Errorf("%s after %s was told", describe(s.event), c.told)
	}
	c.told = s.event.Revision
	c.next++
	return nil
}

// initial checks the events up to the end mark against the state at the mark's revision. A recording that stops before
// the mark holds a part of some state, of which only the form can be checked.
func (c *checker) initial(steps []step) (marked bool, rest []step, err error) {
	end := slices.IndexFunc(steps, func(s step) bool { return s.bookmark || s.event.Type == meta.Bookmark })
	got := steps
	if end >= 0 {
		got, rest = steps[:end], steps[end+1:]
		if mark := steps[end]; mark.bookmark || mark.event.Revision != c.recording.From {
			return false, nil, fmt.Errorf("bookmark %s among the initial events of a snapshot at %s", mark.event.Revision, c.recording.From)
		}
	}
	want := c.state(c.recording.From)
	for i, s := range got {
		if i == len(want) {
			return false, nil, fmt.Errorf("initial event %d: %s, but there is nothing more", i, describe(s.event))
		}
		if err := same(s.event, want[i]); err != nil {
			return false, nil, fmt.Errorf("initial event %d: %w", i, err)
		}
	}
	if end >= 0 && len(got) < len(want) {
		return false, nil, fmt.Errorf("end mark after %d initial events, without %s", len(got), describe(want[len(got)]))
	}
	return end >= 0, rest, nil
}

// state is what the watcher had to be shown of a revision, in the order of keys.
func (c *checker) state(at storage.Revision) []watch.Event {
	live := make(map[string]*watch.Entry)
	for _, commit := range c.commits {
		switch {
		case commit.Revision > at:
		case commit.Next == nil:
			delete(live, commit.Prev.Key())
		default:
			live[commit.Next.Key()] = commit.Next
		}
	}
	var events []watch.Event
	for _, entry := range live {
		if c.recording.Match(entry) {
			events = append(events, watch.Event{Type: meta.Added, Entry: entry, Revision: entry.Revision()})
		}
	}
	slices.SortFunc(events, func(a, b watch.Event) int { return strings.Compare(a.Entry.Key(), b.Entry.Key()) })
	return events
}

// same compares two events by what a client would see of them.
func same(got, want watch.Event) error {
	if got.Type != want.Type || got.Revision != want.Revision || got.Entry.Key() != want.Entry.Key() {
		return fmt.Errorf("got %s, want %s", describe(got), describe(want))
	}
	if g, w := got.AppendFrame(nil), want.AppendFrame(nil); !bytes.Equal(g, w) {
		return fmt.Errorf("%s shows %s, want %s", describe(got), g, w)
	}
	return nil
}

func describe(e watch.Event) string {
	key := ""
	if e.Entry != nil {
		key = " " + e.Entry.Key()
	}
	return fmt.Sprintf("%s%s at %s", e.Type, key, e.Revision)
}
