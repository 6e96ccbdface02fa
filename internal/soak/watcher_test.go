package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// watcher is one client. It watches, reads slowly, disconnects and returns, and starts again after
// a 410. Each of its watches is checked.
type watcher struct {
	*run
	question
	number int // of the question
	random *rand.Rand
	idler  bool // one that stops reading until history has passed it
	far    bool // one that asks for a version far ahead first
	told   storage.Revision
}

// session is one request of a watcher.
type session struct {
	*watcher
	recording *watchtest.Recording
	query     url.Values
	before    storage.Revision // the store's revision before the request
	http2     bool
	start     *counter // counted once the server has answered
	lines     int

	// mayPass is set if the watch can start after all remaining events. Such a watch must not
	// outlive the closing of the run, or it would wait in vain for the last object.
	mayPass bool
}

func (w *watcher) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		s := w.plan()
		done, err := s.run(ctx)
		if err != nil {
			return fmt.Errorf("%s (%s): %w", w.name, s.query.Encode(), err)
		}
		if done {
			return nil
		}
	}
	return nil
}

// plan decides how the next watch starts.
func (w *watcher) plan() *session {
	s := &session{watcher: w, query: url.Values{"watch": {"1"}}, http2: w.random.IntN(5) == 0, before: w.host.current()}
	s.recording = &watchtest.Recording{
		Match: func(e *watch.Entry) bool { return w.match(e.Facts()) }, Show: w.form.show,
		From: s.before,
	}
	if w.labels != "" {
		s.query.Set("labelSelector", w.labels)
	}
	if w.fields != "" {
		s.query.Set("fieldSelector", w.fields)
	}
	if s.recording.NoBookmarks = w.random.IntN(3) == 0; !s.recording.NoBookmarks {
		s.query.Set("allowWatchBookmarks", "true")
	}
	if w.random.IntN(20) == 0 {
		s.query.Set("timeoutSeconds", "1")
	}
	switch n := w.random.IntN(20); {
	case w.far && !w.closing():
		s.mayPass = true
		s.after(s.before+10_000_000, &w.counts.above)
	case w.told > 0 && (n < 12 || w.closing()):
		s.after(w.told, &w.counts.resumed)
	case n < 16 && !w.closing():
		s.near()
	default:
		s.fresh()
	}
	return s
}

// after watches after a version.
func (s *session) after(revision storage.Revision, c *counter) {
	s.recording.From, s.start = revision, c
	s.query.Set("resourceVersion", revision.String())
	if s.random.IntN(10) == 0 { // which means the same
		s.query.Set("sendInitialEvents", "false")
		s.query.Set("resourceVersionMatch", "NotOlderThan")
	}
}

// near watches after a version close to the newest one: one that is not an event's, or a future
// one.
func (s *session) near() {
	s.mayPass = true
	switch n := s.random.IntN(200); {
	case n < 100:
		s.after(s.before-storage.Revision(n), &s.counts.below)
	case n < 199:
		s.after(s.before+storage.Revision(n-99), &s.counts.above)
	default:
		s.after(s.before+10_000_000, &s.counts.above)
	}
}

// fresh watches from the newest state, in each possible way.
func (s *session) fresh() {
	r := s.recording
	r.Initial, r.Unmarked = true, r.NoBookmarks
	s.start = &s.counts.fresh
	n := s.random.IntN(5)
	if s.closing() {
		n = s.random.IntN(4)
	}
	switch n {
	case 0: // the legacy way (WATCH-06)
	case 1: // of any age (WATCH-07); every version that a writer received exists (design rule 4)
		r.From = storage.Revision(s.host.acknowledged.Load())
		s.query.Set("resourceVersion", "0")
	case 2: // WLIST-04
		s.query.Set("sendInitialEvents", "true")
		s.query.Set("resourceVersionMatch", "NotOlderThan")
	case 3: // WLIST-05
		s.query.Set("sendInitialEvents", "true")
		s.query.Set("resourceVersionMatch", "NotOlderThan")
		s.query.Set("resourceVersion", s.before.String())
	case 4: // no initial state (WLIST-07)
		r.Initial, r.Unmarked, s.mayPass = false, false, true
		s.query.Set("sendInitialEvents", "false")
		s.query.Set("resourceVersionMatch", "NotOlderThan")
	}
}

// run watches until the watcher disconnects, the server ends the watch or the run is over. Then it
// checks what was delivered.
func (s *session) run(ctx context.Context) (done bool, err error) {
	if s.mayPass {
		ctx = s.open
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, address := s.host.connection(s.http2)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+boats(s.namespace)+"?"+s.query.Encode(), http.NoBody)
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", s.form.accept)
	res, err := client.Do(r)
	if err != nil {
		return false, nil // the server is gone; another one will come
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return false, nil // the same
	default:
		return false, fmt.Errorf("the answer is %s", res.Status)
	}
	if s.recording.Initial || s.query.Get("resourceVersion") == "" {
		s.recording.By = s.host.current()
	}
	done, err = s.read(ctx, bufio.NewReaderSize(s.fault.body(s.watcher, res.Body), 16<<10))
	if err != nil {
		return false, err
	}
	return done, s.check()
}

// read records events until something ends it.
func (s *session) read(ctx context.Context, from *bufio.Reader) (done bool, err error) {
	life, stallAt := 20+s.random.IntN(2000), -1
	if s.fault != nil && s.number == s.fault.question {
		life = s.fault.at + 10
	}
	if s.idler || s.random.IntN(20) == 0 {
		stallAt = s.random.IntN(200)
	}
	for n := 0; n < life || s.closing(); n++ {
		if n == stallAt {
			s.stall(ctx)
		}
		line, err := from.ReadBytes('\n')
		if err != nil {
			s.counts.ended.Add(1)
			return false, nil //nolint:nilerr // the end, in order or not; a partial line does not count
		}
		event, err := s.form.parse(line, n == 0)
		if err != nil {
			return false, err
		}
		switch event.Type {
		case meta.Error:
			return false, s.fail(event)
		case meta.Bookmark:
			s.counts.bookmarks.Add(1)
		default:
			s.lines++
		}
		s.recording.Tell(event)
		if bytes.Contains(event.Object, fmt.Appendf(nil, `"last":"%d"`, s.number)) {
			return true, nil
		}
	}
	return false, nil
}

// stall stops reading for a while: a short one, or until the history has been compacted past the
// last event.
func (s *session) stall(ctx context.Context) {
	if !s.idler {
		time.Sleep(time.Duration(s.random.IntN(20)) * time.Millisecond)
		return
	}
	for at := s.host.current(); s.host.truth.gone() < at+100 && !s.closing() && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	s.counts.stalled.Add(1)
}

// fail records the ERROR event that ended the watch.
func (s *session) fail(event watchtest.Event) error {
	var st meta.Status
	if err := json.Unmarshal(event.Object, &st); err != nil {
		return err
	}
	s.host.truth.settle()
	switch err := status.FromStatus(st); {
	case st.Code == http.StatusGone && status.IsExpired(err):
		s.recording.Expired(s.gone())
		s.counts.expired.Add(1)
		return nil
	case st.Code == http.StatusGatewayTimeout && status.IsTimeout(err):
		s.recording.TooLarge(s.before)
		s.far = false
		s.counts.tooLarge.Add(1)
		return nil
	}
	return errors.New("the watch ended with " + strconv.Quote(st.Message))
}

// gone returns a revision below which nothing can be known: the compacted one, or the version that the
// watch asked for if nobody was ever told it and the store says that it is from elsewhere.
func (s *session) gone() storage.Revision {
	from := s.recording.From
	// This comes first: what is compacted afterwards is no longer said to be from elsewhere.
	elsewhere := s.mayPass && s.host.elsewhere(from)
	compacted := s.host.truth.gone()
	if elsewhere {
		return max(compacted, from+1)
	}
	return compacted
}

// check compares the delivered events with the commits. Correct events count as delivered.
func (s *session) check() error {
	s.host.truth.settle()
	if err := s.host.truth.history.Check(s.recording, 0); err != nil {
		return err
	}
	s.start.Add(1)
	if s.http2 {
		s.counts.http2.Add(1)
	}
	s.delivered.Add(int64(s.lines))
	s.told = s.recording.Told()
	if s.mayPass && s.recording.Len() == 0 {
		s.told = 0 // the server told no version: the one that the watch began from was made up
	}
	return nil
}
