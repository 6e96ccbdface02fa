package x509_test

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/x509"
)

// A listener requests client certificates without requiring them. A client without one is
// anonymous, and an invalid one is rejected.
func ExampleNew() {
	authorities := stdx509.NewCertPool() // AppendCertsFromPEM of the file with the client authorities
	certs, err := x509.New(authorities)
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	middleware := authn.Middleware(authn.Union(certs, authn.Anonymous()))
	fmt.Println(listener.ClientAuth, middleware != nil)
	// Output: RequestClientCert true
}
