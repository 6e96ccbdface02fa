package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
)

// Fault makes requests go wrong, on purpose and in the same way every time: those that fit every
// field which is set, from whichever client and on whichever way, a port of ListenTLS included. See
// [Server.Fail].
type Fault struct {
	// Verb is what is asked of a resource: get, list, watch, create, update, patch, delete or
	// deletecollection; or several of them, "get,list".
	Verb string

	// Resource is "widgets", "widgets.shop.example.com", "widgets/status" or the kind "Widget". A
	// subresource is only meant where it is named; "widgets/*" means all of them.
	Resource string

	Namespace, Name string // of the path: who creates an object with POST has not named it there
	User            string // who asks
	Agent           string // what the User-Agent begins with, such as "my-controller"
	Path            string // what the path begins with, such as "/apis" for discovery

	// When is asked about requests that fit the rest.
	When func(r *http.Request) bool

	Skip  int           // how many requests that fit go well before
	Times int           // how many then go wrong; 0 is all, until Stop
	For   time.Duration // how long it lasts; 0 is until Stop

	// Effect is what happens to the requests. Required.
	Effect Effect

	// MustFire fails the test if the fault has not hit as many requests as Times says, or none at
	// all, by the end of the server: a test that goes well because the fault never came about shows
	// nothing.
	MustFire bool
}

// Failing is a fault that has been set up. All methods may be called from any goroutine.
type Failing struct {
	fault   Fault
	set     *faults
	apply   func(c *faultCall)
	stopped chan struct{} // closed by Stop

	mu    sync.Mutex  // guards what follows
	until time.Time   // zero for ever
	timer *time.Timer // stops it then
	fits  int
	fired int
	over  bool
}

// Fail sets up a fault. Several may hit the same request: the one that was set up first is met
// first, and the next one when that one lets the request pass. A fault that cannot hit anything, or
// has no Effect, fails the test.
func (s *Server) Fail(f Fault) *Failing {
	s.t.Helper()
	if why := f.problem(); why != "" {
		s.t.Fatalf("apitest: Fail: %s", why)
	}
	failing := &Failing{fault: f, set: &s.faults, apply: f.Effect.begin(s), stopped: make(chan struct{})}
	s.faults.add(failing)
	if f.For > 0 {
		failing.mu.Lock() // which Stop takes
		defer failing.mu.Unlock()
		failing.until = time.Now().Add(f.For)
		failing.timer = time.AfterFunc(f.For, failing.Stop)
	}
	return failing
}

// problem says why a fault cannot be meant as it is: a test would go well because of it.
func (f *Fault) problem() string {
	switch {
	case f.Effect.begin == nil:
		return "the fault has no Effect"
	case f.Effect.wrong != "":
		return f.Effect.wrong
	case f.Skip < 0 || f.Times < 0 || f.For < 0:
		return "Skip, Times and For must not be negative"
	case f.Verb == "":
		return ""
	}
	known := []string{
		request.VerbGet, request.VerbList, request.VerbWatch, request.VerbCreate, request.VerbUpdate, request.VerbPatch, request.VerbDelete, request.VerbDeleteCollection,
	}
	hits := false
	for verb := range strings.SplitSeq(f.Verb, ",") {
		if !slices.Contains(known, verb) {
			return fmt.Sprintf("there is no verb %q; the verbs are %s", verb, strings.Join(known, ", "))
		}
		hits = hits || f.Effect.verbs == nil || slices.Contains(f.Effect.verbs, verb)
	}
	if !hits {
		return fmt.Sprintf("%q is nothing for the verb %s", f.Effect, f.Verb)
	}
	return ""
}

// Fired returns how many requests were hit so far.
func (f *Failing) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Stop lets all requests from now on pass, and those go on that the fault is holding up. It may be
// called again.
func (f *Failing) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	f.over = true
	if f.timer != nil {
		f.timer.Stop()
	}
	close(f.stopped)
	f.set.remove(f)
}

// String says what the fault is, and how often it has fired.
func (f *Failing) String() string {
	var parts []string
	for _, p := range []struct{ name, value string }{
		{"", f.fault.Verb},
		{"", f.fault.Resource},
		{"namespace ", f.fault.Namespace},
		{"name ", f.fault.Name},
		{"user ", f.fault.User},
		{"agent ", f.fault.Agent},
		{"path ", f.fault.Path},
	} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "all requests")
	}
	return fmt.Sprintf("%s: %s; fired %d times", strings.Join(parts, " "), f.fault.Effect.text, f.Fired())
}

// take decides whether a request is hit, and counts it.
func (f *Failing) take(r *http.Request, info *request.Info, server *Server) bool {
	if !f.fault.fits(r, info, server) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || !f.until.IsZero() && !time.Now().Before(f.until) {
		return false
	}
	f.fits++
	if f.fits <= f.fault.Skip || f.fault.Times > 0 && f.fired >= f.fault.Times {
		return false
	}
	f.fired++
	return true
}

// missed says that the fault should have hit more than it did, "" if not.
func (f *Failing) missed() string {
	if !f.fault.MustFire || f.Fired() >= max(1, f.fault.Times) {
		return ""
	}
	return "apitest: a fault that must fire did not, or not often enough: " + f.String()
}

// fits compares a request with the fields that are set.
func (f *Fault) fits(r *http.Request, info *request.Info, server *Server) bool {
	if f.Verb != "" || f.Resource != "" || f.Namespace != "" || f.Name != "" {
		if !info.IsResource || f.Verb != "" && !slices.Contains(strings.Split(f.Verb, ","), info.Verb) {
			return false
		}
		if f.Resource != "" && !names(f.Resource, info, server) {
			return false
		}
		if f.Namespace != "" && f.Namespace != info.Namespace || f.Name != "" && f.Name != info.Name {
			return false
		}
	}
	if f.Effect.verbs != nil && (!info.IsResource || !slices.Contains(f.Effect.verbs, info.Verb)) {
		return false
	}
	if u, _ := authn.UserFrom(r.Context()); f.User != "" && u.Name != f.User {
		return false
	}
	return strings.HasPrefix(r.UserAgent(), f.Agent) && strings.HasPrefix(r.URL.Path, f.Path) && (f.When == nil || f.When(r))
}

// names tells whether a text names the resource of a request.
func names(text string, info *request.Info, server *Server) bool {
	resource, sub, _ := strings.Cut(text, "/")
	if sub != info.Subresource && (sub != "*" || info.Subresource == "") {
		return false
	}
	if resource == info.Resource || resource == (meta.GroupResource{Group: info.Group, Resource: info.Resource}).String() {
		return true
	}
	served, ok := server.API.Engine().Set().Lookup(meta.GroupVersionResource{Group: info.Group, Version: info.Version, Resource: info.Resource})
	return ok && served.Resource.Names.Kind == resource
}

// faults are those of a server, in the order in which they were set up.
type faults struct {
	mu  sync.RWMutex // taken after a Failing's
	set []*Failing   // a new slice with every change
	all []*Failing   // those that have been stopped as well
}

func (s *faults) add(f *Failing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = append(slices.Clip(s.set), f)
	s.all = append(s.all, f)
}

func (s *faults) remove(f *Failing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = slices.DeleteFunc(slices.Clone(s.set), func(o *Failing) bool { return o == f })
}

func (s *faults) active() []*Failing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.set
}

// end stops all faults and complains about those that did not fire.
func (s *faults) end(complain func(format string, args ...any)) {
	s.mu.RLock()
	all := s.all
	s.mu.RUnlock()
	for _, f := range all {
		f.Stop()
		if why := f.missed(); why != "" {
			complain("%s", why)
		}
	}
}

// throughFaults is the link of the chain at which requests meet the faults of their server. It
// stands where it is known who asks, and before it is asked what they may do.
func throughFaults(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(callKey{}).(*call)
		if !ok || c.server == nil {
			next.ServeHTTP(w, r)
			return
		}
		info := request.From(r.Context())
		c.identify(r, info)
		h := next
		for _, f := range slices.Backward(c.server.faults.active()) {
			h = f.before(h, c, info)
		}
		h.ServeHTTP(w, r)
	})
}

// before puts the fault before a handler.
func (f *Failing) before(next http.Handler, c *call, info *request.Info) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.take(r, info, c.server) {
			next.ServeHTTP(w, r)
			return
		}
		c.hit(f.fault.Effect.text)
		f.apply(&faultCall{w: w, r: r, next: next, info: info, call: c, stopped: f.stopped})
	})
}
