package egress

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/status"
)

// Validate returns what is wrong with a configuration, field by field, or nil. The files that it names
// must exist.
func (c Configuration) Validate() error {
	f := &status.Fields{}
	if c.Selections == nil {
		f.At("egressSelections").Required("")
	}
	c.check(f)
	return invalid(f)
}

// invalid makes an error of what is wrong.
func invalid(f *status.Fields) error {
	if err := config.Problems(f.Errors()); err != nil {
		return fmt.Errorf("failed to validate egress selector configuration: %w", err)
	}
	return nil
}

// check reports what is wrong with selections. Sentences are those of Kubernetes.
func (c Configuration) check(f *status.Fields) {
	seen := map[Traffic]bool{}
	for i, s := range c.Selections {
		at := f.At("egressSelections").Index(i)
		traffic, ok := trafficOf(s.Name)
		switch {
		case s.Name == "":
			at.Child("name").Required("")
		case !ok:
			at.Child("name").NotSupported(strings.ToLower(s.Name), string(Cluster), string(ControlPlane), string(Etcd))
		case seen[traffic]:
			at.Child("name").Duplicate(string(traffic))
		}
		seen[traffic] = true
		if s.Connection == nil {
			at.Child("connection").Required("")
		} else {
			s.Connection.check(at.Child("connection"))
		}
	}
}

func (c *Connection) check(at status.Field) {
	transport := at.Child("transport")
	switch c.ProxyProtocol {
	case ProtocolDirect:
		if c.Transport != nil {
			transport.Invalid("direct", "config must be absent for direct connect")
		}
	case ProtocolHTTPConnect, ProtocolGRPC:
		if c.Transport == nil {
			transport.Required("transport must be set for " + c.ProxyProtocol)
			return
		}
		c.Transport.check(transport, c.ProxyProtocol)
	case "":
		at.Child("proxyProtocol").Required("must be Direct, HTTPConnect or GRPC")
	default:
		at.Child("proxyProtocol").NotSupported(c.ProxyProtocol, ProtocolDirect, ProtocolHTTPConnect, ProtocolGRPC)
	}
}

func (t *Transport) check(at status.Field, protocol string) {
	tcp, uds := at.Child("tcp"), at.Child("uds")
	switch {
	case protocol == ProtocolGRPC && t.UDS == nil:
		uds.Required("UDS must be set with GRPC")
	case protocol == ProtocolGRPC && t.TCP != nil:
		tcp.Forbidden("GRPC is not supported with TCP")
	case t.TCP != nil && t.UDS != nil:
		tcp.Invalid("tcp", "TCP and UDS cannot both be set")
	case t.TCP == nil && t.UDS == nil:
		tcp.Required("One of TCP or UDS must be set")
	case t.TCP != nil:
		t.TCP.check(tcp)
		return
	}
	if t.UDS != nil {
		t.UDS.check(uds.Child("udsName"))
	}
}

func (t *UDSTransport) check(at status.Field) {
	switch {
	case t.UDSName == "":
		at.Invalid("nil", "must be present for UDS connections")
	case strings.HasPrefix(t.UDSName, "unix:"):
		at.Invalid(t.UDSName, "must be a path, without unix://")
	}
}

const whichURLs = "supported connection protocols are http:// and https://"

func (t *TCPTransport) check(at status.Field) {
	where, files := at.Child("url"), at.Child("tlsConfig")
	u, err := url.Parse(t.URL)
	switch {
	case t.URL == "":
		where.Required(whichURLs)
	case err != nil:
		where.Invalid("<url>", "cannot be parsed") // the error repeats it, and it may have a password
	case u.Scheme != "http" && u.Scheme != "https":
		where.Invalid(u.Redacted(), whichURLs)
	case u.User != nil:
		where.Invalid(u.Redacted(), "must not have a user: a tunnel server knows this server by its certificate")
	case u.Hostname() == "" || !isPort(portOf(u)):
		where.Invalid(u.Redacted(), "must have a host, and a port from 1 to 65535 if it has one")
	case u.Scheme == "http" && t.TLSConfig != nil:
		files.Invalid("nil", "config must not be present when using HTTP")
	case u.Scheme == "https" && t.TLSConfig == nil:
		files.Required("TLSConfig must be present when using HTTPS")
	case u.Scheme == "https":
		t.TLSConfig.check(files)
	}
}

// portOf returns the port of a URL, that of its protocol if it names none.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "" || strings.HasSuffix(u.Host, ":"):
		return port
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func (c *TLSConfig) check(at status.Field) {
	if c.CABundle != "" && !exists(c.CABundle) {
		at.Child("caBundle").Invalid(c.CABundle, "TLS config ca bundle does not exist")
	}
	for _, f := range []struct{ name, path, missing, gone string }{
		{"clientCert", c.ClientCert, "Using TLS requires clientCert", "TLS client cert does not exist"},
		{"clientKey", c.ClientKey, "Using TLS requires clientKey", "TLS client key does not exist"},
	} {
		switch {
		case f.path == "":
			at.Child(f.name).Invalid("nil", f.missing)
		case !exists(f.path):
			at.Child(f.name).Invalid(f.path, f.gone)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
