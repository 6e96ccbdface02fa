package kube

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/big"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// A record in the store represents each address or port in use and names its service. It is
// committed together with the service. So two services never have the same one, on any number of
// servers.
// addressKey is the same for all spellings of an address.
func addressKey(ip string) string {
	if a, ok := parseIP(ip); ok {
		ip = a.String()
	}
	return storage.SysKey("service-address", ip)
}

func portKey(protocol corev1.Protocol, port int32) string {
	return storage.SysKey("node-port", string(protocol)+"-"+strconv.Itoa(int(port)))
}

// takenBy returns the addresses and ports of a service, with its name.
func takenBy(s *corev1.Service) map[string]string {
	out := map[string]string{}
	if s == nil {
		return out
	}
	owner := s.Namespace + "/" + s.Name
	for _, ip := range s.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone && ip != "" {
			out[addressKey(ip)] = owner
		}
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort > 0 {
			out[portKey(p.Protocol, p.NodePort)] = owner
		}
	}
	if p := s.Spec.HealthCheckNodePort; p > 0 {
		out[portKey(corev1.ProtocolTCP, p)] = owner
	}
	return out
}

// addressChanges returns the operations on those records for a change of a service.
func addressChanges(old, next registry.Tree) ([]storage.Op, error) {
	before, after := map[string]string{}, map[string]string{}
	for _, side := range []struct {
		tree registry.Tree
		into *map[string]string
	}{{old, &before}, {next, &after}} {
		if side.tree == nil {
			continue
		}
		s, err := decode[corev1.Service](side.tree)
		if err != nil {
			return nil, err
		}
		*side.into = takenBy(s)
	}
	var ops []storage.Op
	for _, key := range sortedNames(after) {
		if before[key] == "" {
			ops = append(ops, storage.Put(key, []byte(after[key]), storage.Absent))
		}
	}
	for _, key := range sortedNames(before) {
		if after[key] == "" {
			ops = append(ops, storage.Delete(key, storage.Any))
		}
	}
	return ops, nil
}

// owner returns the service that holds an address or port, or "" if none does.
func (c *cluster) owner(ctx context.Context, key string) (string, error) {
	e := c.engine.Load()
	if e == nil {
		return "", errors.New("the server has not started")
	}
	rec, err := e.Store().Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	return string(rec.Value), err
}

// completeService gives a service its address and the node ports that it needs, and releases those
// that it no longer needs.
func (c *cluster) completeService(ctx context.Context, s, old *corev1.Service) error {
	f := &status.Fields{}
	if old != nil {
		inherit(&s.Spec, &old.Spec)
		dropForType(&s.Spec, &old.Spec)
		if old.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		}
	}
	if !needsAddress(&s.Spec) {
		s.Spec.InternalTrafficPolicy = nil // clients once had to send it
	}
	if needsAddress(&s.Spec) {
		if err := c.takeAddress(ctx, s, f); err != nil {
			return err
		}
	}
	if err := c.takePorts(ctx, s, f); err != nil {
		return err
	}
	if problems := f.Errors(); len(problems) > 0 {
		return status.Invalid(meta.GroupKind{Kind: "Service"}, s.Name, problems)
	}
	return nil
}

// takeAddress assigns the address and the address family.
func (c *cluster) takeAddress(ctx context.Context, s *corev1.Service, f *status.Fields) error {
	spec := &s.Spec
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.ClusterIP == "" {
		ip, err := c.freeAddress(ctx, string(s.UID))
		if err != nil {
			return err
		}
		spec.ClusterIP = ip
	}
	if len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	c.sayFamily(spec)
	if spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	ip, ok := parseIP(spec.ClusterIP)
	if !ok {
		return nil // validation reports it
	}
	if !c.ServiceRange.Contains(ip) {
		f.At("spec", "clusterIPs").Invalid(spec.ClusterIPs,
			fmt.Sprintf("failed to allocate IP %s: the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip, ip, c.ServiceRange))
		return nil
	}
	owner, err := c.owner(ctx, addressKey(spec.ClusterIP))
	if owner != "" && owner != s.Namespace+"/"+s.Name {
		f.At("spec", "clusterIPs").Invalid(spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", ip))
	}
	return err
}

// sayFamily fills in the address family. There is one range, and so one family.
func (c *cluster) sayFamily(spec *corev1.ServiceSpec) {
	point(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(spec.IPFamilies) > 0 {
		return
	}
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	if c.ServiceRange.Addr().Is6() {
		spec.IPFamilies[0] = corev1.IPv6Protocol
	}
}

// freeAddress finds an unused address. The seed decides where the search begins, so that
// simultaneous searches seldom find the same one.
func (c *cluster) freeAddress(ctx context.Context, seed string) (string, error) {
	width := c.ServiceRange.Addr().BitLen() - c.ServiceRange.Bits()
	count := uint64(1)<<min(width, 62) - 2 // without the first, which names the range, and the last; the second is the server's own
	numbered := func(from uint64) func(uint64) string {
		return func(i uint64) string { return addressKey(nth(c.ServiceRange, from+i+2).String()) }
	}
	// Users choose addresses at the beginning of the range, so these are given out last (KEP-3070).
	chosen := staticBand(count - 1)
	from := chosen
	found, err := c.free(ctx, seed, count-1-chosen, numbered(from), nil)
	if err == nil && found < 0 && chosen > 0 {
		from = 0
		found, err = c.free(ctx, seed, chosen, numbered(from), nil)
	}
	if err != nil {
		return "", err
	}
	if found < 0 {
		return "", status.Internal(fmt.Errorf("the range %s of addresses of services is full", c.ServiceRange)).WithMessage("failed to allocate a serviceIP: range is full")
	}
	return nth(c.ServiceRange, from+uint64(found)+2).String(), nil
}

// staticBand returns how many of the first addresses are left for users to choose.
func staticBand(count uint64) uint64 {
	band := min(max(count/16, 16), 256)
	if band >= count {
		return 0
	}
	return band
}

// nth returns the address with a number in a range.
func nth(p netip.Prefix, i uint64) netip.Addr {
	base := p.Masked().Addr()
	sum := new(big.Int).Add(new(big.Int).SetBytes(base.AsSlice()), new(big.Int).SetUint64(i))
	b := make([]byte, base.BitLen()/8)
	a, _ := netip.AddrFromSlice(sum.FillBytes(b)) // it has the length of an address
	return a
}

// free finds a number below count whose key has no record and is not among those given, or -1 if
// there is none among the first that it tries.
func (c *cluster) free(ctx context.Context, seed string, count uint64, key func(uint64) string, mine map[string]bool) (int64, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed)) // it cannot fail
	start := binary.BigEndian.Uint64(h.Sum(nil)) % count
	for i := range min(count, 1<<16) {
		n := (start + i) % count
		if mine[key(n)] {
			continue
		}
		owner, err := c.owner(ctx, key(n))
		if err != nil || owner == "" {
			return int64(n), err
		}
	}
	return -1, nil
}

// takePorts assigns the node ports.
func (c *cluster) takePorts(ctx context.Context, s *corev1.Service, f *status.Fields) error {
	mine := map[string]bool{}
	for i, p := range s.Spec.Ports {
		if p.NodePort == 0 || !reachedOnNodes(&s.Spec) {
			continue // validation rejects the others
		}
		if err := c.checkPort(ctx, s, portKey(p.Protocol, p.NodePort), p.NodePort, f.At("spec", "ports").Index(i).Child("nodePort")); err != nil {
			return err
		}
		mine[portKey(p.Protocol, p.NodePort)] = true
	}
	if p := s.Spec.HealthCheckNodePort; p != 0 && needsHealthPort(&s.Spec) {
		if err := c.checkPort(ctx, s, portKey(corev1.ProtocolTCP, p), p, f.At("spec", "healthCheckNodePort")); err != nil {
			return err
		}
		mine[portKey(corev1.ProtocolTCP, p)] = true
	}
	if err := c.checkRoom(s, f); err != nil || f.Len() > 0 {
		return err
	}
	return c.givePorts(ctx, s, mine)
}

// checkPort reports a node port out of range, or one of another service.
func (c *cluster) checkPort(ctx context.Context, s *corev1.Service, key string, port int32, at status.Field) error {
	owner, err := c.owner(ctx, key)
	switch {
	case err != nil:
		return err
	case port < c.NodePorts[0] || port > c.NodePorts[1]:
		at.Invalid(port, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", c.NodePorts[0], c.NodePorts[1]))
	case owner != "" && owner != s.Namespace+"/"+s.Name:
		at.Invalid(port, "provided port is already allocated")
	}
	return nil
}

// checkRoom reports a service with more node ports than the store takes in one commit. Each is an
// operation, beside those on the service itself and its addresses.
func (c *cluster) checkRoom(s *corev1.Service, f *status.Fields) error {
	const others = 8
	e := c.engine.Load()
	if e == nil {
		return errors.New("the server has not started")
	}
	if most := e.Store().Limits().MaxOps - others; reachedOnNodes(&s.Spec) && len(s.Spec.Ports) > most {
		f.At("spec", "ports").TooMany(len(s.Spec.Ports), most)
	}
	return nil
}

// givePorts assigns the node ports that a service still needs.
func (c *cluster) givePorts(ctx context.Context, s *corev1.Service, mine map[string]bool) error {
	if needsPorts(&s.Spec) {
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			if p.NodePort != 0 {
				continue
			}
			port, err := c.freePort(ctx, s, i, mine)
			if err != nil {
				return err
			}
			p.NodePort = port
			mine[portKey(p.Protocol, port)] = true
		}
	}
	if needsHealthPort(&s.Spec) && s.Spec.HealthCheckNodePort == 0 {
		port, err := c.searchPort(ctx, string(s.UID)+"/health", corev1.ProtocolTCP, mine)
		if err != nil {
			return err
		}
		s.Spec.HealthCheckNodePort = port
	}
	return nil
}

// freePort finds a node port for one of a service's ports. Two protocols of one port get the same
// one if it is free.
func (c *cluster) freePort(ctx context.Context, s *corev1.Service, i int, mine map[string]bool) (int32, error) {
	p := s.Spec.Ports[i]
	for _, q := range s.Spec.Ports[:i] {
		if q.Port == p.Port && q.Protocol != p.Protocol && q.NodePort != 0 && !mine[portKey(p.Protocol, q.NodePort)] {
			owner, err := c.owner(ctx, portKey(p.Protocol, q.NodePort))
			if err != nil || owner == "" {
				return q.NodePort, err
			}
		}
	}
	return c.searchPort(ctx, fmt.Sprintf("%s/%d", s.UID, i), p.Protocol, mine)
}

// searchPort finds a node port that no service has and that this one does not want for another of
// its ports.
func (c *cluster) searchPort(ctx context.Context, seed string, protocol corev1.Protocol, mine map[string]bool) (int32, error) {
	count := uint64(c.NodePorts[1] - c.NodePorts[0] + 1)
	found, err := c.free(ctx, seed, count, func(n uint64) string { return portKey(protocol, c.NodePorts[0]+int32(n)) }, mine)
	if err != nil {
		return 0, err
	}
	if found < 0 {
		return 0, status.Internal(errors.New("the range of ports of services on nodes is full")).WithMessage("failed to allocate a nodePort: range is full")
	}
	return c.NodePorts[0] + int32(found), nil
}
