package remotestore

import (
	"context"
	"errors"
	"net"

	"github.com/kindwright/kindwright/storage"
)

// Shared is a store of this process that is used as several other processes would use it: each handle
// has connections of its own. Make it with [Share].
type Shared struct {
	Handles []storage.Backend
	server  *server
	stop    context.CancelFunc
	served  chan error
}

// Share serves a store on a unix socket, and opens it a number of times. Neither the handles nor Close
// close the store.
func Share(ctx context.Context, path string, handles int, store storage.Backend) (*Shared, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Shared{
		server: newServer(func(string) (storage.Backend, error) { return kept{store}, nil }),
		stop:   stop, served: make(chan error, 1),
	}
	go func() { s.served <- s.server.serveAll(serving, l) }()
	for range handles {
		b, err := Open(ctx, "unix", path, "shared")
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Handles = append(s.Handles, b)
	}
	return s, nil
}

// Cut breaks all connections off. Calls that are under way lose their answers, and may have lost their
// requests. New connections work.
func (s *Shared) Cut() { s.server.cut() }

// Close ends the service. The handles are of no use any more.
func (s *Shared) Close() error {
	s.stop()
	return <-s.served
}

// kept is a store that stays open.
type kept struct{ storage.Backend }

// Close does nothing.
func (kept) Close() error { return nil }
