package x509_test

import (
	stdx509 "crypto/x509"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/x509"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	pool := stdx509.NewCertPool()
	for says, err := range map[string]func() error{
		"authn/x509: option 0 is nil":                                   func() error { _, err := x509.New(pool, nil); return err },
		"authn/x509: option 1 is nil":                                   func() error { _, err := x509.New(pool, x509.WithServiceAccounts(), nil); return err },
		"authn/x509: the function of WithNow must not be nil":           func() error { _, err := x509.New(pool, x509.WithNow(nil)); return err },
		"the pool of certificate authorities must not be nil":           func() error { _, err := x509.New(nil); return err },
		"the function that returns certificate authorities must not be": func() error { _, err := x509.Following(nil); return err },
		"option 0 is nil": func() error { _, err := x509.Following(func() *stdx509.CertPool { return pool }, nil); return err },
	} {
		require.ErrorContains(t, err(), says)
	}
	_, err := x509.Open("", nil)
	require.ErrorContains(t, err, "option 0 is nil")
}
