package kindwright

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

// The time limits of Run's HTTP server. Requests are bounded by HTTP.RequestTimeout, streams per write; these are about
// connections.
const (
	headerTimeout   = 10 * time.Second // TLS handshake and request header (H4, H5)
	idleTimeout     = 2 * time.Minute  // a connection without requests
	pingAfter       = 30 * time.Second // HTTP/2: a silent peer is asked whether it is alive (rule 19) …
	pingTimeout     = 15 * time.Second // … and given up after so long
	writeByteAfter  = 20 * time.Second // HTTP/2: a connection that takes no byte for so long is dead
	drainTimeout    = 65 * time.Second // requests in flight when the server stops: they are bounded by a minute
	maxStreams      = 250              // HTTP/2: at once on one connection
	maxHeaderBytes  = 1<<20 - 4<<10    // H7; net/http adds 4 KiB
	answerTimeout   = 30 * time.Second // beyond the deadline of a request: its answer has left by then; lists and streams set their own
	acceptKeepAlive = 30 * time.Second // TCP: notices clients that vanished without a word
)

// RunOption says how Run listens: Listen, ListenOn, OnListening and FreeMemoryWhenIdle, and the value
// TLS.
type RunOption interface {
	applyRun(c *runConfig) error
}

// runOptionFunc is a RunOption that a function makes.
type runOptionFunc func(*runConfig) error

func (f runOptionFunc) applyRun(c *runConfig) error { return f(c) }

type runConfig struct {
	address   string
	listener  net.Listener
	tls       *tls.Config
	listening func(net.Addr)

	freeWhenIdle bool
}

// Listen sets the TCP address to listen on, such as ":6443"; port 0 picks a free one. Default "127.0.0.1:6443".
func Listen(address string) RunOption {
	return runOptionFunc(func(c *runConfig) error {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("Listen: %w", err)
		}
		c.address = address
		return nil
	})
}

// ListenOn serves on a listener of the caller's. Run closes it.
func ListenOn(l net.Listener) RunOption {
	return runOptionFunc(func(c *runConfig) error {
		if l == nil {
			return errors.New("ListenOn: the listener is nil")
		}
		c.listener = l
		return nil
	})
}

// TLS is how connections are encrypted. Its zero value stands for a certificate made at start for
// localhost and the address, signed by itself, which clients must be told to trust.
type TLS struct {
	// CertFile and KeyFile name the files of the serving certificate and its key, in PEM.
	CertFile, KeyFile string

	// Config is the whole configuration instead. Run raises its minimum version to 1.2. It also
	// asks clients for a certificate, without insisting, unless Config says otherwise.
	Config *tls.Config
}

func (t TLS) applyRun(c *runConfig) error {
	if t.CertFile == "" && t.KeyFile == "" {
		if t.Config != nil {
			c.tls = t.Config.Clone()
		}
		return nil
	}
	if t.Config != nil {
		return errors.New("TLS: CertFile and KeyFile, or Config; not both")
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return fmt.Errorf("TLS.CertFile, TLS.KeyFile: %w", err)
	}
	c.tls = &tls.Config{Certificates: []tls.Certificate{pair}}
	return nil
}

// OnListening sets a function that is told the address once the server is ready and connections are accepted.
func OnListening(f func(net.Addr)) RunOption {
	return runOptionFunc(func(c *runConfig) error { c.listening = f; return nil })
}

// Run calls Start, so call one of the two, once. It serves HTTPS until ctx ends, and shuts down in order: /readyz fails, the
// shutdown delay passes, watches get a last bookmark and end, clients that come back for them within a second are told when
// to try again, no connection is accepted any more, requests in flight finish, the background work stops (OPS-02). It
// returns nil after an orderly end. The port is opened only once the server is ready, so that clients that come back after
// a restart find their state (design rule 18).
func (s *Server) Run(ctx context.Context, opts ...RunOption) error {
	cfg := &runConfig{address: "127.0.0.1:6443"}
	for _, o := range opts {
		if o == nil {
			return errors.New("kindwright: an option of Run is nil")
		}
		if err := o.applyRun(cfg); err != nil {
			return fmt.Errorf("kindwright: %w", err)
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // the engine outlives the requests in flight
	if err := s.start(background); err != nil {
		stop()
		return err
	}
	defer s.Wait()
	defer stop()
	listener, err := cfg.listen(ctx)
	if err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	server := s.httpServer(cfg)
	failed := make(chan error, 1)
	s.running.Go(func() { failed <- server.ServeTLS(listener, "", "") })
	if cfg.freeWhenIdle {
		s.running.Go(func() { newIdler().run(background) })
	}
	if cfg.listening != nil {
		cfg.listening(listener.Addr())
	}
	select {
	case err := <-failed:
		return fmt.Errorf("kindwright: serve: %w", err)
	case <-ctx.Done():
	}
	return s.shutDown(server)
}

func (c *runConfig) listen(ctx context.Context) (net.Listener, error) {
	if c.tls == nil {
		host, _, err := net.SplitHostPort(c.address)
		if err != nil {
			return nil, err
		}
		pair, err := selfsigned.Certificate(host)
		if err != nil {
			return nil, fmt.Errorf("make a serving certificate: %w", err)
		}
		c.tls = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	if c.tls.MinVersion < tls.VersionTLS12 {
		c.tls.MinVersion = tls.VersionTLS12 // A12
	}
	if c.tls.CipherSuites == nil {
		for _, suite := range tls.CipherSuites() {
			if !strings.Contains(suite.Name, "_CBC_") && strings.Contains(suite.Name, "_ECDHE_") {
				c.tls.CipherSuites = append(c.tls.CipherSuites, suite.ID)
			}
		}
	}
	if c.tls.ClientAuth == tls.NoClientCert {
		c.tls.ClientAuth = tls.RequestClientCert // package authn/x509 decides what a certificate is worth
	}
	if c.listener != nil {
		return c.listener, nil
	}
	lc := net.ListenConfig{KeepAlive: acceptKeepAlive}
	return lc.Listen(ctx, "tcp", c.address)
}

func (s *Server) httpServer(cfg *runConfig) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler:                      s,
		TLSConfig:                    cfg.tls,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  idleTimeout,
		WriteTimeout:                 s.cfg.http.RequestTimeout + answerTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is parsed and refused like anything else
		ErrorLog:                     s.connectionLog(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
			WriteByteTimeout:     writeByteAfter,
		},
	}
}

// shutDown ends an HTTP server in order.
func (s *Server) shutDown(server *http.Server) error {
	s.health.ShutDown()
	if delay := s.cfg.http.ShutdownDelay; delay > 0 {
		time.Sleep(delay)
	}
	s.farewell.begin()
	s.drain()
	s.farewell.wait() // while the port is open
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		stacks := make([]byte, 256<<10)
		s.cfg.log.Error(err, "requests were still running when the server stopped", "stacks", string(stacks[:runtime.Stack(stacks, true)]))
		_ = server.Close()
		return fmt.Errorf("kindwright: some requests were still running when the server stopped: %w", err)
	}
	return nil
}
