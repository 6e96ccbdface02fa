package certfile

import (
	"crypto/x509"
	"fmt"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/files"
)

// Authorities are the certificate authorities of a file. Its methods are safe for concurrent use.
type Authorities struct {
	pool   atomic.Pointer[x509.CertPool]
	follow *files.Follower
}

// OpenAuthorities reads a file of PEM certificates. failed is told when the changed file cannot be
// read; the last good authorities then stay in use.
func OpenAuthorities(path string, failed func(error)) (*Authorities, error) {
	a := &Authorities{}
	var err error
	a.follow, err = files.Follow(func() error {
		data, err := files.Read(path)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s contains no PEM certificate", path)
		}
		a.pool.Store(pool)
		return nil
	}, failed, path)
	return a, err
}

// Pool returns the authorities of now. It is the same pool until the file has changed. Nobody may
// modify it.
func (a *Authorities) Pool() *x509.CertPool {
	a.follow.Look()
	return a.pool.Load()
}
