package certfile

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/files"
)

// Authorities are the certificate authorities of some files. Its methods are safe for concurrent use.
type Authorities struct {
	current atomic.Pointer[authorities]
	follow  *files.Follower
}

// authorities are what the files said when they were read.
type authorities struct {
	pool *x509.CertPool
	text []byte // the certificates alone
}

// A Rule says why certificates must not be the authorities of a file, or nil. They are in use from
// then on.
type Rule func([]*x509.Certificate) error

// OpenAuthorities reads files of PEM certificates. A file with a certificate that cannot be read, or
// that ends within one, is an error, and so are files that break the rule; a nil rule allows all.
// failed is told when a changed file is bad; the last good authorities then stay in use.
func OpenAuthorities(failed func(error), rule Rule, paths ...string) (*Authorities, error) {
	a := &Authorities{}
	var err error
	a.follow, err = files.Follow(func() error {
		var all []*x509.Certificate
		var text []byte
		for _, path := range paths {
			data, err := files.Read(path)
			if err != nil {
				return err
			}
			certs, err := Certificates(data)
			if err != nil {
				return fmt.Errorf("%s %w", path, err)
			}
			all = append(all, certs...)
		}
		if rule != nil {
			if err := rule(all); err != nil {
				return err
			}
		}
		pool := x509.NewCertPool()
		for _, c := range all {
			pool.AddCert(c)
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		a.current.Store(&authorities{pool, text})
		return nil
	}, failed, paths...)
	return a, err
}

// Pool returns the authorities of now. It is the same pool until the file has changed. Nobody may
// modify it.
func (a *Authorities) Pool() *x509.CertPool {
	a.follow.Look()
	return a.current.Load().pool
}

// PEM returns the certificates of the authorities of now, and nothing else that their files have: it is for
// everybody to read, and a file may have a key, too. Nobody may modify it.
func (a *Authorities) PEM() []byte {
	a.follow.Look()
	return a.current.Load().text
}

// Healthy returns why the files of now are not in use, or nil.
func (a *Authorities) Healthy() error { return a.follow.Healthy() }

// Certificates reads all certificates of a PEM file; other blocks are left out. A file without one is
// an error, as is one that ends within a block: it may be half of what it is going to be.
func Certificates(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if data = rest; block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("contains a certificate that cannot be read: %w", err)
		}
		out = append(out, c)
	}
	switch {
	case bytes.Contains(data, []byte("-----BEGIN ")):
		return nil, errors.New("ends within a certificate, or contains one that is no PEM")
	case len(out) == 0:
		return nil, errors.New("contains no PEM certificate")
	}
	return out, nil
}

// ShareKeys reports whether authorities of two lists have a key in common. The certificate of an
// authority that was renewed, or that another one has signed, is another one, and what its key signs
// is valid for both.
func ShareKeys(a, b []*x509.Certificate) bool {
	return slices.ContainsFunc(a, func(one *x509.Certificate) bool {
		return slices.ContainsFunc(b, func(other *x509.Certificate) bool {
			return bytes.Equal(one.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
		})
	})
}

// Apart keeps the authorities of two files from having a key in common, also when the files change.
// The zero value is ready for use.
type Apart struct {
	mu   sync.Mutex
	used [2][]*x509.Certificate
}

// Rule returns the rule of the first file or, with other set, of the other one. err is what the file
// that was read last gets.
func (a *Apart) Rule(other bool, err error) Rule {
	i := 0
	if other {
		i = 1
	}
	return func(certs []*x509.Certificate) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if ShareKeys(certs, a.used[1-i]) {
			return err
		}
		a.used[i] = certs
		return nil
	}
}
