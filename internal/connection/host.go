package connection

import (
	"net/http"
	"strings"
)

// At returns the connection to a path of the same server. The URL of c is the one of the server.
func (c Connection) At(path string) Connection {
	c.URL = strings.TrimSuffix(c.URL, "/") + path
	return c
}

// Requests returns a client for requests of all kinds, watches among them: it has the credential of
// the connection, and no time limit. It follows no redirect.
func (c Connection) Requests() *http.Client {
	c = c.WithClient()
	by := c.Client.Transport
	if by == nil {
		by = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	return &http.Client{Transport: authorized{by, c.Authorize}, CheckRedirect: noRedirect}
}

// authorized adds a credential to each request.
type authorized struct {
	by        http.RoundTripper
	authorize func(*http.Request) error // may be nil
}

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.authorize != nil {
		r = r.Clone(r.Context()) // a round tripper must not modify the request
		if err := a.authorize(r); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	return a.by.RoundTrip(r)
}

// CloseIdleConnections is for http.Client.
func (a authorized) CloseIdleConnections() {
	if closer, ok := a.by.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
