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
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Config configures a Server. The zero value is the usual configuration.
type Config struct {
	// Options are passed to kindwright.New after the options that apitest sets. With
	// HTTP.PathPrefix, clients need client.At(srv.URL + prefix).
	Options []kindwright.Option

	// Backend is the store. By default the server creates one in memory and closes it at the end.
	// The server does not close a given Backend, so another server can reopen it: use that to test
	// a restart.
	Backend storage.Backend

	// Bare omits kinds.ControlPlane(): the server has no namespaces, and objects may use any
	// namespace.
	Bare bool
}

// Server is a running resource API. Its methods are safe for concurrent use until it is closed.
type Server struct {
	// URL is the address of the server for clients that use its Transport; nothing listens there.
	// See ListenTLS.
	URL string

	// API is the server itself. Use it to install kinds, to reach its engine, or as a handler.
	API *kindwright.Server

	t       testing.TB
	id      string // label of the server's goroutines
	masters *client.Transport
	store   storage.Backend
	owned   bool // the server closes the store
	stop    context.CancelFunc
	log     *testLog
	tls     tlsState
	faults  faults
	journal journal

	mu         sync.Mutex // guards the fields below
	transports []*client.Transport
	closed     bool
}

// New starts a server for the given kinds and kinds.ControlPlane(), and stops it at the end of the
// test. If the server cannot start, the test fails at once.
func New(t testing.TB, definitions ...registry.Definition) *Server {
	t.Helper()
	return Config{}.New(t, definitions...)
}

// New is the function New with this configuration.
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
		kindwright.Serve(withCRDs(definitions)...),
		kindwright.Authenticate(authn.Func(authenticate)),
		kindwright.Authorize(authz.Func(noOpinion)), // the test's own come after it; without any, the server would warn
		kindwright.Before("authorize", throughFaults),
		kindwright.LogTo(s.log.logger()),
		kindwright.Access{CheckPlugins: true, CheckExecution: true},
		kindwright.Watches{VerifyEvery: time.Second}, // a difference fails the test, see testLog
	}, cfg.Options...)
	s.start(kindwright.New(s.store, options...))
	return s
}

// Fork starts a server that continues from the state of this one, usually for a sub-test. The fork
// has the same objects and options, plus the given options. It copies neither, so ten thousand
// objects take no longer than ten. After that the two servers are independent. The fork ends with
// t, whatever happens to this server.
//
// Everything continues in the fork: versions, watches and continue tokens from before it,
// terminating namespaces, pending garbage collection, times to live. Clients, faults and ports stay
// with their servers. If the store is not in memory, its objects are copied into memory, with their
// versions but without their history.
//
// A test in a synctest bubble may fork a server from outside. In the bubble it is the year 2000
// again; objects that expire keep their remaining time.
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
	s.id = fmt.Sprintf("%s %p", t.Name(), s) // unique among the servers of a test
	return s
}

// start runs a server, or fails the test if it could not be created.
func (s *Server) start(api *kindwright.Server, err error) {
	s.t.Helper()
	if err != nil {
		s.closeStore()
		s.t.Fatalf("apitest: the server cannot be made:\n%v", err)
	}
	s.API = api
	// The server must outlive t.Context(), so that clients can use it until the end.
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

// call is one request: the server it came to and its sender. It is in the context of the request,
// where no client can put it. So the links of the handler chain, which forks share, know the server
// they work for.
type call struct {
	server  *Server
	who     authn.Authenticator
	request *http.Request // as received
	note    *Request      // its entry in the journal
}

type callKey struct{}

// authenticate returns the user of a request: that of its Transport, or of its client certificate.
func authenticate(r *http.Request) (authn.User, bool, error) {
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		return c.who.Authenticate(r)
	}
	return authn.User{}, false, nil
}

// handler returns the handler for requests that are authenticated by who.
func (s *Server) handler(who authn.Authenticator) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.record(w, r, func(w http.ResponseWriter, r *http.Request, note *Request) {
			c := &call{server: s, who: who, request: r, note: note}
			s.API.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
		})
	})
}

// transport returns a Transport that sends requests as a user.
func (s *Server) transport(u authn.User) *client.Transport {
	h := s.handler(authn.Func(func(*http.Request) (authn.User, bool, error) { return u, u.Name != "", nil }))
	t := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.own(r.Context(), func(ctx context.Context) { h.ServeHTTP(w, r.WithContext(ctx)) })
	}))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.Close() // its requests fail like those of the others
		return t
	}
	s.transports = append(s.transports, t)
	return t
}

// Transport returns a transport that sends every request to the server, whatever its URL, as a
// member of system:masters.
func (s *Server) Transport() http.RoundTripper { return s.masters }

// Client returns a client with all rights.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.masters} }

// As returns a client for a user of these groups and of system:authenticated. The authorizers in
// Config.Options decide what it may do; without any, only members of system:masters may do
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

// isNothing reports whether a store is nil, or a nil pointer left by a failed fork.
func isNothing(b storage.Backend) bool {
	db, ok := b.(*memory.DB)
	return b == nil || ok && db == nil
}

func noOpinion(context.Context, authz.Attributes) (authz.Decision, string, error) {
	return authz.NoOpinion, "", nil
}
