package apitest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

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
	// Options are given to kindwright.New after those that every server here has. With WithPathPrefix, clients need
	// client.At(srv.URL + prefix).
	Options []kindwright.Option

	// Backend is the store. Default: a new one in memory, which ends with the server. A Backend that is given is left
	// open, so that another server can go on with it: that is how to test a restart.
	Backend storage.Backend

	// Bare leaves kinds.ControlPlane() out: the server has no namespaces, and objects live in whatever namespace they name.
	Bare bool
}

// Server is a running resource API. Its methods may be called from any goroutine until it is closed.
type Server struct {
	// URL is what clients take for the address of the server; only its Transport can reach it. See ListenTLS.
	URL string

	// API is the server itself, to install kinds in, for its engine, or to be mounted in a handler of the test.
	API *kindwright.Server

	t       testing.TB
	id      string // of the goroutines that belong to the server
	masters *client.Transport
	backend storage.Backend // to be closed with the server; nil when it is the caller's
	stop    context.CancelFunc
	log     *testLog
	tls     tlsState

	mu         sync.Mutex // guards what follows
	transports []*client.Transport
	closed     bool
}

// New starts a server for the given kinds and kinds.ControlPlane(), and stops it at the end of the test. It fails the test
// at once if the server cannot be started.
func New(t testing.TB, definitions ...registry.Definition) *Server {
	t.Helper()
	return Config{}.New(t, definitions...)
}

// New is the function New for a server that is not the usual one.
func (cfg Config) New(t testing.TB, definitions ...registry.Definition) *Server {
	t.Helper()
	s := &Server{URL: client.InProcessURL, t: t, log: &testLog{to: t}}
	s.id = fmt.Sprintf("%s %p", t.Name(), s) // two servers of one test differ
	if !cfg.Bare {
		definitions = append(definitions[:len(definitions):len(definitions)], kinds.ControlPlane())
	}
	if cfg.Backend == nil {
		s.backend = memory.New()
		cfg.Backend = s.backend
	}
	options := append([]kindwright.Option{
		kindwright.Serve(definitions...),
		kindwright.Authenticate(authn.Func(s.authenticate)),
		kindwright.WithLogger(s.log.logger()),
	}, cfg.Options...)
	api, err := kindwright.New(cfg.Backend, options...)
	if err != nil {
		s.closeBackend()
		t.Fatalf("apitest: the server cannot be made:\n%v", err)
	}
	s.API = api
	// The server's life is not that of t.Context(): whoever watches it to its last moment must not lose it first.
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	started := make(chan error)
	go s.owned(ctx, func(ctx context.Context) { started <- api.Start(ctx) })
	if err := <-started; err != nil {
		stop()
		api.Wait()
		s.closeBackend()
		t.Fatalf("apitest: the server cannot be started:\n%v", err)
	}
	s.masters = s.transport(authn.User{Name: "apitest", Groups: []string{authn.GroupMasters}})
	t.Cleanup(s.Close)
	return s
}

// identity is who sends the requests of one Transport. It is in the context of the request, where nothing that comes over
// a wire can put it.
type identity struct{}

// authenticate names the user of a request: that of its Transport, or of its client certificate.
func (s *Server) authenticate(r *http.Request) (authn.User, bool, error) {
	if u, ok := r.Context().Value(identity{}).(authn.User); ok {
		return u, u.Name != "", nil
	}
	return s.tls.authenticate(r)
}

// transport makes a Transport whose requests are a user's.
func (s *Server) transport(u authn.User) *client.Transport {
	t := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.owned(context.WithValue(r.Context(), identity{}, u), func(ctx context.Context) {
			s.API.ServeHTTP(w, r.WithContext(ctx))
		})
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

// As returns a client for a user of these groups, and of system:authenticated. What they may do is up to the authorizers in
// Config.Options; without any, only members of system:masters may do something. An empty user is anonymous.
func (s *Server) As(user string, groups ...string) *http.Client {
	return &http.Client{Transport: s.transport(authn.User{Name: user, Groups: groups})}
}

func (s *Server) closeBackend() {
	if s.backend == nil {
		return
	}
	if err := s.backend.Close(); err != nil {
		s.t.Errorf("apitest: the store did not close: %v", err)
	}
}
