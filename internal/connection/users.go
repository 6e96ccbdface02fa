package connection

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/status"
)

// Users are the users of a connection file, by the names of the servers to which they prove who asks.
type Users struct {
	named    map[string]*Credential
	fallback *Credential // of the current context, nil for none
}

// Credential is how a user proves who it is.
type Credential struct {
	authorize func(*http.Request) error // nil: no header
	loader    loader
	last      atomic.Pointer[tls.Certificate] // the last one that could be read
}

// ReadUsers reads the users of a connection file. Paths in it are relative to the file. Credential
// plugins (exec) are rejected: they are told about one server, and these users meet many.
//
// Tokens, certificates and keys that are in files of their own are read again for each request or each
// connection; while that is not possible, the last good ones count.
func ReadUsers(path string) (*Users, error) {
	document, err := files.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("connection file: %w", err)
	}
	u, err := parseUsers(document, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("connection file %s: %w", path, err)
	}
	return u, nil
}

func parseUsers(document []byte, dir string) (*Users, error) {
	d, err := config.ReadUntyped(document)
	if err != nil {
		return nil, err
	}
	var file kubeconfig
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	out, f := &Users{named: map[string]*Credential{}}, &status.Fields{}
	for i, e := range file.Users {
		at := f.At("users").Index(i)
		if out.named[e.Name] != nil {
			continue // which checkEntries says
		}
		c := &Credential{loader: loader{dir: dir, userAt: at.Child("user")}}
		e.fill(f, c.loader.userAt, "user", &c.loader.user)
		c.check(f)
		c.authorize = c.loader.authorize()
		out.named[e.Name] = c
	}
	file.checkEntries(f)
	if file.Current != "" {
		var with kubeContext
		find(f, "contexts", "context", file.Current, file.Contexts, &with)
		if out.fallback = out.named[with.User]; out.fallback == nil && with.User != "" {
			f.At("users").NotFound(with.User)
		}
	}
	return out, config.Problems(f.Errors())
}

// check rejects what contradicts itself, and files that cannot be read now.
func (c *Credential) check(f *status.Fields) {
	if f.Len() > 0 {
		return
	}
	if c.loader.user.Exec != nil {
		c.loader.userAt.Child("exec").Forbidden("credential plugins cannot be used here")
		return
	}
	c.loader.cluster.Server = "https://server" // there is none in particular
	c.loader.serverAt = c.loader.userAt
	c.loader.check(f)
}

// For returns the credential for a server, nil for none: that of the user with its name as it stands in
// an address, of "*." and a part of the name that ends it, of the same without the port if that is 443,
// of "*", and of the current context.
func (u *Users) For(host string) *Credential {
	if u == nil {
		return nil
	}
	names := []string{host}
	if name, port, err := net.SplitHostPort(host); err == nil && port == "443" {
		names = append(names, name)
	}
	for _, name := range names {
		for at := name; ; {
			if c := u.named[at]; c != nil {
				return c
			}
			_, rest, ok := strings.Cut(strings.TrimPrefix(at, "*."), ".")
			if !ok {
				break
			}
			at = "*." + rest
		}
	}
	if c := u.named["*"]; c != nil {
		return c
	}
	return u.fallback
}

// Authorize adds a token or a password to a request, if the user has one.
func (c *Credential) Authorize(r *http.Request) error {
	if c.authorize == nil {
		return nil
	}
	return c.authorize(r)
}

// Certificate returns the certificate of the user for a handshake, an empty one if it has none.
func (c *Credential) Certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	now, err := c.loader.tls()
	switch last := c.last.Load(); {
	case err == nil && len(now.Certificates) > 0:
		c.last.Store(&now.Certificates[0])
		return &now.Certificates[0], nil
	case err == nil:
		return &tls.Certificate{}, nil
	case last != nil:
		return last, nil
	}
	return nil, errors.New("the client certificate cannot be read")
}
