package requestheader_test

import (
	"crypto/x509"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	certificates "github.com/kindwright/kindwright/authn/x509"
)

// Proxies have certificates of an authority of their own.
func ExampleNew() {
	authorities := x509.NewCertPool() // certificates.Open reads them from a file
	proxies, err := certificates.New(authorities)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := requestheader.Standard()
	cfg.ProxyNames = []string{"front-proxy"}
	users, err := requestheader.New(proxies, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(authn.IdentityHeaders(users))
	// Output: [X-Remote-User X-Remote-Uid X-Remote-Group] [X-Remote-Extra-]
}
