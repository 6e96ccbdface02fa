package proxy

import (
	"net"
	"net/netip"
	"time"

	"github.com/kindwright/kindwright/config/component"
	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
)

// Configuration is the document KubeProxyConfiguration. Source: PROXY-01 to PROXY-14.
type Configuration struct {
	// FeatureGates turns features on and off by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	// ClientConnection says how the proxy reaches the server. Default: 5 requests in a second, 10 at once.
	ClientConnection component.ClientConnectionConfiguration `json:"clientConnection"`

	// Logging is what the logging library of the proxy reads.
	Logging map[string]any `json:"logging,omitempty"`

	// HostnameOverride is the name of the node. Empty: that of the host.
	HostnameOverride string `json:"hostnameOverride"`

	// BindAddress is the address of the node. Default: 0.0.0.0, which stands for any.
	BindAddress string `json:"bindAddress"`

	// HealthzBindAddress and MetricsBindAddress are where the proxy serves its health and its metrics, an
	// IP address with or without a port. Default: port 10256 of all addresses, and port 10249 of the host's
	// own.
	HealthzBindAddress string `json:"healthzBindAddress"`
	MetricsBindAddress string `json:"metricsBindAddress"`

	// BindAddressHardFail ends the proxy if it cannot bind to a port.
	BindAddressHardFail bool `json:"bindAddressHardFail"`

	// EnableProfiling serves the runtime's profiles with the metrics.
	EnableProfiling bool `json:"enableProfiling"`

	// ShowHiddenMetricsForVersion brings back metrics that the release before hid, such as "1.35".
	ShowHiddenMetricsForVersion string `json:"showHiddenMetricsForVersion"`

	// Mode is how traffic is handed on. Empty: the best that can be used.
	Mode Mode `json:"mode"`

	// IPTables, IPVS, NFTables and Winkernel are about one mode each; IPTables is about IPVS too.
	IPTables  IPTables  `json:"iptables"`
	IPVS      IPVS      `json:"ipvs"`
	NFTables  NFTables  `json:"nftables"`
	Winkernel Winkernel `json:"winkernel"`

	// DetectLocalMode is how traffic of the node's own pods is recognized, with what DetectLocal or
	// ClusterCIDR says.
	DetectLocalMode LocalMode   `json:"detectLocalMode"`
	DetectLocal     DetectLocal `json:"detectLocal"`
	ClusterCIDR     string      `json:"clusterCIDR"`

	// NodePortAddresses are the addresses at which ports of nodes answer: ranges, or "primary".
	NodePortAddresses []string `json:"nodePortAddresses"`

	// OOMScoreAdj is from -1000 to 1000. Default: -999.
	OOMScoreAdj *int32 `json:"oomScoreAdj"`

	// Conntrack is about the connections that the kernel follows.
	Conntrack Conntrack `json:"conntrack"`

	// ConfigSyncPeriod is how often everything is read from the server again. Default: 15 min.
	ConfigSyncPeriod meta.Duration `json:"configSyncPeriod"`

	// PortRange had a meaning once.
	PortRange string `json:"portRange"`

	// WindowsRunAsService says that the proxy is a service of Windows.
	WindowsRunAsService bool `json:"windowsRunAsService,omitempty"`
}

// IPTables is about the mode of that name. Source: PROXY-01 to PROXY-04.
type IPTables struct {
	// MasqueradeBit marks packets that get the address of the node, from 0 to 31. Default: 14.
	MasqueradeBit *int32 `json:"masqueradeBit"`

	// MasqueradeAll gives all packets to services the address of the node.
	MasqueradeAll bool `json:"masqueradeAll"`

	// LocalhostNodePorts has ports of nodes answer on loopback. Default: true.
	LocalhostNodePorts *bool `json:"localhostNodePorts"`

	// SyncPeriod is how often all rules are written. It is greater than 0. Default: 30 s.
	SyncPeriod *meta.Duration `json:"syncPeriod"`

	// MinSyncPeriod is the least time between two changes; 0 makes each change at once. Default: 1 s.
	MinSyncPeriod *meta.Duration `json:"minSyncPeriod"`
}

// IPVS is about the mode of that name. Source: PROXY-05 to PROXY-07.
type IPVS struct {
	SyncPeriod    *meta.Duration `json:"syncPeriod"`    // as of IPTables
	MinSyncPeriod *meta.Duration `json:"minSyncPeriod"` // as of IPTables; default 0

	// Scheduler is how the kernel chooses an endpoint, such as rr.
	Scheduler string `json:"scheduler"`

	// ExcludeCIDRs are ranges whose services the proxy leaves alone.
	ExcludeCIDRs []string `json:"excludeCIDRs"`

	// StrictARP answers ARP for addresses of one's own interface only.
	StrictARP bool `json:"strictARP"`

	// The timeouts of connections; 0 keeps what the system says.
	TCPTimeout    meta.Duration `json:"tcpTimeout"`
	TCPFinTimeout meta.Duration `json:"tcpFinTimeout"`
	UDPTimeout    meta.Duration `json:"udpTimeout"`
}

// NFTables is about the mode of that name, as IPTables. Source: PROXY-08.
type NFTables struct {
	MasqueradeBit *int32         `json:"masqueradeBit"`
	MasqueradeAll bool           `json:"masqueradeAll"`
	SyncPeriod    *meta.Duration `json:"syncPeriod"`
	MinSyncPeriod *meta.Duration `json:"minSyncPeriod"`
}

// Winkernel is about the mode kernelspace. Source: PROXY-09.
type Winkernel struct {
	NetworkName           string `json:"networkName"`
	SourceVip             string `json:"sourceVip"`
	EnableDSR             bool   `json:"enableDSR"`
	RootHnsEndpointName   string `json:"rootHnsEndpointName"`
	ForwardHealthCheckVip bool   `json:"forwardHealthCheckVip"`
}

// Conntrack is about the connections that the kernel follows. Timeouts of 0 keep what the system says.
// Source: PROXY-10.
type Conntrack struct {
	// MaxPerCore and Min say how many connections are followed: so many for each core, and at least so
	// many. Default: 32,768 and 131,072; a MaxPerCore of 0 keeps what the system says.
	MaxPerCore *int32 `json:"maxPerCore"`
	Min        *int32 `json:"min"`

	TCPEstablishedTimeout *meta.Duration `json:"tcpEstablishedTimeout"` // default 24 h
	TCPCloseWaitTimeout   *meta.Duration `json:"tcpCloseWaitTimeout"`   // default 1 h
	TCPBeLiberal          bool           `json:"tcpBeLiberal"`
	UDPTimeout            meta.Duration  `json:"udpTimeout"`
	UDPStreamTimeout      meta.Duration  `json:"udpStreamTimeout"`
}

// LocalMode is a way to recognize traffic of the node's own pods.
type LocalMode string

// The ways to recognize it.
const (
	LocalByClusterCIDR     LocalMode = "ClusterCIDR"
	LocalByNodeCIDR        LocalMode = "NodeCIDR"
	LocalByBridge          LocalMode = "BridgeInterface"
	LocalByInterfacePrefix LocalMode = "InterfaceNamePrefix"
)

// DetectLocal names the interfaces of pods.
type DetectLocal struct {
	BridgeInterface     string `json:"bridgeInterface"`
	InterfaceNamePrefix string `json:"interfaceNamePrefix"`
}

var kind = documents.Kind{
	Name: "KubeProxyConfiguration", Group: "kubeproxy.config.k8s.io", AnyDomain: "kubeproxy.config", Versions: []string{"v1alpha1"},
}

// Parse reads the document, fills in the defaults, and validates it for a platform, such as
// runtime.GOOS. Errors name the field.
func Parse(document []byte, goos string) (Configuration, error) {
	c, err := documents.Parse[Configuration](document, kind)
	if err != nil {
		return c, err
	}
	c.Default()
	return c, c.Validate(goos)
}

// What a Configuration says where nothing is said.
const (
	healthzPort        = "10256"
	metricsPort        = "10249"
	defaultOOMScore    = -999
	defaultBit         = 14
	defaultMaxPerCore  = 32 << 10
	defaultMin         = 128 << 10
	defaultSync        = 30 * time.Second
	defaultMinSync     = time.Second
	defaultEstablished = 24 * time.Hour
	defaultCloseWait   = time.Hour
	defaultConfigSync  = 15 * time.Minute
	defaultQPS         = 5
	defaultBurst       = 10
)

// Default fills in what is not said. A period of 0 is said: Kubernetes takes it for one that is not.
func (c *Configuration) Default() {
	if c.BindAddress == "" {
		c.BindAddress = "0.0.0.0"
	}
	all, own := "0.0.0.0", "127.0.0.1"
	if a, err := netip.ParseAddr(c.BindAddress); err == nil && a.Unmap().Is6() {
		all, own = "::", "::1"
	}
	c.HealthzBindAddress = withPort(c.HealthzBindAddress, all, healthzPort)
	c.MetricsBindAddress = withPort(c.MetricsBindAddress, own, metricsPort)
	documents.Default(&c.OOMScoreAdj, defaultOOMScore)
	documents.Default(&c.IPTables.MasqueradeBit, defaultBit)
	documents.Default(&c.IPTables.LocalhostNodePorts, true)
	documents.Default(&c.IPTables.SyncPeriod, meta.NewDuration(defaultSync))
	documents.Default(&c.IPTables.MinSyncPeriod, meta.NewDuration(defaultMinSync))
	documents.Default(&c.IPVS.SyncPeriod, meta.NewDuration(defaultSync))
	documents.Default(&c.IPVS.MinSyncPeriod, meta.Duration{})
	documents.Default(&c.NFTables.MasqueradeBit, defaultBit)
	documents.Default(&c.NFTables.SyncPeriod, meta.NewDuration(defaultSync))
	documents.Default(&c.NFTables.MinSyncPeriod, meta.NewDuration(defaultMinSync))
	documents.Default(&c.Conntrack.MaxPerCore, defaultMaxPerCore)
	documents.Default(&c.Conntrack.Min, defaultMin)
	documents.Default(&c.Conntrack.TCPEstablishedTimeout, meta.NewDuration(defaultEstablished))
	documents.Default(&c.Conntrack.TCPCloseWaitTimeout, meta.NewDuration(defaultCloseWait))
	if c.ConfigSyncPeriod.Duration == 0 {
		c.ConfigSyncPeriod.Duration = defaultConfigSync
	}
	if c.ClientConnection.QPS == 0 {
		c.ClientConnection.QPS = defaultQPS
	}
	if c.ClientConnection.Burst == 0 {
		c.ClientConnection.Burst = defaultBurst
	}
	c.ClientConnection.Default()
}

// withPort returns an address with a port. An address that is none stays as it is, for Validate.
func withPort(address, otherwise, port string) string {
	if address == "" {
		address = otherwise
	}
	if _, err := netip.ParseAddr(address); err == nil {
		return net.JoinHostPort(address, port)
	}
	return address
}
