package component

import (
	"net/http"
	"strings"

	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/status"
)

// The recommended values of a ClientConnectionConfiguration. Source: CLIENTCONN-15.
const (
	DefaultContentType = "application/vnd.kubernetes.protobuf"
	DefaultQPS         = 50
	DefaultBurst       = 100
)

// ClientConnectionConfiguration says how a program reaches the server.
// Source: CLIENTCONN-01 to CLIENTCONN-05.
type ClientConnectionConfiguration struct {
	// Kubeconfig is the path of the connection file. Empty: the program runs in a Pod, and asks the server
	// of its cluster. Documents may say connectionFile instead.
	Kubeconfig string `json:"kubeconfig" config:"also=connectionFile"`

	// AcceptContentTypes is sent in the header Accept, with requests that do not have one.
	AcceptContentTypes string `json:"acceptContentTypes"`

	// ContentType is sent in the header Content-Type, with bodies of requests that do not have one.
	ContentType string `json:"contentType"`

	// QPS is how many requests go out in a second. A negative number sets no limit; zero stands for the
	// default.
	QPS float32 `json:"qps"`

	// Burst is how many requests may go out at once after a pause. Zero stands for the default.
	Burst int32 `json:"burst"`
}

// Default fills in the recommended values where nothing is said. Programs with other recommendations,
// such as a proxy, fill in theirs first.
func (c *ClientConnectionConfiguration) Default() {
	if c.ContentType == "" {
		c.ContentType = DefaultContentType
	}
	if c.QPS == 0 {
		c.QPS = DefaultQPS
	}
	if c.Burst == 0 {
		c.Burst = DefaultBurst
	}
}

// Check reports what is wrong with the configuration, which is the field at.
func (c ClientConnectionConfiguration) Check(at status.Field) {
	if c.Burst < 0 {
		at.Child("burst").Invalid(c.Burst, "must be non-negative")
	}
}

// Client returns a client of the server that the connection file names, and the URL of that server, for
// client.For and client.At of package client. Its transport is that of Transport. It follows no redirect.
//
// Certificates, keys and tokens that are in files of their own are read again when they change. failed
// is told when that is not possible; the last good state stays in use. It may be nil.
func (c ClientConnectionConfiguration) Client(failed func(error)) (*http.Client, string, error) {
	if failed == nil {
		failed = func(error) {}
	}
	read := func() (connection.Connection, error) { return connection.Read(c.Kubeconfig, failed) }
	if c.Kubeconfig == "" {
		read = func() (connection.Connection, error) {
			return connection.InCluster(connection.AccountDirectory, "", failed)
		}
	}
	to, err := read()
	if err != nil {
		return nil, "", err
	}
	h := to.Requests()
	h.Transport = c.Transport(h.Transport)
	return h, strings.TrimRight(to.URL, "/"), nil
}

// Transport returns a transport that hands requests on to next, with the headers and at the rate of the
// configuration. Requests wait for their turn until their context ends. Each call returns a transport
// with a rate of its own. Nil stands for a transport without anything special.
func (c ClientConnectionConfiguration) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	t := &transport{next: next, accept: c.AcceptContentTypes, contentType: c.ContentType}
	c.Default()
	if c.QPS > 0 {
		t.turns = newTurns(float64(c.QPS), int(c.Burst))
	}
	return t
}

// transport sets headers and keeps to a rate.
type transport struct {
	next                http.RoundTripper
	accept, contentType string
	turns               *turns // nil: no limit
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.turns != nil {
		if err := t.turns.wait(r.Context()); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	body := r.Body != nil && r.Body != http.NoBody
	set := map[string]string{}
	if t.accept != "" && r.Header.Get("Accept") == "" {
		set["Accept"] = t.accept
	}
	if t.contentType != "" && body && r.Header.Get("Content-Type") == "" {
		set["Content-Type"] = t.contentType
	}
	if len(set) > 0 {
		r = r.Clone(r.Context())
		for name, value := range set {
			r.Header.Set(name, value)
		}
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections has http.Client.CloseIdleConnections reach the transport behind.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
