package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/process"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// stopTime is how long a child may take to stop gracefully.
const stopTime = 20 * time.Second

// Identity is shared by all children of a run: the certificate, so that TLS costs the same for
// each, and the token.
type Identity struct {
	Token     string
	cert, key []byte
	roots     *x509.CertPool
}

// NewIdentity creates a certificate for 127.0.0.1.
func NewIdentity(token string) (*Identity, error) {
	authority, err := selfsigned.NewAuthority("bench")
	if err != nil {
		return nil, err
	}
	pair, err := authority.Serving("127.0.0.1")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate())
	return &Identity{Token: token, cert: pair.Cert, key: pair.Key, roots: roots}, nil
}

// TLS returns the configuration of clients.
func (id *Identity) TLS() *tls.Config {
	return &tls.Config{RootCAs: id.roots, MinVersion: tls.VersionTLS12}
}

// Serving returns the configuration of the servers.
func (id *Identity) Serving() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(id.cert, id.key)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, err
}

// Child is a server in its own process.
type Child struct {
	URL       string        // of the API
	Processes process.Group // the one process

	control   string
	cmd       *exec.Cmd
	in        io.Closer
	directory string
	client    *http.Client
}

// Start starts a child with an empty store and returns once it serves. The store is in a new
// directory below parent, or below the system's temporary directory if parent is "". Faults only
// apply to the backend Limit.
func Start(ctx context.Context, id *Identity, backend Backend, parent string, faults limit.Faults) (_ *Child, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{client: &http.Client{Transport: &http.Transport{}}}
	if c.directory, err = os.MkdirTemp(parent, "kindwright-bench-"); err != nil {
		return nil, err
	}
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), self) // Stop ends it gracefully
	c.cmd.Env = append(os.Environ(), childVariable+"=1")
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.directory))
	}
	var at listening
	err = json.NewEncoder(in).Encode(order{backend, c.directory, id.cert, id.key, id.Token, faults})
	if err == nil {
		err = json.NewDecoder(out).Decode(&at)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the %s server did not start: %w", backend, err), c.Stop())
	}
	c.URL, c.control = "https://"+at.Address, "http://"+at.Control
	c.Processes = process.Group{c.cmd.Process.Pid}
	return c, nil
}

// Stop stops the child and removes its store. A child that does not stop gracefully within 20
// seconds is killed, which is an error.
func (c *Child) Stop() error {
	c.client.CloseIdleConnections()
	_ = c.in.Close() // asks it to stop
	kill := time.AfterFunc(stopTime, func() { _ = c.cmd.Process.Kill() })
	err := c.cmd.Wait()
	kill.Stop()
	if err != nil {
		err = fmt.Errorf("stop the server: %w", err)
	}
	return errors.Join(err, os.RemoveAll(c.directory))
}

// LiveHeap runs the child's garbage collector, returns free memory to the system, and reports the
// bytes of heap in use.
func (c *Child) LiveHeap(ctx context.Context) (int64, error) {
	text, err := c.ask(ctx, "/collect")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// StartProfile begins a CPU profile of the child.
func (c *Child) StartProfile(ctx context.Context) error {
	_, err := c.ask(ctx, "/profile/start")
	return err
}

// StopProfile ends the profile and returns it in the format of go tool pprof.
func (c *Child) StopProfile(ctx context.Context) ([]byte, error) { return c.ask(ctx, "/profile/stop") }

// HeapProfile runs the child's garbage collector and returns a heap profile in the format of go
// tool pprof.
func (c *Child) HeapProfile(ctx context.Context) ([]byte, error) { return c.ask(ctx, "/heap") }

func (c *Child) ask(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.control+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, res.StatusCode, body)
	}
	return body, err
}
