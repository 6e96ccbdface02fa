package certfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/files"
)

// lookEvery is how often a handshake looks whether the files have changed.
const lookEvery = time.Second

// Names are the files of a certificate, with its intermediates, and of its key, in PEM.
type Names struct{ Cert, Key string }

// Files serves certificates from files. Its methods are safe for concurrent use.
type Files struct {
	pairs    []*pair // the first is the default
	failed   func(error)
	now      func() time.Time
	mu       sync.Mutex
	lastLook time.Time
}

// pair is one certificate, and what its files looked like when they were read.
type pair struct {
	names Names
	seen  string
	cert  *tls.Certificate
}

// Open reads every pair of files, the default first. A client that asks for a server name gets the
// first other certificate that is valid for the name. failed is told when changed files cannot be
// read; the last good certificate then stays in use.
func Open(failed func(error), names ...Names) (*Files, error) {
	f := &Files{failed: failed, now: time.Now}
	var problems []error
	for _, n := range names {
		p := &pair{names: n}
		problems = append(problems, p.read())
		f.pairs = append(f.pairs, p)
	}
	f.lastLook = f.now()
	return f, errors.Join(problems...)
}

// Certificate is for [tls.Config.GetCertificate].
func (f *Files) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	if name := strings.TrimSuffix(hello.ServerName, "."); name != "" {
		for _, p := range f.pairs[1:] {
			if p.cert.Leaf.VerifyHostname(name) == nil {
				return p.cert, nil
			}
		}
	}
	return f.pairs[0].cert, nil
}

// look reads the files that have changed, unless it looked a moment ago.
func (f *Files) look() {
	now := f.now()
	if now.Sub(f.lastLook) < lookEvery {
		return
	}
	f.lastLook = now
	for _, p := range f.pairs {
		seen, err := p.stat()
		if err == nil && seen == p.seen {
			continue
		}
		if err := p.read(); err != nil {
			f.failed(err)
		}
	}
}

// stat describes the files, so that a change is noticed.
func (p *pair) stat() (string, error) {
	var out strings.Builder
	for _, name := range []string{p.names.Cert, p.names.Key} {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%d %d ", info.ModTime().UnixNano(), info.Size())
	}
	return out.String(), nil
}

// read reads the files. A half that was written before its other half does not fit it: then the pair
// stays as it was, and the next look tries again.
func (p *pair) read() error {
	seen, err := p.stat()
	if err != nil {
		return err
	}
	cert, err := files.KeyPair(p.names.Cert, p.names.Key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", p.names.Cert, p.names.Key, err)
	}
	p.seen, p.cert = seen, &cert
	return nil
}
