package remotestore

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// server offers stores.
type server struct {
	open func(name string) (storage.Backend, error)

	mu     sync.Mutex
	stores map[string]*shared
	conns  map[*conn]struct{}
	ended  bool
}

// shared is a store that connections use.
type shared struct {
	storage.Backend
	users int
}

// Serve offers stores to the connections that l accepts, until ctx ends. It opens a store for the
// first connection that names it, and closes it with the last one. It returns when every connection
// has ended.
func Serve(ctx context.Context, l net.Listener, open func(name string) (storage.Backend, error)) error {
	return newServer(open).serveAll(ctx, l)
}

func newServer(open func(name string) (storage.Backend, error)) *server {
	return &server{open: open, stores: map[string]*shared{}, conns: map[*conn]struct{}{}}
}

func (s *server) serveAll(ctx context.Context, l net.Listener) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(ctx, func() {
		_ = l.Close() // Accept says so
		s.end()
	})()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		running.Go(func() { s.serve(ctx, newConn(c)) })
	}
}

// end closes every connection for good.
func (s *server) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cut()
}

// cut closes every connection there is.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // its reader notices
	}
}

// serve answers one connection. A connection that breaks has nobody left to tell.
func (s *server) serve(ctx context.Context, c *conn) {
	defer func() { _ = c.Close() }()
	var h hello
	if !s.enter(c) || c.in.Decode(&h) != nil {
		s.leave(c, "")
		return
	}
	b, err := s.use(h.Name)
	if err != nil {
		s.leave(c, "")
		_ = c.out.Encode(&answer{Err: faultOf(err)})
		return
	}
	defer s.leave(c, h.Name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		var r request
		if c.in.Decode(&r) != nil {
			return
		}
		if r.Op == opWatch {
			watch(ctx, c, b, &r)
			return
		}
		a := perform(ctx, b, &r)
		if c.out.Encode(&a) != nil {
			return
		}
	}
}

func (s *server) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return !s.ended
}

func (s *server) use(name string) (storage.Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.stores[name]
	if b == nil {
		opened, err := s.open(name)
		if err != nil {
			return nil, err
		}
		b = &shared{Backend: opened}
		s.stores[name] = b
	}
	b.users++
	return b.Backend, nil
}

func (s *server) leave(c *conn, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	b := s.stores[name]
	if b == nil {
		return
	}
	if b.users--; b.users == 0 {
		delete(s.stores, name)
		_ = b.Close() // what it had acknowledged is kept
	}
}

func perform(ctx context.Context, b storage.Backend, r *request) (a answer) {
	var err error
	switch r.Op {
	case opGet:
		a.Record, err = b.Get(ctx, r.Key)
	case opList:
		a.Page, err = b.List(ctx, r.List)
	case opCommit:
		a.Revision, err = b.Commit(ctx, r.Ops)
	case opHistory:
		a.History, err = b.History(ctx, r.History)
	case opRevision:
		a.Revision, err = b.Revision(ctx)
	case opSync:
		a.Revision, err = b.Sync(ctx, r.Key)
	case opCompact:
		err = b.Compact(ctx, r.At)
	case opLimits:
		a.Limits = b.Limits()
	default:
		err = errors.New("unknown call " + string(r.Op))
	}
	a.Err = faultOf(err)
	return a
}

// watch answers the requests of one watch: each names a revision, and the answer has everything up
// to there.
func watch(ctx context.Context, c *conn, b storage.Backend, r *request) {
	next, stop := iter.Pull2(b.Watch(ctx, r.Key, r.At))
	defer stop()
	reached := r.At
	for {
		var want request
		if c.in.Decode(&want) != nil {
			return
		}
		var a answer
		_, err := b.Sync(ctx, r.Key)
		for err == nil && reached < want.At {
			batch, failed, ok := next()
			if !ok {
				err = errors.New("the watch has ended")
				break
			}
			if err = failed; err == nil {
				a.Batches = append(a.Batches, batch)
				reached = batch.Revision
			}
		}
		a.Err = faultOf(err)
		if c.out.Encode(&a) != nil || err != nil {
			return
		}
	}
}
