package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/certfile"
)

// Certificate says how the server proves to the host who it is: its name must be <name>.<namespace>.svc.
// The zero value stands for certificates that replicas make and share in a secret of the host, called
// <name>-serving. They are renewed after two thirds of their time. The host is told of a new authority
// before a certificate of it is served, and trusts the old one for a while longer.
type Certificate struct {
	// CertFile and KeyFile name files in PEM, and CAFile the authorities that the host is to trust. They
	// are read again when they change. Whoever renews them gives the host time to learn of a new
	// authority before its certificate is served.
	CertFile, KeyFile, CAFile string

	// Get returns the certificate of now, and CABundle what the host is to trust, in PEM.
	Get      func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	CABundle func() []byte

	// Lifetime is how long a certificate in the secret is valid. Default 90 days. Overlap is how long
	// the host knows a new authority before it is needed, and how long it trusts the old one afterwards.
	// The time while the host cannot be asked does not count. Default 25 seconds, so that the old one is not trusted any more within a minute.
	Lifetime, Overlap time.Duration
}

const (
	defaultLifetime = 90 * 24 * time.Hour
	defaultOverlap  = 25 * time.Second
)

// newCertificates makes what Certificate says. k tells the host whom to trust.
func newCertificates(cfg *Config, k *keeper, log logr.Logger) (certificates, error) {
	c := &cfg.Certificate
	fromFiles := c.CertFile != "" || c.KeyFile != "" || c.CAFile != ""
	given := c.Get != nil || c.CABundle != nil
	switch {
	case fromFiles && given:
		return nil, errors.New("the names of files, or functions; not both")
	case fromFiles && (c.CertFile == "" || c.KeyFile == "" || c.CAFile == ""):
		return nil, errors.New("CertFile, KeyFile and CAFile belong together")
	case given && (c.Get == nil || c.CABundle == nil):
		return nil, errors.New("the functions Get and CABundle belong together")
	case c.Lifetime < 0 || c.Overlap < 0:
		return nil, errors.New("neither Lifetime nor Overlap may be negative")
	case given:
		return givenCertificate{c}, nil
	case fromFiles:
		return openFiles(c, log)
	}
	if c.Lifetime == 0 {
		c.Lifetime = defaultLifetime
	}
	if c.Overlap == 0 {
		c.Overlap = defaultOverlap
	}
	if c.Lifetime < 12*c.Overlap {
		return nil, fmt.Errorf("a Lifetime of %v must be at least twelve times the Overlap of %v", c.Lifetime, c.Overlap)
	}
	return newSecretCertificates(cfg, k, log), nil
}

// givenCertificate is the certificate of functions.
type givenCertificate struct{ *Certificate }

func (givenCertificate) run(context.Context)         {}
func (givenCertificate) await(context.Context) error { return nil }
func (g givenCertificate) bundle() []byte            { return g.CABundle() }
func (givenCertificate) check() error                { return nil }

func (g givenCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return g.Get(hello)
}

// fileCertificate is the certificate of files. What cannot be read changes nothing, and is shown in health.
type fileCertificate struct {
	pair    *certfile.Files
	trusted *certfile.Authorities
}

func openFiles(c *Certificate, log logr.Logger) (*fileCertificate, error) {
	pair, err := certfile.Open(func(err error) { log.Error(err, "failed to read a renewed certificate; still serving the last one") },
		certfile.Names{Cert: c.CertFile, Key: c.KeyFile})
	if err != nil {
		return nil, err
	}
	trusted, err := certfile.OpenAuthorities(func(err error) { log.Error(err, "failed to read CAFile again; the host keeps the last authorities") },
		nil, c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CAFile: %w", err)
	}
	return &fileCertificate{pair, trusted}, nil
}

func (*fileCertificate) run(context.Context)         {}
func (*fileCertificate) await(context.Context) error { return nil }
func (f *fileCertificate) check() error              { return errors.Join(f.pair.Healthy(), f.trusted.Healthy()) }

func (f *fileCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.pair.Certificate(hello)
}

func (f *fileCertificate) bundle() []byte { return f.trusted.PEM() }
