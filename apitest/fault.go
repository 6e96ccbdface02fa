package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/engine"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
)

// Fault makes matching requests fail in a reproducible way. A request matches if it fits every
// field that is set. Its client does not matter, nor whether it comes through a port of ListenTLS.
// See [Server.Fail].
type Fault struct {
	// Verb is the verb of the request: get, list, watch, create, update, patch, delete or
	// deletecollection. Separate several with commas: "get,list".
	Verb string

	// Resource is "widgets", "widgets.shop.example.com", "widgets/status" or the kind "Widget". It
	// includes a subresource only if it names one; "widgets/*" includes all of them.
	Resource string

	Namespace, Name string // from the path, which has no name in a POST
	User            string // the user
	Agent           string // prefix of the User-Agent, such as "my-controller"
	Path            string // prefix of the path, such as "/apis" for discovery

	// When decides about requests that fit all other fields.
	When func(r *http.Request) bool

	Skip  int           // number of matching requests that pass first
	Times int           // number of requests that fail then; 0 means all
	For   time.Duration // duration; 0 means until Stop

	// Effect is applied to the requests. Required.
	Effect Effect

	// MustFire fails the test if the fault has hit fewer requests than Times, or none, by the end
	// of the server. A test that passes because its fault never occurred proves nothing.
	MustFire bool
}

// Failing is an active fault. All methods are safe for concurrent use.
type Failing struct {
	fault   Fault
	set     *faults
	apply   func(c *faultCall)
	stopped chan struct{} // closed by Stop

	mu    sync.Mutex  // guards what follows
	until time.Time   // zero means no limit
	timer *time.Timer // stops the fault at until
	fits  int
	fired int
	over  bool
}

// Fail activates a fault. If several faults match a request, they apply in the order in which they
// were set up, as long as each lets the request pass. A fault that cannot match anything, or has no
// Effect, fails the test.
func (s *Server) Fail(f Fault) *Failing {
	s.t.Helper()
	if why := f.problem(); why != "" {
		s.t.Fatalf("apitest: Fail: %s", why)
	}
	failing := &Failing{fault: f, set: &s.faults, apply: f.Effect.begin(s), stopped: make(chan struct{})}
	s.faults.add(failing)
	if f.For > 0 {
		failing.mu.Lock() // also taken by Stop
		defer failing.mu.Unlock()
		failing.until = time.Now().Add(f.For)
		failing.timer = time.AfterFunc(f.For, failing.Stop)
	}
	return failing
}

// problem returns why a fault cannot work as written; with it a test would pass without proving
// anything.
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
		return fmt.Sprintf("%q does not apply to the verb %s", f.Effect, f.Verb)
	}
	return ""
}

// Fired returns how many requests the fault has hit.
func (f *Failing) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Stop deactivates the fault and releases the requests that it holds up. It may be called more than
// once.
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

// String describes the fault and how often it has fired.
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

// take reports whether the fault hits a request, and counts it.
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

// missed returns a message if the fault should have hit more requests, or "".
func (f *Failing) missed() string {
	if !f.fault.MustFire || f.Fired() >= max(1, f.fault.Times) {
		return ""
	}
	return "apitest: a fault that must fire did not, or not often enough: " + f.String()
}

// fits reports whether a request fits the fields that are set.
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

// names reports whether a text names the resource of a request.
func names(text string, info *request.Info, server *Server) bool {
	resource, sub, _ := strings.Cut(text, "/")
	if sub != info.Subresource && (sub != "*" || info.Subresource == "") {
		return false
	}
	if resource == info.Resource || resource == (meta.GroupResource{Group: info.Group, Resource: info.Resource}).String() {
		return true
	}
	served, ok := server.API.Engine().(*engine.Engine).Set().Lookup(meta.GroupVersionResource{
		Group: info.Group, Version: info.Version, Resource: info.Resource,
	})
	return ok && served.Resource.Names.Kind == resource
}

// faults are the faults of a server, in the order of Fail.
type faults struct {
	mu  sync.RWMutex // taken after a Failing's
	set []*Failing   // a new slice with every change
	all []*Failing   // including stopped ones
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

// end stops all faults and reports those that should have fired.
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

// throughFaults is the link of the handler chain that applies the faults. It comes after
// authentication and before authorization.
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

// before returns a handler that applies the fault before another.
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
