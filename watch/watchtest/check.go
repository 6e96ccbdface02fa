package watchtest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Check returns nil if the recording is correct from its beginning to its end and complete up to
// the revision upTo. With upTo 0 it requires only that the recorded events are correct. The error
// describes the first difference.
//
// The history must be complete up to upTo and up to the newest revision in the recording.
func (h *History) Check(r *Recording, upTo storage.Revision) error {
	c := checker{Recording: r, history: h, upTo: upTo}
	if err := c.check(); err != nil {
		return fmt.Errorf("watch from %s: %w", r.From, err)
	}
	return nil
}

// checker compares a recording with a history.
type checker struct {
	*Recording
	history *History
	upTo    storage.Revision
}

func (c *checker) check() error {
	if err := c.checkEnd(); err != nil {
		return err
	}
	mark := slices.IndexFunc(c.steps, func(e Event) bool { return e.Type == meta.Bookmark })
	if c.NoBookmarks && mark >= 0 {
		return fmt.Errorf("step %d: %s to a client that did not ask for bookmarks", mark, c.steps[mark])
	}
	if !c.Initial {
		return c.checkAny(c.since)
	}
	if c.Unmarked {
		return c.checkAny(c.unmarked)
	}
	if mark >= 0 {
		return c.marked(mark)
	}
	if c.upTo > 0 {
		return fmt.Errorf("ends after %d initial events, without the end mark", len(c.steps))
	}
	return c.checkAny(c.partial)
}

// by returns the newest revision at which the watch can have started.
func (c *checker) by() storage.Revision { return max(c.From, c.By) }

// checkEnd checks how the server ended the watch.
func (c *checker) checkEnd() error {
	told := c.From
	if n := len(c.steps); n > 0 && (!c.Initial || c.Told() > 0) {
		told = c.steps[n-1].Revision
	}
	switch {
	case c.end == expired && told >= c.limit:
		return fmt.Errorf("410 after %s was told, and no more than %s was compacted", told, c.limit)
	case c.end == tooLarge && len(c.steps) > 0:
		return fmt.Errorf("%d events before a 504", len(c.steps))
	case c.end == tooLarge && c.by() <= c.limit:
		return fmt.Errorf("504, although the store had reached %s", c.limit)
	}
	return nil
}

// checkAny tries the revisions at which the watch may have started. All revisions between two
// changes that concern the watcher are equivalent.
func (c *checker) checkAny(from func(at storage.Revision) (matched int, err error)) error {
	most, first := from(c.From)
	if first == nil || c.by() == c.From {
		return first
	}
	for _, e := range c.history.since(c.From, c.Match) {
		if e.revision > c.by() {
			break
		}
		if !c.plausible(e.revision) {
			continue
		}
		matched, err := from(e.revision)
		if err == nil {
			return nil
		}
		if matched > most {
			most, first = matched, err
		}
	}
	return first
}

// plausible reports whether the revisions of the events allow the watch to have started at a
// revision: a snapshot shows nothing newer, and what follows shows nothing older. This saves most
// of the full checks.
func (c *checker) plausible(at storage.Revision) bool {
	if len(c.steps) == 0 {
		return true
	}
	if !c.Initial {
		return c.steps[0].Revision >= at
	}
	return c.steps[0].Revision <= at || c.Unmarked
}

// since checks a watch for the changes after a revision.
func (c *checker) since(at storage.Revision) (int, error) {
	return c.follow(c.steps, at)
}

// marked checks a watch that has reached the mark after its initial events.
func (c *checker) marked(mark int) error {
	at := c.steps[mark].Revision
	if !c.steps[mark].End || at < c.From || at > c.by() {
		return fmt.Errorf("%s among the initial events of a snapshot at %s to %s", c.steps[mark], c.From, c.by())
	}
	if _, err := c.initial(c.steps[:mark], at, true); err != nil {
		return err
	}
	_, err := c.follow(c.steps[mark+1:], at)
	return err
}

// partial checks initial events that were cut short.
func (c *checker) partial(at storage.Revision) (int, error) {
	return c.initial(c.steps, at, false)
}

// unmarked checks initial events and the changes that follow them without a mark.
func (c *checker) unmarked(at storage.Revision) (int, error) {
	n := min(len(c.history.state(at, c.Match)), len(c.steps))
	if matched, err := c.initial(c.steps[:n], at, c.upTo > 0 || n < len(c.steps)); err != nil {
		return matched, err
	}
	matched, err := c.follow(c.steps[n:], at)
	return n + matched, err
}

// initial checks initial events against the state at a revision; all means that none may be
// missing.
func (c *checker) initial(steps []Event, at storage.Revision, all bool) (int, error) {
	want := c.history.state(at, c.Match)
	for i, got := range steps {
		if i == len(want) {
			return i, fmt.Errorf("initial event %d: %s, but there is nothing more", i, got)
		}
		if err := c.same(got, want[i]); err != nil {
			return i, fmt.Errorf("initial event %d: %w", i, err)
		}
	}
	if all && len(steps) < len(want) {
		return len(steps), fmt.Errorf("%d initial events, without %s", len(steps), want[len(steps)])
	}
	return len(steps), nil
}

// follow checks steps against all changes after a revision. It returns how many were correct.
func (c *checker) follow(steps []Event, after storage.Revision) (int, error) {
	want, next, told := c.history.since(after, c.Match), 0, after
	for i, got := range steps {
		if err := c.step(got, want[next:], told); err != nil {
			return i, fmt.Errorf("step %d: %w", i, err)
		}
		told = got.Revision
		if got.Type != meta.Bookmark {
			next++
		}
	}
	if next < len(want) && want[next].revision <= c.upTo {
		return len(steps), fmt.Errorf("ends without %s, which had happened by %s", want[next], c.upTo)
	}
	return len(steps), nil
}

// step checks one event. The expected event is the first of want; everything up to told has been
// reported.
func (c *checker) step(got Event, want []expected, told storage.Revision) error {
	switch {
	case got.Type == meta.Bookmark && got.End:
		return fmt.Errorf("%s marks the end of initial events, where there are none", got)
	case got.Type == meta.Bookmark && got.Revision < told:
		return fmt.Errorf("%s after %s was told", got, told)
	case got.Type == meta.Bookmark && len(want) > 0 && want[0].revision <= got.Revision:
		return fmt.Errorf("%s is ahead of %s", got, want[0])
	case got.Type == meta.Bookmark:
		return nil
	case len(want) == 0:
		return fmt.Errorf("%s, but nothing more happened", got)
	case got.Revision <= told:
		return fmt.Errorf("%s after %s was told", got, told)
	}
	return c.same(got, want[0])
}

// same compares an event with the expected one.
func (c *checker) same(got Event, want expected) error {
	facts := want.state.Facts()
	if got.Type != want.typ || got.Revision != want.revision || got.Namespace != facts.Namespace || got.Name != facts.Name {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	show := c.Show
	if show == nil {
		show = whole
	}
	if err := sameJSON(got.Object, show(nil, want.state, want.revision)); err != nil {
		return fmt.Errorf("%s %w", got, err)
	}
	return nil
}

func (e expected) String() string {
	facts := e.state.Facts()
	return fmt.Sprintf("%s %s/%s at %s", e.typ, facts.Namespace, facts.Name, e.revision)
}

// whole appends the object with its version. It does not use the entry's own methods, because they
// are under test.
func whole(dst []byte, e *watch.Entry, revision storage.Revision) []byte {
	body := e.Body()
	dst = append(dst, body.Prefix...)
	dst = append(dst, `"resourceVersion":"`+strconv.FormatUint(uint64(revision), 10)+`",`...)
	return append(dst, body.Suffix...)
}

// sameJSON compares two documents; the error shows both.
func sameJSON(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	g, wrong := json.DecodeTree(got, json.TreeOptions{})
	w, err := json.DecodeTree(want, json.TreeOptions{})
	if wrong != nil || err != nil || !json.Equal(g, w) {
		return fmt.Errorf("shows %s, want %s", got, want)
	}
	return nil
}
