package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The rules for addresses have become stricter with time. So an update that leaves the addresses of endpoints alone is
// accepted whatever they are.

func (c *cluster) checkEndpointsUpdate(e, old *corev1.Endpoints, f *status.Fields) { //nolint:staticcheck // it is deprecated, and served
	if !equality.Semantic.DeepEqual(e.Subsets, old.Subsets) {
		c.checkEndpoints(e, f)
	}
}

func (c *cluster) checkEndpoints(e *corev1.Endpoints, f *status.Fields) { //nolint:staticcheck // it is deprecated, and served
	for i, s := range e.Subsets {
		one := f.At("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			one.Required("must specify `addresses` or `notReadyAddresses`")
		}
		for j := range s.Addresses {
			c.checkEndpointAddress(&s.Addresses[j], one.Child("addresses").Index(j))
		}
		for j := range s.NotReadyAddresses {
			c.checkEndpointAddress(&s.NotReadyAddresses[j], one.Child("notReadyAddresses").Index(j))
		}
		for j, p := range s.Ports {
			at := one.Child("ports").Index(j)
			if p.Name != "" {
				isLabel(at.Child("name"), p.Name)
			} else if len(s.Ports) > 1 {
				at.Child("name").Required("")
			}
			isPort(at.Child("port"), p.Port)
			oneOf(at.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
			isQualifiedIf(at.Child("appProtocol"), p.AppProtocol)
		}
	}
}

func (c *cluster) checkEndpointAddress(a *corev1.EndpointAddress, at status.Field) {
	c.isEndpoint(at.Child("ip"), a.IP)
	if a.Hostname != "" {
		isLabel(at.Child("hostname"), a.Hostname)
	}
	isNodeName(at.Child("nodeName"), a.NodeName)
}

// isNodeName reports an optional text that no node can be called.
func isNodeName(at status.Field, name *string) {
	if name == nil {
		return
	}
	if why := meta.CheckDNSSubdomain(*name); why != "" {
		at.Invalid(*name, why)
	}
}

// The bounds of endpoint slices, as Kubernetes has them.
const (
	maxSliceEndpoints = 1000
	maxSliceAddresses = 100
	maxSlicePorts     = 20000
	maxSliceHints     = 8
)

func (c *cluster) checkSliceUpdate(s, old *discoveryv1.EndpointSlice, f *status.Fields) {
	c.checkSlice(s, old, f)
	same(f.At("addressType"), s.AddressType == old.AddressType, string(s.AddressType))
}

// checkSlice checks a slice that is new, or that replaces another one.
func (c *cluster) checkSlice(s, old *discoveryv1.EndpointSlice, f *status.Fields) {
	if s.AddressType == "" {
		f.At("addressType").Required("")
	} else {
		oneOf(f.At("addressType"), s.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	}
	checkSlicePorts(s.Ports, f.At("ports"))
	if old != nil && equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		return
	}
	at := f.At("endpoints")
	if n := len(s.Endpoints); n > maxSliceEndpoints {
		at.TooMany(n, maxSliceEndpoints)
		return
	}
	for i := range s.Endpoints {
		c.checkSliceEndpoint(s.AddressType, &s.Endpoints[i], at.Index(i))
	}
}

func (c *cluster) checkSliceEndpoint(kind discoveryv1.AddressType, e *discoveryv1.Endpoint, at status.Field) {
	addresses := at.Child("addresses")
	switch n := len(e.Addresses); {
	case n == 0:
		addresses.Required("must contain at least 1 address")
	case n > maxSliceAddresses:
		addresses.TooMany(n, maxSliceAddresses)
	}
	for i, a := range e.Addresses {
		c.checkSliceAddress(kind, a, addresses, i)
	}
	isNodeName(at.Child("nodeName"), e.NodeName)
	if name := e.Hostname; name != nil {
		if why := meta.CheckDNSLabel(*name); why != "" {
			at.Child("hostname").Invalid(*name, why)
		}
	}
	if e.Hints != nil {
		checkHints(e.Hints, at.Child("hints"))
	}
}

// checkSliceAddress checks one address of an endpoint, of the type that the slice names.
func (c *cluster) checkSliceAddress(kind discoveryv1.AddressType, a string, addresses status.Field, i int) {
	at := addresses.Index(i)
	switch kind {
	case discoveryv1.AddressTypeFQDN:
		isFullName(at, a)
	case discoveryv1.AddressTypeIPv4:
		if !c.isIP(at, a) {
			return
		}
		if !netutils.IsIPv4String(a) {
			addresses.Invalid(a, "must be an IPv4 address")
		}
		isElsewhere(at, a)
	case discoveryv1.AddressTypeIPv6:
		if !asInvalid(at, validation.IsValidIP(nil, a)) {
			return
		}
		if !netutils.IsIPv6String(a) {
			addresses.Invalid(a, "must be an IPv6 address")
		}
		isElsewhere(at, a)
	}
}

// isFullName reports a text that is not the full name of a host, with its domain. A dot may end it.
func isFullName(at status.Field, name string) {
	if name == "" {
		at.Required("")
		return
	}
	name = strings.TrimSuffix(name, ".")
	if why := meta.CheckDNSSubdomain(name); why != "" {
		at.Invalid(name, why)
		return
	}
	if !strings.Contains(name, ".") {
		at.Invalid(name, "should be a domain with at least two segments separated by dots")
		return
	}
	for label := range strings.SplitSeq(name, ".") {
		if why := meta.CheckDNSLabel(label); why != "" {
			at.Invalid(label, why)
		}
	}
}

// checkHints checks for which zones and nodes an endpoint is best.
func checkHints(h *discoveryv1.EndpointHints, at status.Field) {
	list := at.Child("forZones")
	if n := len(h.ForZones); n > maxSliceHints {
		list.TooMany(n, maxSliceHints)
		return
	}
	seen := map[string]bool{}
	for i, z := range h.ForZones {
		one := list.Index(i).Child("name")
		if seen[z.Name] {
			one.Duplicate(z.Name)
		}
		seen[z.Name] = true
		if why := meta.CheckLabelValue(z.Name); why != "" {
			one.Invalid(z.Name, why)
		}
	}
	list = at.Child("forNodes")
	if n := len(h.ForNodes); n > maxSliceHints {
		list.TooMany(n, maxSliceHints)
		return
	}
	seen = map[string]bool{}
	for i, n := range h.ForNodes {
		one := list.Index(i).Child("name")
		if seen[n.Name] {
			one.Duplicate(n.Name)
		}
		seen[n.Name] = true
		isNodeName(one, &n.Name)
	}
}

func checkSlicePorts(ports []discoveryv1.EndpointPort, at status.Field) {
	if n := len(ports); n > maxSlicePorts {
		at.TooMany(n, maxSlicePorts)
		return
	}
	names := map[string]bool{}
	for i, p := range ports {
		one := at.Index(i)
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name != "" {
			isLabel(one.Child("name"), name)
		}
		if names[name] {
			one.Child("name").Duplicate(name)
		}
		names[name] = true
		if p.Protocol != nil {
			oneOf(one.Child("protocol"), *p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		isQualifiedIf(one.Child("appProtocol"), p.AppProtocol)
	}
}

// dropTopology takes away what the first version of endpoint slices said of the place of an endpoint. An endpoint that an
// update moves out of there keeps the name of its node, which the topology named as that of the host.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	nodes := map[string]bool{}
	if old != nil {
		if equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
			return
		}
		for _, e := range old.Endpoints {
			nodes[e.DeprecatedTopology[corev1.LabelHostname]] = true
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if name := e.DeprecatedTopology[corev1.LabelHostname]; e.NodeName == nil && nodes[name] && meta.CheckDNSSubdomain(name) == "" {
			e.NodeName = &name
		}
		e.DeprecatedTopology = nil
	}
}
