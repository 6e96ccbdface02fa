package apitest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Config says how a server for a test differs from the usual one. The zero value is the usual one.
type Config struct {
	// Options are given to kindwright.New after those that every server here has. With
	// HTTP.PathPrefix, clients need client.At(srv.URL + prefix).
	Options []kindwright.Option

	// Backend is the store. Default: a new one in memory, which ends with the server. A Backend
	// that is given is left open, so that another server can go on with it: that is how to test a
	// restart.
	Backend storage.Backend

	// Bare leaves kinds.ControlPlane() out: the server has no namespaces, and objects live in
	// whatever namespace they name.
	Bare bool
}

// Server is a running resource API. Its methods may be called from any goroutine until it is
// closed.
type Server struct {
	// URL is what clients take for the address of the server; only its Transport can reach it. See
	// ListenTLS.
	URL string

	// API is the server itself, to install kinds in, for its engine, or to be mounted in a handler
	// of the test.
	API *kindwright.Server

	t       testing.TB
	id      string // of the goroutines that belong to the server
	masters *client.Transport
	store   storage.Backend
	owned   bool // the store is to be closed with the server
	stop    context.CancelFunc
	log     *testLog
	tls     tlsState
	faults  faults
	journal journal

	mu         sync.Mutex // guards what follows
	transports []*client.Transport
	closed     bool
}

// New starts a server for the given kinds and kinds.ControlPlane(), and stops it at the end of the
// test. It fails the test at once if the server cannot be started.
func New(t testing.TB, definitions ...registry.Definition) *Server {
	t.Helper()
	return Config{}.New(t, definitions...)
}

// New is the function New for a server that is not the usual one.
func (cfg Config) New(t testing.TB, definitions ...registry.Definition) *Server {
	t.Helper()
	s := newServer(t)
	if !cfg.Bare {
		definitions = append(definitions[:len(definitions):len(definitions)], kinds.ControlPlane())
	}
	s.store = cfg.Backend
	if s.store == nil {
		s.store, s.owned = memory.New(), true
	}
	options := append([]kindwright.Option{
		kindwright.Serve(definitions...),
		kindwright.Authenticate(authn.Func(authenticate)),
		kindwright.Before("authorize", throughFaults),
		kindwright.LogTo(s.log.logger()),
		kindwright.Access{CheckPlugins: true},
	}, cfg.Options...)
	s.start(kindwright.New(s.store, options...))
	return s
}

// Fork starts a server that goes on from the state of this one, for a test, mostly a sub-test, that
// begins with what others begin with as well. It has the objects and the options of this server,
// with more if some are given, and copies neither: ten thousand objects take no longer than ten.
// From then on the two have nothing to do with each other. The fork ends with t, whatever becomes
// of this server.
//
// Everything goes on in the fork: versions, watches and continue tokens from before it, namespaces
// that are ending, what the garbage collector has to do, time to live. Clients, faults and ports
// stay with their servers. A server whose store is not in memory has its objects copied into
// memory, with their versions and without their past.
//
// A test in a synctest bubble may fork a server that was made outside, where time is another: in
// the bubble the year is 2000 again, and what expires has the rest of its time from then on.
func (s *Server) Fork(t testing.TB, options ...kindwright.Option) *Server {
	t.Helper()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		t.Fatalf("apitest: Fork: the server is closed; fork it before, the fork goes on without it")
	}
	f := newServer(t)
	f.owned = true
	store := func(at storage.Revision) (storage.Backend, error) {
		var err error
		if db, ok := s.store.(*memory.DB); ok {
			f.store, err = db.Fork()
		} else {
			f.store, err = memory.CopyOf(context.Background(), s.store, at)
		}
		return f.store, err
	}
	f.start(s.API.Fork(store, append([]kindwright.Option{kindwright.LogTo(f.log.logger())}, options...)...))
	return f
}

func newServer(t testing.TB) *Server {
	s := &Server{URL: client.InProcessURL, t: t, log: &testLog{to: t}}
	s.journal.began = time.Now()
	s.id = fmt.Sprintf("%s %p", t.Name(), s) // two servers of one test differ
	return s
}

// start runs a server that has been made, unless it could not be made.
func (s *Server) start(api *kindwright.Server, err error) {
	s.t.Helper()
	if err != nil {
		s.closeStore()
		s.t.Fatalf("apitest: the server cannot be made:\n%v", err)
	}
	s.API = api
	// The server's life is not that of t.Context(): whoever watches it to its last moment must not
	// lose it first.
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	started := make(chan error)
	go s.own(ctx, func(ctx context.Context) { started <- api.Start(ctx) })
	if err := <-started; err != nil {
		stop()
		api.Wait()
		s.closeStore()
		s.t.Fatalf("apitest: the server cannot be started:\n%v", err)
	}
	s.masters = s.transport(authn.User{Name: "apitest", Groups: []string{authn.GroupMasters}})
	s.t.Cleanup(s.Close)
}

// call is one request: to which server it came, and who sent it. It is in the context of the
// request, where nothing that comes over a wire can put it; so the links of the chain, which forks
// share, know which server they work for.
type call struct {
	server  *Server
	who     authn.Authenticator
	request *http.Request // as it came
	note    *Request      // what is remembered of it
}

type callKey struct{}

// authenticate names the user of a request: that of its Transport, or of its client certificate.
func authenticate(r *http.Request) (authn.User, bool, error) {
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		return c.who.Authenticate(r)
	}
	return authn.User{}, false, nil
}

// handler leads requests to the server that come on one way.
func (s *Server) handler(who authn.Authenticator) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.record(w, r, func(w http.ResponseWriter, r *http.Request, note *Request) {
			c := &call{server: s, who: who, request: r, note: note}
			s.API.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
		})
	})
}

// transport makes a Transport whose requests are a user's.
func (s *Server) transport(u authn.User) *client.Transport {
	h := s.handler(authn.Func(func(*http.Request) (authn.User, bool, error) { return u, u.Name != "", nil }))
	t := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.own(r.Context(), func(ctx context.Context) { h.ServeHTTP(w, r.WithContext(ctx)) })
	}))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.Close() // its requests fail, as those of the others do
		return t
	}
	s.transports = append(s.transports, t)
	return t
}

// Transport sends requests to the server as a member of system:masters, whatever their URL says.
func (s *Server) Transport() http.RoundTripper { return s.masters }

// Client returns a client of the server that may do everything.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.masters} }

// As returns a client for a user of these groups, and of system:authenticated. What they may do is
// up to the authorizers in Config.Options; without any, only members of system:masters may do
// something. An empty user is anonymous.
func (s *Server) As(user string, groups ...string) *http.Client {
	return &http.Client{Transport: s.transport(authn.User{Name: user, Groups: groups})}
}

func (s *Server) closeStore() {
	if !s.owned || isNothing(s.store) {
		return
	}
	if err := s.store.Close(); err != nil {
		s.t.Errorf("apitest: the store did not close: %v", err)
	}
}

// isNothing tells whether a store is nil, or what a failed fork left.
func isNothing(b storage.Backend) bool {
	db, ok := b.(*memory.DB)
	return b == nil || ok && db == nil
}
