package etcdtest

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy passes connections on to one address until it is told to stall. It stands for a network.
type Proxy struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	changed *sync.Cond
	stalled bool
	mute    bool // only requests pass
	deaf    bool // only answers pass
	delay   time.Duration
	lost    string // the sender whose traffic is lost; "" is none
	conns   map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

// link is one connection through a proxy. Its fields belong to the proxy's lock.
type link struct {
	in, out net.Conn
	from    string // who dialed, as members of etcd say in the first request; "" for others
}

// NewProxy starts a proxy to an address, which ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Stall keeps connections open and passes nothing on, as a network does that loses all packets.
func (p *Proxy) Stall() { p.set(true, false, "") }

// Mute passes requests on and holds answers back.
func (p *Proxy) Mute() { p.set(false, true, "") }

// Deafen holds requests back and passes answers on.
func (p *Proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

// Slow lets everything arrive that much later, piece by piece.
func (p *Proxy) Slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Lose stalls only the connections that one member of etcd made, whose id is given.
func (p *Proxy) Lose(member uint64) { p.set(false, false, strconv.FormatUint(member, 16)) }

// Resume ends Stall, Mute, Deafen, Slow and Lose: what was held back arrives.
func (p *Proxy) Resume() { p.set(false, false, "") }

func (p *Proxy) set(stalled, mute bool, lost string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled, p.mute, p.lost, p.deaf, p.delay = stalled, mute, lost, false, 0
	p.changed.Broadcast()
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
		if l := (&link{in: in, out: out}); p.keep(l) {
			p.running.Go(func() { p.pass(l, in, out) })
			p.running.Go(func() { p.pass(l, out, in) })
		}
	}
}

// keep remembers a connection until it ends, unless the proxy has.
func (p *Proxy) keep(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = l.in.Close(), l.out.Close()
		return false
	}
	p.conns[l.in], p.conns[l.out] = true, true
	return true
}

// pass copies one direction of a connection.
func (p *Proxy) pass(l *link, from, to net.Conn) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = from.Close(), to.Close()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buffer := make([]byte, 32<<10)
	for first := from == l.in; ; first = false {
		n, err := from.Read(buffer)
		if first {
			p.name(l, buffer[:n])
		}
		p.wait(l, from == l.out)
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

// sender begins the header with which members of etcd say who they are.
var sender = []byte("X-Server-From: ")

// name finds out who dialed from the beginning of the first request.
func (p *Proxy) name(l *link, request []byte) {
	_, rest, found := bytes.Cut(request, sender)
	if id, _, ended := bytes.Cut(rest, []byte("\r\n")); found && ended {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.from = string(id)
	}
}

// wait returns once traffic of a connection may go on.
func (p *Proxy) wait(l *link, answer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delay := p.delay; delay > 0 {
		p.mu.Unlock()
		time.Sleep(delay)
		p.mu.Lock()
	}
	for !p.closed && (p.stalled || p.mute && answer || p.deaf && !answer || p.lost != "" && p.lost == l.from) {
		p.changed.Wait()
	}
}
