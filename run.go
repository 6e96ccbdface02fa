package kindwright

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/certfile"
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
	address  string
	listener net.Listener
	tls      *tls.Config
	files    []certfile.Names // serving certificates, the default first

	certificates func() error // why files cannot be used as they are now; nil without files
	clientCAs    func() *x509.CertPool
	listening    func(net.Addr)

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
	// CertFile and KeyFile name the files of the serving certificate and its key, in PEM. They are read
	// again when they change; while they are damaged, the last good certificate is served. The key
	// must belong to the user of the process or to root; Run takes the permissions of users outside
	// of its group away.
	CertFile, KeyFile string

	// SNI are further certificates. A client that asks for a server name gets the first one that is
	// valid for the name. It needs CertFile and KeyFile, for all other clients.
	SNI []KeyPair

	// MinVersion is the least version of TLS, such as [tls.VersionTLS13]. Default and least is 1.2.
	MinVersion uint16

	// CipherSuites are the cipher suites of TLS 1.2. One of them must be
	// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256. Default: those of crypto/tls with forward secrecy
	// and authenticated encryption.
	CipherSuites []uint16

	// Curves are the accepted key exchanges, such as [tls.X25519MLKEM768]. Package crypto/tls has its own
	// order of them. Default: those of crypto/tls.
	Curves []tls.CurveID

	// ClientCAs returns the authorities whose client certificates are accepted now. Run names them in
	// each handshake, so that clients with several certificates know which one to send. Give it the
	// method Authorities of the authenticator, which verifies the certificates. Default: no names.
	ClientCAs func() *x509.CertPool

	// Config replaces the whole configuration. Run raises its minimum version to 1.2. Run also
	// requests a client certificate without requiring one, unless Config says otherwise.
	Config *tls.Config
}

// http2Suites are the cipher suites one of which RFC 9113 (section 9.2.2) requires for TLS 1.2.
var http2Suites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}

// KeyPair names the files of a certificate and of its key, in PEM.
type KeyPair struct {
	CertFile, KeyFile string

	// Names are the server names for which it is served, such as "api.example.com" or "*.example.com".
	// Default: those of the certificate.
	Names []string
}

// filesGiven reports which half of a certificate and its key is missing.
func (t TLS) filesGiven() error {
	for i, p := range append([]KeyPair{{CertFile: t.CertFile, KeyFile: t.KeyFile}}, t.SNI...) {
		field := "TLS"
		if i > 0 {
			field = fmt.Sprintf("TLS.SNI[%d]", i-1)
		}
		switch {
		case p.CertFile == "":
			return fmt.Errorf("%s.CertFile: is missing; a key needs its certificate", field)
		case p.KeyFile == "":
			return fmt.Errorf("%s.KeyFile: is missing; a certificate needs its key", field)
		}
	}
	return nil
}

func (t TLS) applyRun(c *runConfig) error {
	if t.Config != nil {
		if t.CertFile != "" || t.KeyFile != "" || t.SNI != nil || t.MinVersion != 0 || t.CipherSuites != nil ||
			t.Curves != nil || t.ClientCAs != nil {
			return errors.New("TLS: Config, or the other fields; not both")
		}
		c.tls = t.Config.Clone()
		return nil
	}
	if t.CertFile == "" && t.KeyFile == "" {
		if len(t.SNI) > 0 {
			return errors.New("TLS.SNI: CertFile and KeyFile are missing, for clients that ask for another name")
		}
	} else if err := t.filesGiven(); err != nil {
		return err
	} else {
		c.files = []certfile.Names{{Cert: t.CertFile, Key: t.KeyFile}}
		for _, p := range t.SNI {
			c.files = append(c.files, certfile.Names{Cert: p.CertFile, Key: p.KeyFile, Hosts: p.Names})
		}
	}
	if t.MinVersion != 0 && t.MinVersion != tls.VersionTLS12 && t.MinVersion != tls.VersionTLS13 {
		return fmt.Errorf("TLS.MinVersion: %#x must be tls.VersionTLS12 or tls.VersionTLS13", t.MinVersion)
	}
	for i, id := range t.CipherSuites {
		if !slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.ID == id }) {
			return fmt.Errorf("TLS.CipherSuites[%d]: %s is unknown or not secure", i, tls.CipherSuiteName(id))
		}
	}
	if len(t.CipherSuites) > 0 && !slices.ContainsFunc(http2Suites, func(id uint16) bool { return slices.Contains(t.CipherSuites, id) }) {
		return fmt.Errorf("TLS.CipherSuites: HTTP/2 requires %s or %s", tls.CipherSuiteName(http2Suites[0]), tls.CipherSuiteName(http2Suites[1]))
	}
	c.tls = &tls.Config{MinVersion: t.MinVersion, CipherSuites: t.CipherSuites, CurvePreferences: t.Curves}
	c.clientCAs = t.ClientCAs
	return nil
}

// OnListening sets a function that receives the address once the server is ready and accepts
// connections.
func OnListening(f func(net.Addr)) RunOption {
	return runOptionFunc(func(c *runConfig) error { c.listening = f; return nil })
}

// Run starts the server and serves HTTPS until ctx ends. Call Run or Start, not both, and only
// once. The port opens when the server is ready, so that clients that reconnect after a restart
// find their state.
//
// Then Run shuts down in order. /readyz fails and the shutdown delay passes. Watches get a last
// bookmark and end; clients that reconnect within a second are told when to retry. The port closes,
// requests in flight finish, and the background work stops. Run returns nil after an orderly end.
// Source: OPS-02.
func (s *Server) Run(ctx context.Context, opts ...RunOption) error {
	if ctx == nil {
		return errors.New("kindwright: Run: the context is nil")
	}
	cfg := &runConfig{address: "127.0.0.1:6443"}
	for _, o := range opts {
		if o == nil {
			return errors.New("kindwright: an option of Run is nil")
		}
		if err := o.applyRun(cfg); err != nil {
			return fmt.Errorf("kindwright: %w", err)
		}
	}
	if err := cfg.certify(s.cfg.log); err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	if err := s.checkCertificates(cfg.certificates); err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // the engine outlives the requests in flight
	started := make(chan error, 1)
	var starts sync.WaitGroup
	if s.cfg.http.DiscoveryFirst {
		starts.Go(func() { started <- s.start(background) })
	} else {
		if err := s.start(background); err != nil {
			stop()
			return err
		}
		started <- nil
	}
	defer s.Wait()
	defer starts.Wait()
	defer stop()
	listener, err := cfg.listen(ctx, s.cfg.http.OnlyHTTP1)
	if err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	server := s.httpServer(cfg)
	failed := make(chan error, 1)
	s.running.Go(func() { failed <- server.ServeTLS(fairListener{listener}, "", "") })
	if cfg.freeWhenIdle {
		s.running.Go(func() { newIdler().run(background) })
	}
	s.cfg.log.Info("serving", "address", "https://"+listener.Addr().String())
	for {
		select {
		case err := <-started:
			if err != nil {
				_ = server.Close()
				return err
			}
			started = nil
			if cfg.listening != nil {
				cfg.listening(listener.Addr())
			}
		case err := <-failed:
			_ = listener.Close() // ServeTLS may have failed before it took the listener over
			return fmt.Errorf("kindwright: serve: %w", err)
		case <-ctx.Done():
			if started != nil {
				stop() // it would not become ready in time
			}
			return s.shutDown(server)
		}
	}
}

func (c *runConfig) listen(ctx context.Context, onlyHTTP1 bool) (net.Listener, error) {
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
	if c.clientCAs != nil {
		// net/http adds its protocols to the configuration of the server and not to the one for a client.
		c.tls.NextProtos = []string{"h2", "http/1.1"}
		if onlyHTTP1 {
			c.tls.NextProtos = c.tls.NextProtos[1:]
		}
		c.tls.GetConfigForClient = namesAuthorities(c.tls.Clone(), c.clientCAs)
	}
	if c.listener != nil {
		return c.listener, nil
	}
	lc := net.ListenConfig{KeepAlive: acceptKeepAlive}
	return lc.Listen(ctx, "tcp", c.address)
}

// namesAuthorities returns a function for [tls.Config.GetConfigForClient] that adds the authorities of
// now to base. A connection costs no copy while the authorities stay the same.
func namesAuthorities(base *tls.Config, now func() *x509.CertPool) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	var last atomic.Pointer[tls.Config]
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool := now()
		if c := last.Load(); c != nil && c.ClientCAs == pool {
			return c, nil
		}
		c := base.Clone()
		c.ClientCAs = pool
		last.Store(c)
		return c, nil
	}
}

// certify finds the serving certificate.
func (c *runConfig) certify(log logr.Logger) error {
	if c.tls == nil {
		c.tls = &tls.Config{}
	}
	switch {
	case len(c.files) > 0:
		files, err := certfile.Open(func(err error) { log.Error(err, "failed to read a renewed certificate; still serving the last one") }, c.files...)
		if err != nil {
			return fmt.Errorf("TLS.CertFile, TLS.KeyFile or TLS.SNI: %w", err)
		}
		c.tls.GetCertificate, c.certificates = files.Certificate, files.Healthy
	case len(c.tls.Certificates) == 0 && c.tls.GetCertificate == nil && c.tls.GetConfigForClient == nil:
		host, _, err := net.SplitHostPort(c.address)
		if err != nil {
			return err
		}
		pair, err := selfsigned.Certificate(host)
		if err != nil {
			return fmt.Errorf("make a serving certificate: %w", err)
		}
		c.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// checkCertificates adds a check to /healthz alone: the last good certificate is in use, so nothing
// is gained by a restart, or without this server.
func (s *Server) checkCertificates(healthy func() error) error {
	if healthy == nil {
		return nil
	}
	return s.health.Add(health.Health, health.Check{Name: "serving-certificate", Check: func(context.Context) error { return healthy() }})
}

func (s *Server) httpServer(cfg *runConfig) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!s.cfg.http.OnlyHTTP1)
	return &http.Server{
		Handler:                      s.load.counted(s),
		TLSConfig:                    cfg.tls,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  idleTimeout,
		WriteTimeout:                 s.cfg.http.RequestTimeout + answerTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is parsed and rejected like any request
		ErrorLog:                     s.connectionLog(),
		ConnContext:                  s.load.open,
		ConnState:                    s.load.changed,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: cmp.Or(s.cfg.http.MaxStreams, maxStreams),
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
	if s.cfg.http.RetryAfterShutdown {
		s.refusal.begin()
	}
	s.drain()
	s.reconnects.wait() // while the port is open
	if s.cfg.http.RetryAfterShutdown {
		s.refusal.wait(drainTimeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	var closing sync.WaitGroup
	closing.Go(func() { s.load.closeUnanswered(ctx) })
	err := server.Shutdown(ctx)
	cancel()
	closing.Wait()
	if err != nil {
		stacks := make([]byte, 256<<10)
		s.cfg.log.Error(err, "requests were still running when the server stopped", "stacks", string(stacks[:runtime.Stack(stacks, true)]))
		_ = server.Close()
		return fmt.Errorf("kindwright: some requests were still running when the server stopped: %w", err)
	}
	return nil
}
