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

// The time limits of Run's HTTP server. They concern connections: HTTP.RequestTimeout bounds
// requests, and streams are bounded per write.
const (
	headerTimeout   = 10 * time.Second // TLS handshake and request header (H4, H5)
	idleTimeout     = 2 * time.Minute  // a connection without requests
	pingAfter       = 30 * time.Second // HTTP/2: a silent peer gets a ping (rule 19) …
	pingTimeout     = 15 * time.Second // … and is disconnected without an answer after this
	writeByteAfter  = 20 * time.Second // HTTP/2: a connection that accepts no byte for this long is dead
	drainTimeout    = 65 * time.Second // requests in flight when the server stops: they are bounded by a minute
	maxStreams      = 250              // HTTP/2: at once on one connection
	maxHeaderBytes  = 1<<20 - 4<<10    // H7; net/http adds 4 KiB
	answerTimeout   = 30 * time.Second // after the deadline of a request; lists and streams set their own
	acceptKeepAlive = 30 * time.Second // TCP: detects clients that vanished
)

// RunOption says how Run listens. The functions Listen, ListenOn, OnListening and
// FreeMemoryWhenIdle make one, and the value TLS is one.
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

// ListenOn serves on the caller's listener. Run closes it.
func ListenOn(l net.Listener) RunOption {
	return runOptionFunc(func(c *runConfig) error {
		if l == nil {
			return errors.New("ListenOn: the listener is nil")
		}
		c.listener = l
		return nil
	})
}

// TLS says how connections are encrypted. The zero value stands for a self-signed certificate for
// localhost and the address, made at start. Clients must be told to trust it.
type TLS struct {
	// CertFile and KeyFile name the files of the serving certificate and its key, in PEM.
	CertFile, KeyFile string

	// Config replaces the whole configuration. Run raises its minimum version to 1.2. Run also
	// requests a client certificate without requiring one, unless Config says otherwise.
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

// OnListening sets a function that receives the address once the server is ready and accepts
// connections.
func OnListening(f func(net.Addr)) RunOption {
	return runOptionFunc(func(c *runConfig) error { c.listening = f; return nil })
}

// Run starts the server and serves HTTPS until ctx ends. Call Run or Start, not both, and only
// once. The port opens when the server is ready, so that clients that reconnect after a restart
// find their state (design rule 18).
//
// Then Run shuts down in order (OPS-02). /readyz fails and the shutdown delay passes. Watches get a
// last bookmark and end; clients that reconnect within a second are told when to retry. The port
// closes, requests in flight finish, and the background work stops. Run returns nil after an
// orderly end.
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
	s.cfg.log.Info("serving", "address", "https://"+listener.Addr().String())
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
		c.tls.ClientAuth = tls.RequestClientCert // package authn/x509 verifies the certificate
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
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is parsed and rejected like any request
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
	s.reconnects.begin()
	s.drain()
	s.reconnects.wait() // while the port is open
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
