package egress

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/config"
)

// Configuration is the document EgressSelectorConfiguration of the API group apiserver.k8s.io in its
// versions v1beta1 and v1alpha1, which have the same fields.
type Configuration struct {
	Selections []Selection `json:"egressSelections"`
}

// Selection says how the server connects for one kind of traffic.
type Selection struct {
	// Name is that of the traffic, in lower or upper case: controlplane, which may be called master,
	// cluster or etcd.
	Name string `json:"name"`

	Connection *Connection `json:"connection"`
}

// Connection says which tunnel is used, if any.
type Connection struct {
	ProxyProtocol string     `json:"proxyProtocol"`       // Direct, HTTPConnect or GRPC
	Transport     *Transport `json:"transport,omitempty"` // how the tunnel server is reached; none for Direct
}

// The values of Connection.ProxyProtocol.
const (
	ProtocolDirect      = "Direct"
	ProtocolHTTPConnect = "HTTPConnect"
	ProtocolGRPC        = "GRPC"
)

// Transport has one of its members. GRPC needs UDS.
type Transport struct {
	TCP *TCPTransport `json:"tcp,omitempty"`
	UDS *UDSTransport `json:"uds,omitempty"`
}

// TCPTransport is a tunnel server in the network.
type TCPTransport struct {
	// URL is where the tunnel server is, such as https://127.0.0.1:8131. Its path has no meaning.
	URL string `json:"url"`

	// TLSConfig belongs to an https URL.
	TLSConfig *TLSConfig `json:"tlsConfig,omitempty"`
}

// TLSConfig names files. They are read again when they change.
type TLSConfig struct {
	CABundle   string `json:"caBundle,omitempty"` // authorities of the tunnel server; default: those of the machine
	ClientKey  string `json:"clientKey"`
	ClientCert string `json:"clientCert"`

	// TLSServerName is the name that the certificate of the tunnel server is for. Default: that of the URL.
	TLSServerName string `json:"tlsServerName,omitempty"`
}

// UDSTransport is a tunnel server behind a Unix socket.
type UDSTransport struct {
	UDSName string `json:"udsName"` // the path, without unix://
}

// kind is the document.
var kind = config.Kind{
	Name: "EgressSelectorConfiguration", Group: "apiserver.k8s.io", AnyDomain: "apiserver",
	Versions: []string{"v1beta1", "v1alpha1"},
}

// Parse reads the document of a configuration, YAML or JSON. It rejects unknown fields, also those in
// another case, and fields that come twice. It does not validate what the document says.
func Parse(document []byte) (Configuration, error) {
	var c Configuration
	d, err := config.Read(document, kind)
	if err == nil {
		err = d.Decode(&c)
	}
	if err != nil {
		return Configuration{}, fmt.Errorf("failed to read egress selector config: %w", err)
	}
	return c, nil
}
