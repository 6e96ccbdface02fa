package interop

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

var realKubectl = flag.String("kubectl", "", "a kubectl, 1.31 or newer: run that, over TLS, instead of kubectl's code in this process")

// inProcess is a server of package apitest: no port, and the store in memory.
type inProcess struct {
	db     storage.Backend
	kinds  []registry.Definition
	access []authz.Authorizer
	tokens *token.File
	server *apitest.Server
	door   *door // on the server's side; nil if it is on the clients'

	admin, nobody atomic.Pointer[http.Client] // of the running server; nil while it is stopped
}

func serveInProcess(t *testing.T) *server { return serveKinds(t) }

// serveKinds serves additional kinds besides those of every server.
func serveKinds(t *testing.T, more ...registry.Definition) *server {
	t.Helper()
	return serveWith(t, nil, more...)
}

// serveWith has further authorizers, too.
func serveWith(t *testing.T, access []authz.Authorizer, more ...registry.Definition) *server {
	t.Helper()
	dir := t.TempDir()
	p := &inProcess{db: memory.New(), kinds: append(definitions(), more...), access: access}
	t.Cleanup(func() { require.NoError(t, p.db.Close()) })
	var err error
	p.tokens, err = token.Open(writeFile(t, dir, "tokens.csv", tokens))
	require.NoError(t, err)
	d := &door{}
	if *realKubectl != "" {
		p.door = d
	}
	p.start(t)
	reach := func(c *rest.Config) *rest.Config {
		c.Transport = reaching(&p.admin)
		if c.BearerToken != "" {
			c.Transport = reaching(&p.nobody)
		}
		if p.door == nil {
			c.Wrap(d.wrap)
		}
		return c
	}
	s := &server{Config: reach(&rest.Config{Host: p.server.URL, QPS: -1}), door: d, life: p, reach: reach}
	if p.door != nil {
		s.kubeconfig = p.kubeconfig(t, dir)
		return s
	}
	host := strings.Replace(p.server.URL, "http:", "https:", 1) // kubectl sends no token to a server without TLS
	s.kubeconfig = writeFile(t, dir, "kubeconfig", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": %q}}], "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, host))
	return s
}

// kubeconfig writes a file with which another program can reach the server.
func (p *inProcess) kubeconfig(t *testing.T, dir string) string {
	t.Helper()
	e := p.server.ListenTLS()
	cert, key, err := e.Certificate("admin", authn.GroupMasters)
	require.NoError(t, err)
	text := base64.StdEncoding.EncodeToString
	return writeFile(t, dir, "kubeconfig", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
"users": [{"name": "u", "user": {"client-certificate-data": %q, "client-key-data": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`,
		e.URL, text(e.CA), text(cert), text(key)))
}

// reaching sends requests to the running server.
func reaching(c *atomic.Pointer[http.Client]) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if present := c.Load(); present != nil {
			return present.Transport.RoundTrip(r)
		}
		return nil, errors.New("the server is stopped")
	})
}

func (p *inProcess) start(t *testing.T) {
	t.Helper()
	options := []kindwright.Option{kindwright.Authenticate(p.tokens), kindwright.Authorize(p.access...)}
	if p.door != nil {
		options = append(options, kindwright.Before("authenticate", p.door.handle))
	}
	p.server = apitest.Config{Backend: p.db, Options: options}.New(t, p.kinds...)
	p.admin.Store(p.server.As("admin", authn.GroupMasters))
	p.nobody.Store(p.server.As(""))
}

func (p *inProcess) stop(*testing.T) {
	p.admin.Store(nil)
	p.nobody.Store(nil)
	p.server.Close()
}

func (p *inProcess) withStore(_ *testing.T, f func(storage.Backend)) { f(p.db) }

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	return path
}
