package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Validate reports everything that is wrong with a configuration that has its defaults, for a platform
// such as runtime.GOOS, with the path of each field. The blocks of all modes are looked at, whatever mode is
// asked for; Kubernetes looks at those of iptables and of that mode.
func (c Configuration) Validate(goos string) error {
	var f status.Fields
	c.IPTables.check(f.At("iptables"))
	c.IPVS.check(f.At("ipvs"))
	c.NFTables.check(f.At("nftables"))
	c.Conntrack.check(f.At("conntrack"))
	if n := c.OOMScoreAdj; n != nil && (*n < -1000 || *n > 1000) {
		f.At("oomScoreAdj").Invalid(*n, "must be within the range [-1000, 1000]")
	}
	checkMode(f.At("mode"), c.Mode, goos)
	c.ClientConnection.Check(f.At("clientConnection"))
	if c.ConfigSyncPeriod.Duration <= 0 {
		f.At("configSyncPeriod").Invalid(c.ConfigSyncPeriod, "must be greater than 0")
	}
	if _, err := netip.ParseAddr(c.BindAddress); err != nil {
		f.At("bindAddress").Invalid(c.BindAddress, "not a valid textual representation of an IP address")
	}
	checkHostPort(f.At("healthzBindAddress"), c.HealthzBindAddress)
	checkHostPort(f.At("metricsBindAddress"), c.MetricsBindAddress)
	checkNodePorts(f.At("nodePortAddresses"), c.NodePortAddresses)
	c.checkLocal(&f)
	return documents.Problems(f.Errors())
}

func checkBit(at status.Field, bit *int32) {
	if bit != nil && (*bit < 0 || *bit > 31) {
		at.Invalid(*bit, "must be within the range [0, 31]")
	}
}

func checkPeriods(at status.Field, period, least *meta.Duration) {
	if period == nil || least == nil {
		return // Default was not called
	}
	if period.Duration <= 0 {
		at.Child("syncPeriod").Invalid(*period, "must be greater than 0")
	}
	switch {
	case least.Duration < 0:
		at.Child("minSyncPeriod").Invalid(*least, "must be greater than or equal to 0")
	case least.Duration > period.Duration:
		at.Child("syncPeriod").Invalid(*least, fmt.Sprintf("must be greater than or equal to %s", at.Child("minSyncPeriod").Path()))
	}
}

func (c IPTables) check(at status.Field) {
	checkBit(at.Child("masqueradeBit"), c.MasqueradeBit)
	checkPeriods(at, c.SyncPeriod, c.MinSyncPeriod)
}

func (c NFTables) check(at status.Field) {
	checkBit(at.Child("masqueradeBit"), c.MasqueradeBit)
	checkPeriods(at, c.SyncPeriod, c.MinSyncPeriod)
}

// schedulers are those of Linux.
const schedulers = "rr wrr lc wlc lblc lblcr dh sh mh sed nq fo ovf twos"

func (c IPVS) check(at status.Field) {
	checkPeriods(at, c.SyncPeriod, c.MinSyncPeriod)
	if known := strings.Fields(schedulers); c.Scheduler != "" && !slices.Contains(known, c.Scheduler) {
		at.Child("scheduler").NotSupported(c.Scheduler, known...)
	}
	checkTimeouts(at, []timeout{{"tcpTimeout", &c.TCPTimeout}, {"tcpFinTimeout", &c.TCPFinTimeout}, {"udpTimeout", &c.UDPTimeout}})
	for i, cidr := range c.ExcludeCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			at.Child("excludeCIDRs").Index(i).Invalid(cidr, "must be a valid CIDR")
		}
	}
}

// timeout is a field that has one.
type timeout struct {
	name string
	is   *meta.Duration
}

func checkTimeouts(at status.Field, timeouts []timeout) {
	for _, t := range timeouts {
		if t.is != nil && t.is.Duration < 0 {
			at.Child(t.name).Invalid(*t.is, "must be greater than or equal to 0")
		}
	}
}

func (c Conntrack) check(at status.Field) {
	for _, n := range []struct {
		name string
		is   *int32
	}{{"maxPerCore", c.MaxPerCore}, {"min", c.Min}} {
		if n.is != nil && *n.is < 0 {
			at.Child(n.name).Invalid(*n.is, "must be greater than or equal to 0")
		}
	}
	checkTimeouts(at, []timeout{
		{"tcpEstablishedTimeout", c.TCPEstablishedTimeout},
		{"tcpCloseWaitTimeout", c.TCPCloseWaitTimeout},
		{"udpTimeout", &c.UDPTimeout},
		{"udpStreamTimeout", &c.UDPStreamTimeout},
	})
}

func checkMode(at status.Field, mode Mode, goos string) {
	modes := Modes(goos)
	if mode == "" || slices.Contains(modes, mode) {
		return
	}
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	slices.Sort(names)
	at.Invalid(string(mode), fmt.Sprintf("must be %s or blank (blank means the best-available proxy [currently %s])",
		strings.Join(names, ", "), modes[0]))
}

func checkHostPort(at status.Field, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		at.Invalid(address, "must be IP:port")
		return
	}
	if _, err := netip.ParseAddr(host); err != nil {
		at.Invalid(host, "must be a valid IP")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		at.Invalid(port, "must be a valid port")
	}
}

// primary stands for the addresses of the node itself.
const primary = "primary"

func checkNodePorts(at status.Field, addresses []string) {
	for i, a := range addresses {
		if a == primary {
			if len(addresses) != 1 {
				at.Index(i).Invalid(a, "can't use both 'primary' and CIDRs")
			}
			return
		}
		if _, err := netip.ParsePrefix(a); err != nil {
			at.Index(i).Invalid(a, "must be a valid CIDR")
		}
	}
}

func (c Configuration) checkLocal(f *status.Fields) {
	switch c.DetectLocalMode {
	case "", LocalByNodeCIDR:
	case LocalByBridge:
		if c.DetectLocal.BridgeInterface == "" {
			f.At("detectLocal", "bridgeInterface").Invalid("", "must not be empty")
		}
	case LocalByInterfacePrefix:
		if c.DetectLocal.InterfaceNamePrefix == "" {
			f.At("detectLocal", "interfaceNamePrefix").Invalid("", "must not be empty")
		}
	case LocalByClusterCIDR:
		checkClusterCIDR(f.At("clusterCIDR"), c.ClusterCIDR)
	default:
		f.At("detectLocalMode").NotSupported(string(c.DetectLocalMode),
			string(LocalByClusterCIDR), string(LocalByNodeCIDR), string(LocalByBridge), string(LocalByInterfacePrefix), "")
	}
}

// checkClusterCIDR judges the ranges of pods: one, or one of each family.
func checkClusterCIDR(at status.Field, cidrs string) {
	if cidrs == "" {
		return
	}
	both := "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"
	families, list := map[bool]int{}, strings.Split(cidrs, ",")
	for _, cidr := range list {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			at.Invalid(cidr, "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)")
			return
		}
		families[prefix.Addr().Is4()]++
	}
	if len(list) > 2 || len(list) == 2 && len(families) != 2 {
		at.Invalid(cidrs, both)
	}
}
