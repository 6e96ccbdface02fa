package egresstest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kindwright/kindwright/egress"
)

// Server is a tunnel server. One that a test has begun with Listen ends with the test.
type Server struct {
	// Address is where it listens: "host:port", or the path of a socket.
	Address string

	listener net.Listener

	mu      sync.Mutex
	asked   []string
	leads   map[string]string
	answer  func(net.Conn)
	open    map[net.Conn]bool
	closed  bool
	serving sync.WaitGroup
}

// Listen makes a tunnel server behind a Unix socket.
func Listen(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "tunnel") // the directory of a test can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return serve(t, "unix", filepath.Join(dir, "s"), nil)
}

// ListenTCP makes a tunnel server at a loopback address. Without a configuration it speaks no TLS.
func ListenTCP(t testing.TB, secure *tls.Config) *Server {
	t.Helper()
	return serve(t, "tcp", "127.0.0.1:0", secure)
}

func serve(t testing.TB, network, address string, secure *tls.Config) *Server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	s := Serve(l)
	t.Cleanup(s.Close)
	return s
}

// Serve makes a tunnel server of a listener. Close it at the end.
func Serve(l net.Listener) *Server {
	s := &Server{Address: l.Addr().String(), listener: l, leads: map[string]string{}, open: map[net.Conn]bool{}}
	s.serving.Go(s.accept)
	return s
}

// Document returns an EgressSelectorConfiguration that sends the traffic of these kinds here, and no other.
func (s *Server) Document(traffic ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n")
	for _, name := range traffic {
		transport := fmt.Sprintf("{tcp: {url: 'http://%s'}}", s.Address)
		if s.listener.Addr().Network() == "unix" {
			transport = fmt.Sprintf("{uds: {udsName: '%s'}}", s.Address)
		}
		_, _ = fmt.Fprintf(&b, "- {name: %s, connection: {proxyProtocol: HTTPConnect, transport: %s}}\n", name, transport)
	}
	return b.String()
}

// Selector returns a selector that sends the traffic of these kinds here, and no other.
func (s *Server) Selector(t testing.TB, traffic ...string) *egress.Selector {
	t.Helper()
	c, err := egress.Parse([]byte(s.Document(traffic...)))
	if err != nil {
		t.Fatal(err)
	}
	made, err := egress.New(c, egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Lead makes connections to one address lead to another one, as if the tunnel server had names of its own.
func (s *Server) Lead(address, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads[address] = to
}

// Answer makes the server treat connections as the function does, which may read or not. They are closed
// after it. Nil stands for the server's own ways.
func (s *Server) Answer(with func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = with
}

// Say is for Answer: the server hears what it is asked, answers with a text, and closes.
func Say(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(c, text)
	}
}

// Endless is for Answer: the head of the server's answer never ends.
func Endless(c net.Conn) {
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	for err == nil {
		_, err = io.WriteString(c, strings.Repeat("X: marked\r\n", 100))
	}
}

// Asked returns where the server was asked to connect, in this order.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Forget empties what Asked returns.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
}

// Close closes the server and all its connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	s.serving.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		if s.keep(c) {
			s.serving.Go(func() {
				defer s.drop(c)
				s.treat(c)
			})
		}
	}
}

// keep notes a connection, which is closed with the server.
func (s *Server) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	s.open[c] = true
	return true
}

func (s *Server) drop(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// treat serves one connection.
func (s *Server) treat(c net.Conn) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(c)
		return
	}
	from := bufio.NewReader(c)
	r, err := http.ReadRequest(from)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Host)
	to, led := s.leads[r.Host]
	s.mu.Unlock()
	if !led {
		to = r.Host
	}
	if r.Method != http.MethodConnect {
		_, _ = io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	if !s.keep(far) {
		return
	}
	defer s.drop(far)
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	both(c, from, far)
}

// both copies in both directions until either ends.
func both(near net.Conn, from io.Reader, far net.Conn) {
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, from)
	_ = far.Close()
	back.Wait()
}
