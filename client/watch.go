package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The two event types that a Watch adds to those of the server.
const (
	// Reset means that the known state is void: the existing objects follow as ADDED events, and
	// then SYNCED. It is the first event of a Watch without After, and comes again when changes
	// were lost. Source: WATCH-18.
	Reset meta.EventType = "RESET"

	// Synced means that everything that existed at Version has been reported. Changes follow.
	Synced meta.EventType = "SYNCED"
)

// Event is one event of a Watch.
type Event[T any] struct {
	Type meta.EventType // Reset, Synced, meta.Added, meta.Modified, meta.Deleted or meta.Bookmark

	// Object is the added or changed object, or the last state of a deleted one. It is nil in other
	// events.
	Object *T

	// Version is the position of the watch: a Watch with After(Version) continues with the next
	// event. It is empty in a Reset and in the objects that follow it.
	Version string
}

// WatchOption configures a Watch.
type WatchOption func(*watchConfig) error

type watchConfig struct{ after string }

// After starts a Watch with the changes after a version, which comes from a List or an event. By
// default a Watch starts with the existing objects.
func After(version string) WatchOption {
	return func(w *watchConfig) error {
		if version == "" || version == "0" {
			return fmt.Errorf("client: After: %q is not a specific version", version)
		}
		w.after = version
		return nil
	}
}

// Watch follows a collection for as long as the loop over it runs:
//
//	for event, err := range c.Watch(ctx, client.In("default")) {
//		if err != nil {
//			return err
//		}
//		switch event.Type {
//		case client.Reset:
//			clear(known)
//		case meta.Added, meta.Modified:
//			known[event.Object.Key()] = event.Object
//		case meta.Deleted:
//			delete(known, event.Object.Key())
//		}
//	}
//
// When a stream ends or breaks, Watch resumes after the last version it saw; it requests bookmarks
// for that. It neither repeats nor misses an event. If the server no longer has the version (410),
// Watch sends a Reset and lists the collection again. It does the same when several streams in a row
// end at once without an event. Between failed attempts it waits up to half a minute, or as long as
// the server asks.
//
// The sequence ends only with an error: the cause of ctx, or an error that retrying cannot fix,
// such as status.IsForbidden. The loop itself does all the reading, and leaving it releases
// everything. A slow loop is a slow reader of the server's stream.
func (c *Client[T]) Watch(ctx context.Context, s Selection, opts ...WatchOption) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		w := &watcher[T]{client: c, selection: s, yield: yield}
		var cfg watchConfig
		for _, o := range opts {
			if o != nil {
				w.problem = errors.Join(w.problem, o(&cfg))
			}
		}
		w.version = cfg.after
		if err := w.run(ctx); err != nil && !errors.Is(err, errLeft) {
			yield(Event[T]{}, err)
		}
	}
}

var (
	errLeft      = errors.New("the loop was left")
	errOver      = errors.New("the stream ended")
	errNoVersion = errors.New("it has no version")
)

// The pauses between failed attempts.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second

	// lastingStream is how long a stream without events must have been open to count as a success.
	lastingStream = 10 * time.Second

	// maxFuture is how often the server may say that it has not seen a version yet. After that,
	// Watch assumes that the server has lost its history.
	maxFuture = 3

	// maxMute is how many streams in a row may end at once without an event. After that, Watch
	// lists the collection after each one, because changes may never arrive by a stream: something
	// between the two may end or hold back every stream.
	maxMute = 3
)

// watcher is one Watch.
type watcher[T any] struct {
	client    *Client[T]
	selection Selection
	problem   error // the error of the options, or nil
	yield     func(Event[T], error) bool

	version string // the position; "" if the collection must be listed
	wait    time.Duration
	future  int // how often in a row the server had not seen the position yet
	mute    int // how many streams in a row have ended without an event, or were answered with 500
}

// run returns the reason for the end, which is never nil.
func (w *watcher[T]) run(ctx context.Context) error {
	path, err := w.client.collectionPath(w.selection.Namespace)
	if err = errors.Join(w.problem, err); err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.version == "" {
			err = w.list(ctx)
		} else {
			err = w.follow(ctx, path)
		}
		if ctx.Err() != nil && !errors.Is(err, errLeft) {
			return context.Cause(ctx)
		}
		if err = w.resume(ctx, err); err != nil {
			return err
		}
	}
}

// resume decides how to continue after an attempt that ended with err, and waits if needed. An
// error ends the watch.
func (w *watcher[T]) resume(ctx context.Context, err error) error {
	if err == nil || final(err) {
		return err
	}
	failure, _ := errors.AsType[*status.Error](err)
	switch {
	case failure == nil:
	case status.IsExpired(failure):
		w.version, w.future = "", 0
	case status.IsTooLargeResourceVersion(failure):
		if w.future++; w.future >= maxFuture {
			w.version, w.future = "", 0
		}
	}
	w.wait = min(max(2*w.wait, firstPause), maxPause)
	wait := w.wait - w.wait/4 + rand.N(w.wait/2)
	if failure != nil && failure.RetryAfterSeconds() > 0 {
		wait = time.Duration(failure.RetryAfterSeconds()) * time.Second
	}
	wait = min(wait, w.client.maxWait)
	if w.mute >= maxMute {
		w.version, w.future = "", 0
		w.client.log.Info("watches bring no events, so the collection is listed again",
			"resource", w.client.resource.String(), "attempts", w.mute, "reason", err.Error(), "wait", wait)
	}
	w.client.log.V(1).Info("a watch was interrupted", "resource", w.client.resource.String(), "reason", err.Error(), "wait", wait)
	return pause.For(ctx, wait)
}

// final reports whether a retry would fail in the same way.
func final(err error) bool {
	if failure, ok := errors.AsType[*status.Error](err); ok {
		switch code := failure.Code(); code {
		case http.StatusGone, http.StatusTooManyRequests:
			return false
		default:
			return code < 500 || code == http.StatusNotImplemented
		}
	}
	_, bad := errors.AsType[unusable](err)
	return bad || errors.Is(err, errLeft) || errors.Is(err, ErrTransportClosed)
}

// list reports everything that exists and sets the position after it.
func (w *watcher[T]) list(ctx context.Context) error {
	version, begun := "", false
	for page, err := range w.client.Pages(ctx, w.selection) {
		if err != nil {
			return err
		}
		if !begun || page.Restarted {
			begun = true
			if !w.yield(Event[T]{Type: Reset}, nil) {
				return errLeft
			}
		}
		for _, item := range page.Items {
			if !w.yield(Event[T]{Type: meta.Added, Object: item}, nil) {
				return errLeft
			}
		}
		version = page.Version
	}
	if version == "" {
		return unusable{fmt.Errorf("client: watch %s: the server sent a list: %w", w.client.resource, errNoVersion)}
	}
	w.version = version
	if !w.yield(Event[T]{Type: Synced, Version: version}, nil) {
		return errLeft
	}
	return nil
}

// follow reports the changes of one stream and returns why it ended. It returns nil if the stream
// was productive, so that the next one follows at once.
func (w *watcher[T]) follow(ctx context.Context, path []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := w.selection.query()
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", w.version)
	res, err := w.client.send(ctx, call{method: http.MethodGet, path: path, query: q})
	if err != nil {
		if failure, ok := errors.AsType[*status.Error](err); ok && failure.Code() == http.StatusInternalServerError {
			w.mute++
		}
		return err
	}
	defer res.Body.Close()
	began, told := time.Now(), false
	frames := newFrames(res.Body, w.client.maxAnswer)
	for {
		frame, err := frames.next()
		if err != nil {
			if _, bad := errors.AsType[errTooLong](err); bad {
				return unusable{fmt.Errorf("client: watch %s: cannot read an event: %w", w.client.resource, err)}
			}
			if told || time.Since(began) >= lastingStream {
				w.wait, w.mute = 0, 0
				return nil
			}
			if errors.Is(err, io.EOF) {
				err = errOver
				w.mute++
			}
			return err
		}
		if err := w.tell(frame); err != nil {
			return err
		}
		told, w.future, w.mute = true, 0, 0
	}
}

// tell reports one event of the server.
func (w *watcher[T]) tell(frame []byte) error {
	var e meta.WatchEvent
	if err := json.Unmarshal(frame, &e); err != nil {
		return unusable{fmt.Errorf("client: watch %s: the server sent something other than an event: %w", w.client.resource, err)}
	}
	event := Event[T]{Type: e.Type}
	var err error
	switch e.Type {
	case meta.Error:
		return w.failure(e.Object)
	case meta.Bookmark:
		event.Version, err = w.bookmark(e.Object)
	case meta.Added, meta.Modified, meta.Deleted:
		event.Object, event.Version, err = w.client.decodeAt(e.Object)
	default:
		return nil // from a newer server
	}
	if err == nil && event.Version == "" {
		err = unusable{fmt.Errorf("client: watch %s: the server sent %s: %w", w.client.resource, e.Type, errNoVersion)}
	}
	if err != nil {
		return err
	}
	w.version = event.Version
	if !w.yield(event, nil) {
		return errLeft
	}
	return nil
}

// failure converts the Status of an ERROR event to an error.
func (w *watcher[T]) failure(object []byte) error {
	var st meta.Status
	if err := json.Unmarshal(object, &st); err != nil {
		return unusable{fmt.Errorf("client: watch %s: the server sent an ERROR without a Status: %w", w.client.resource, err)}
	}
	return status.FromStatus(st)
}

func (w *watcher[T]) bookmark(object []byte) (string, error) {
	var h header
	if err := json.Unmarshal(object, &h); err != nil {
		return "", unusable{fmt.Errorf("client: watch %s: the server sent a BOOKMARK without an object: %w", w.client.resource, err)}
	}
	return h.Metadata.ResourceVersion, nil
}
