package apitest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/watch"
)

// How long Eventually and Gone wait if their context has no deadline. Virtual time in a synctest
// bubble costs nothing, so there it is longer than any back-off.
const (
	realPatience    = 10 * time.Second
	virtualPatience = 24 * time.Hour
)

// Eventually waits until check returns nil for an object, and returns that state. It calls check
// for every state of the object from now on, without polling. The test fails at once if check does
// not return nil in time; the failure shows the last state and the error of check for it. The limit
// is ten seconds, a virtual day in a synctest bubble, or the deadline of ctx.
//
//	w := apitest.Eventually(t.Context(), srv, Widgets, meta.Key{Namespace: "default", Name: "a"}, func(w *Widget) error {
//		if w.Status.Phase != "Ready" {
//			return fmt.Errorf("the phase is %q", w.Status.Phase)
//		}
//		return nil
//	})
//
// Eventually reads from the server directly: faults do not affect it, and it does not appear among
// the requests of the test. Call it from the goroutine of the test.
func Eventually[T any](ctx context.Context, s *Server, kind client.Kind[T], key meta.Key, check func(obj *T) error) *T {
	s.t.Helper()
	if check == nil || key.Name == "" {
		s.t.Fatalf("apitest: Eventually: give a key with a name, and a function; the key is %q", key)
	}
	var found *T
	s.expect(ctx, target(kind.ClientResource(), key), func(state []byte) error {
		if state == nil {
			return errors.New("it does not exist")
		}
		obj := new(T)
		if err := json.Unmarshal(state, obj); err != nil {
			return fmt.Errorf("it cannot be read into %T: %w", obj, err)
		}
		if err := check(obj); err != nil {
			return err
		}
		found = obj
		return nil
	})
	return found
}

// Gone waits until an object does not exist, like [Eventually].
func Gone[T any](ctx context.Context, s *Server, kind client.Kind[T], key meta.Key) {
	s.t.Helper()
	if key.Name == "" {
		s.t.Fatalf("apitest: Gone: give a key with a name; it is %q", key)
	}
	s.expect(ctx, target(kind.ClientResource(), key), func(state []byte) error {
		if state != nil {
			return errors.New("it still exists")
		}
		return nil
	})
}

func target[T any](r client.Resource[T], key meta.Key) registry.Target {
	return registry.Target{
		Resource:  meta.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural},
		Namespace: key.Namespace, Name: key.Name,
	}
}

// states records the states of an object.
type states struct {
	check func(state []byte) error
	last  []byte // nil if the object does not exist
	seen  int
	why   error // the error of check for last
}

func (s *states) show(state []byte) (content bool) {
	s.last = state
	s.seen++
	s.why = s.check(state)
	return s.why == nil
}

// expect waits until check accepts a state, or fails the test.
func (s *Server) expect(ctx context.Context, t registry.Target, check func(state []byte) error) {
	s.t.Helper()
	began := time.Now()
	if _, ok := ctx.Deadline(); !ok {
		limit := realPatience
		if isVirtual(began) {
			limit = virtualPatience
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	seen := states{check: check}
	err := s.follow(ctx, t, &seen)
	if err == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apitest: %s %s did not become as it should within %s", t.Resource.GroupResource(),
		meta.Key{Namespace: t.Namespace, Name: t.Name}, time.Since(began).Round(time.Microsecond))
	if ctx.Err() == nil {
		fmt.Fprintf(&b, ": %v", err)
	}
	if seen.why != nil {
		fmt.Fprintf(&b, ": %v", seen.why)
	}
	if seen.last != nil {
		fmt.Fprintf(&b, "\nIts last state, of %d:\n%s", seen.seen, indent(readable(seen.last)))
	}
	s.t.Fatalf("%s", strings.TrimSuffix(b.String(), "\n"))
}

// isVirtual reports whether a time comes from a synctest bubble, where time begins in the year
// 2000.
func isVirtual(t time.Time) bool { return t.Year() < 2020 }

// follow reports every state of an object to to, until one is accepted. The error says why no more
// will come.
func (s *Server) follow(ctx context.Context, t registry.Target, to *states) error {
	only, err := meta.NewFieldSelector(meta.FieldRequirement{Field: "metadata.name", Op: meta.Equals, Value: t.Name})
	if err != nil {
		return err
	}
	t.Name = ""
	for {
		if err := s.watch(ctx, t, registry.WatchRequest{Fields: only}, to); !watch.Expired(err) {
			return err
		}
	}
}

func (s *Server) watch(ctx context.Context, t registry.Target, wr registry.WatchRequest, to *states) error {
	exists := false
	for event, err := range s.API.Engine().Watch(ctx, t, wr) {
		if err != nil {
			return err
		}
		var state []byte
		switch event.Type {
		case meta.Bookmark: // the end of the initial events
			if exists {
				continue
			}
		case meta.Added, meta.Modified:
			state = event.Entry.AppendJSON(nil)
		}
		exists = state != nil
		if to.show(state) {
			return nil
		}
	}
	return nil
}
