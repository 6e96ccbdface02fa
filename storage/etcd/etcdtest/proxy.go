package etcdtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy passes connections on to one address until it is told to stall. It stands for a network.
type Proxy struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	stalled chan struct{} // closed when traffic may go on; nil if it may
	conns   map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

// NewProxy starts a proxy to an address, which ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Stall keeps connections open and passes nothing on, as a network does that loses all packets.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// Resume ends Stall: what was held back arrives.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// Cut breaks all connections off. New ones may come at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Resume()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		if p.keep(in, out) {
			p.running.Go(func() { p.pass(in, out) })
			p.running.Go(func() { p.pass(out, in) })
		}
	}
}

// keep remembers a connection until it ends, unless the proxy has.
func (p *Proxy) keep(in, out net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = in.Close(), out.Close()
		return false
	}
	p.conns[in], p.conns[out] = true, true
	return true
}

// pass copies one direction of a connection.
func (p *Proxy) pass(from, to net.Conn) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = from.Close(), to.Close()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.wait()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns once traffic may go on.
func (p *Proxy) wait() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}
