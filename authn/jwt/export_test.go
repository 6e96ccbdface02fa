package jwt

import "net/http"

// WithTransport makes connections to issuers those of a test.
func (o Options) WithTransport(t http.RoundTripper) Options {
	o.transport = t
	return o
}
