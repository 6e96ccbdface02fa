package apitest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/kindwright/kindwright/authn"
	certs "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// Endpoint is a port of the server and what a client needs to reach it. For client-go:
//
//	rest.Config{Host: e.URL, TLSClientConfig: rest.TLSClientConfig{CAData: e.CA, CertData: e.Cert, KeyData: e.Key}}
type Endpoint struct {
	URL  string // https://127.0.0.1:port
	CA   []byte // PEM: the authority of the serving certificate
	Cert []byte // PEM: a client certificate of a member of system:masters
	Key  []byte // PEM: its key

	authority *selfsigned.Authority
}

// tlsState is the state of ListenTLS.
type tlsState struct {
	mu          sync.Mutex // guards the fields below
	endpoint    *Endpoint
	server      *http.Server
	connections sync.WaitGroup // and the listener
}

// ListenTLS opens a port on the loop-back address, for other programs and for clients that need a
// connection. A second call returns the same Endpoint. Real connections do not work with virtual
// time: in a synctest bubble a read from one is not "durably blocked", so time stops until it
// returns.
func (s *Server) ListenTLS() *Endpoint {
	s.t.Helper()
	s.tls.mu.Lock()
	defer s.tls.mu.Unlock()
	if s.tls.endpoint != nil {
		return s.tls.endpoint
	}
	e, err := s.listen()
	if err != nil {
		s.t.Fatalf("apitest: ListenTLS: %v", err)
	}
	s.tls.endpoint = e
	return e
}

func (s *Server) listen() (*Endpoint, error) {
	authority, err := selfsigned.NewAuthority("apitest")
	if err != nil {
		return nil, err
	}
	serving, err := authority.Serving()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate())
	certificates, err := certs.New(pool)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{CA: authority.PEM(), authority: authority}
	e.Cert, e.Key, err = e.Certificate("apitest", authn.GroupMasters)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e.URL = "https://" + listener.Addr().String()
	s.tls.server = &http.Server{
		Handler:   s.handler(certificates),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
		ErrorLog:  slog.NewLogLogger(s.log.connections(), slog.LevelInfo),
		ConnState: s.tls.count,
	}
	s.tls.connections.Go(func() {
		s.own(context.Background(), func(context.Context) { _ = s.tls.server.ServeTLS(listener, "", "") }) // ends with Close
	})
	return e, nil
}

// Certificate signs a client certificate, in PEM, for a user of these groups.
func (e *Endpoint) Certificate(user string, groups ...string) (cert, key []byte, err error) {
	pair, err := e.authority.Client(user, groups...)
	return pair.Cert, pair.Key, err
}

// count tracks the goroutines that net/http starts, one for each connection.
func (s *tlsState) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.connections.Done()
	}
}

// close closes the port and waits for its connections.
func (s *tlsState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return
	}
	_ = s.server.Close()
	s.connections.Wait()
}
