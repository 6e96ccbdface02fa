package certfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/files"
)

// Names are the files of a certificate, with its intermediates, and of its key, in PEM. Hosts are
// the server names for which it is served, if not those of the certificate.
type Names struct {
	Cert, Key string
	Hosts     []string
}

// Files serves certificates from files. Its methods are safe for concurrent use.
type Files struct {
	pairs []*pair // the first is the default
}

// pair is one certificate.
type pair struct {
	names  Names
	cert   atomic.Pointer[tls.Certificate]
	follow *files.Follower
}

// Open reads every pair of files, the default first. A client that asks for a server name gets the
// first other certificate that is for the name. failed is told when changed files cannot be
// read; the last good certificate then stays in use.
func Open(failed func(error), names ...Names) (*Files, error) {
	f := &Files{}
	var problems []error
	for _, n := range names {
		p := &pair{names: n}
		var err error
		p.follow, err = files.Follow(p.read, failed, n.Cert, n.Key)
		problems = append(problems, err)
		f.pairs = append(f.pairs, p)
	}
	return f, errors.Join(problems...)
}

// Certificate is for [tls.Config.GetCertificate].
func (f *Files) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	for _, p := range f.pairs {
		p.follow.Look()
	}
	if name := strings.TrimSuffix(hello.ServerName, "."); name != "" {
		for _, p := range f.pairs[1:] {
			if p.serves(name) {
				return p.cert.Load(), nil
			}
		}
	}
	return f.pairs[0].cert.Load(), nil
}

// Healthy looks at the files, and returns why some cannot be used as they are now, or nil. The last
// good certificates are in use then.
func (f *Files) Healthy() error {
	var problems []error
	for _, p := range f.pairs {
		problems = append(problems, p.follow.Healthy())
	}
	return errors.Join(problems...)
}

// serves reports whether the certificate is for a server name.
func (p *pair) serves(name string) bool {
	if len(p.names.Hosts) == 0 {
		return p.cert.Load().Leaf.VerifyHostname(name) == nil
	}
	return slices.ContainsFunc(p.names.Hosts, func(host string) bool {
		if domain, ok := strings.CutPrefix(host, "*"); ok {
			_, rest, _ := strings.Cut(name, ".")
			return strings.EqualFold("."+rest, domain)
		}
		return strings.EqualFold(name, host)
	})
}

// read reads the files. A half that was written before its other half does not fit it: then the pair
// stays as it was, and the next look tries again.
func (p *pair) read() error {
	cert, err := files.KeyPair(p.names.Cert, p.names.Key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", p.names.Cert, p.names.Key, err)
	}
	p.cert.Store(&cert)
	return nil
}
