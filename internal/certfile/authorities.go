package certfile

import (
	"crypto/x509"
	"fmt"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/files"
)

// Authorities are the certificate authorities of some files. Its methods are safe for concurrent use.
type Authorities struct {
	pool   atomic.Pointer[x509.CertPool]
	follow *files.Follower
}

// OpenAuthorities reads files of PEM certificates. failed is told when a changed file cannot be
// read; the last good authorities then stay in use.
func OpenAuthorities(failed func(error), paths ...string) (*Authorities, error) {
	a := &Authorities{}
	var err error
	a.follow, err = files.Follow(func() error {
		pool := x509.NewCertPool()
		for _, path := range paths {
			data, err := files.Read(path)
			if err != nil {
				return err
			}
			if !pool.AppendCertsFromPEM(data) {
				return fmt.Errorf("%s contains no PEM certificate", path)
			}
		}
		a.pool.Store(pool)
		return nil
	}, failed, paths...)
	return a, err
}

// Pool returns the authorities of now. It is the same pool until the file has changed. Nobody may
// modify it.
func (a *Authorities) Pool() *x509.CertPool {
	a.follow.Look()
	return a.pool.Load()
}
