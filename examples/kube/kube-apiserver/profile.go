package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/profile"
)

// socketHeaderTimeout bounds how long a client of the socket may take to say what it wants.
const socketHeaderTimeout = 10 * time.Second

// profiles starts what --contention-profiling and --debug-socket-path ask for, and returns what ends it.
func (o *options) profiles(ctx context.Context, log logr.Logger) (end func() error, err error) {
	if o.contention && o.profiling {
		runtime.SetBlockProfileRate(1)
	}
	if o.debugSocket == "" {
		return func() error { return nil }, nil
	}
	if err := removeSocket(o.debugSocket); err != nil {
		return nil, fmt.Errorf("--debug-socket-path: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", o.debugSocket)
	if err != nil {
		return nil, fmt.Errorf("--debug-socket-path: %w", err)
	}
	if err := os.Chmod(o.debugSocket, 0o600); err != nil { // nobody else is asked who they are
		return nil, errors.Join(fmt.Errorf("--debug-socket-path: %w", err), listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		profile.Serve(w, r, strings.TrimPrefix(r.URL.Path, "/debug/pprof/"))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: socketHeaderTimeout}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(err, "the socket with the profiles is served no longer")
		}
	}()
	return func() error {
		err := server.Close() // removes the socket
		<-ended
		return err
	}, nil
}

// removeSocket removes the socket that a server which was killed has left behind, and nothing else.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is no socket", path)
	}
	return os.Remove(path)
}
