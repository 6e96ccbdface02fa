package kube

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/big"
	"net/netip"
	"slices"
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
		if p.NodePort > 0 && reachedOnNodes(&s.Spec) { // other services may name ports that they do not get
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
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrInvalid) { // no key can hold what the rules refuse later
		return "", nil
	}
	return string(rec.Value), err
}

// completeService gives a service its addresses and the node ports that it needs, and releases those
// that it no longer needs.
func (c *cluster) completeService(ctx context.Context, s, old *corev1.Service) error {
	f := &status.Fields{}
	if old == nil && s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0 { // the client knows only the singular
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
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
	if c.completeFamilies(s, old, f); f.Len() == 0 {
		if err := c.takeAddresses(ctx, s, old, f); err != nil {
			return err
		}
	}
	if f.Len() == 0 { // as in Kubernetes, what is wrong with addresses is reported alone
		if err := c.takePorts(ctx, s, old, f); err != nil {
			return err
		}
	}
	if problems := f.Errors(); len(problems) > 0 {
		return status.Invalid(meta.GroupKind{Kind: "Service"}, s.Name, problems)
	}
	return nil
}

// takeAddresses assigns the addresses that a service lacks, one of each of its families.
func (c *cluster) takeAddresses(ctx context.Context, s, old *corev1.Service, f *status.Fields) error {
	spec := &s.Spec
	first := 0
	switch {
	case !needsAddress(spec), keepsPreference(s, old), isHeadless(spec):
		return nil
	case old == nil, !needsAddress(&old.Spec):
	case isHeadless(&old.Spec), len(old.Spec.IPFamilies) != 1, len(spec.IPFamilies) != 2:
		return nil
	default:
		first = 1 // the address of the second family that it gets with this update
	}
	for i := first; i < len(spec.IPFamilies); i++ {
		if i < len(spec.ClusterIPs) && spec.ClusterIPs[i] != "" {
			if err := c.claimAddress(ctx, s, spec.ClusterIPs[i], f); err != nil {
				return err
			}
			continue
		}
		ip, err := c.freeAddress(ctx, s, spec.IPFamilies[i])
		if err != nil {
			return err
		}
		spec.ClusterIPs = append(slices.Clone(spec.ClusterIPs[:min(i, len(spec.ClusterIPs))]), ip)
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

// claimAddress reports an address that a client asks for and that the service cannot have.
func (c *cluster) claimAddress(ctx context.Context, s *corev1.Service, text string, f *status.Fields) error {
	ip, ok := parseIP(text)
	if !ok {
		return nil // it has been reported
	}
	ranges, err := c.ready(familyOf(text))
	if err != nil {
		return err
	}
	refuse := func(why string) {
		f.At("spec", "clusterIPs").Invalid(s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %s", text, why))
	}
	if !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return hasAddress(p, ip) }) {
		refuse("the provided network does not match the current range")
		return nil
	}
	taken, err := c.addressTaken(ctx, ip.String(), s)
	if taken {
		refuse("provided IP is already allocated")
	}
	return err
}

// freeAddress finds an unused address of a family. The uid decides where the search in a range begins,
// so that simultaneous searches seldom find the same one.
func (c *cluster) freeAddress(ctx context.Context, s *corev1.Service, family corev1.IPFamily) (string, error) {
	ranges, err := c.ready(family)
	if err != nil {
		return "", err
	}
	for _, p := range ranges {
		count := sizeOf(p)
		// Users choose addresses at the beginning of a range, so these are given out last (KEP-3070).
		chosen := staticBand(count)
		for _, part := range [][2]uint64{{chosen, count - chosen}, {0, chosen}} {
			from, count := part[0], part[1]
			found, err := c.free(string(s.UID), count, func(i uint64) (bool, error) {
				return c.freeAddressTaken(ctx, nth(p, from+i+1).String(), s)
			})
			if err != nil {
				return "", err
			}
			if found >= 0 {
				return nth(p, from+uint64(found)+1).String(), nil
			}
		}
	}
	full := fmt.Sprintf("failed to allocate a serviceIP for Service %q: range is full", s.Name)
	return "", status.Internal(errors.New(full)).WithMessage("Internal error occurred: " + full)
}

// freeAddressTaken reports whether a service has an address, or something else according to the IPAddresses
// that are known here. The commit notices the others.
func (c *cluster) freeAddressTaken(ctx context.Context, ip string, s *corev1.Service) (bool, error) {
	if c.isOwnAddress(ip, s) {
		return true, nil
	}
	owner, err := c.owner(ctx, addressKey(ip))
	if owner != "" || err != nil {
		return true, err
	}
	served, ok := c.engine.Load().Set().StoredAs(ipAddressStorage)
	if !ok {
		return false, nil
	}
	_, taken := served.Cache.Newest(storage.ObjectKey(ipAddressStorage, "", ip))
	return taken, nil
}

// addressTaken reports whether a service or something else has an address.
func (c *cluster) addressTaken(ctx context.Context, ip string, s *corev1.Service) (bool, error) {
	owner, err := c.owner(ctx, addressKey(ip))
	if err != nil || owner != "" {
		return owner != s.Namespace+"/"+s.Name, err
	}
	_, err = c.engine.Load().Store().Get(ctx, storage.ObjectKey(ipAddressStorage, "", ip))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return true, ignoreUnreadable(err)
}

// ignoreUnreadable returns nil for a record that exists and cannot be read.
func ignoreUnreadable(err error) error {
	if errors.Is(err, storage.ErrUnreadable) {
		return nil
	}
	return err
}

// isOwnAddress reports the address of the service `kubernetes`, which no other service is given.
func (c *cluster) isOwnAddress(ip string, s *corev1.Service) bool {
	return ip == nth(c.ServiceRange, 1).String() && (s.Namespace != "default" || s.Name != ownServiceName)
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

// free finds a number below count that is not taken, or returns -1 if there is none among the first that
// it tries.
func (c *cluster) free(seed string, count uint64, taken func(uint64) (bool, error)) (int64, error) {
	if count == 0 {
		return -1, nil
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed)) // it cannot fail
	start := binary.BigEndian.Uint64(h.Sum(nil)) % count
	for i := range min(count, 1<<16) {
		n := (start + i) % count
		if is, err := taken(n); err != nil || !is {
			return int64(n), err
		}
	}
	return -1, nil
}

// takePorts assigns the node ports.
func (c *cluster) takePorts(ctx context.Context, s, old *corev1.Service, f *status.Fields) error {
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
		if old == nil || !needsHealthPort(&old.Spec) { // validation rejects another one
			if err := c.checkPort(ctx, s, portKey(corev1.ProtocolTCP, p), p, f.At("spec", "healthCheckNodePort")); err != nil {
				return err
			}
		}
		mine[portKey(corev1.ProtocolTCP, p)] = true
	}
	if err := c.checkRoom(s, f); err != nil || f.Len() > 0 {
		return err
	}
	return c.givePorts(ctx, s, old == nil, mine)
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
func (c *cluster) givePorts(ctx context.Context, s *corev1.Service, isNew bool, mine map[string]bool) error {
	if needsPorts(&s.Spec) {
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			if p.NodePort != 0 {
				continue
			}
			port, err := c.freePort(ctx, s, i, isNew, mine)
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

// freePort finds a node port for one of a service's ports. Two protocols of one port of a new service get the same
// one if it is free, whichever of them names it.
func (c *cluster) freePort(ctx context.Context, s *corev1.Service, i int, isNew bool, mine map[string]bool) (int32, error) {
	p := s.Spec.Ports[i]
	for _, q := range s.Spec.Ports {
		if isNew && q.Port == p.Port && q.Protocol != p.Protocol && q.NodePort != 0 && !mine[portKey(p.Protocol, q.NodePort)] {
			owner, err := c.owner(ctx, portKey(p.Protocol, q.NodePort))
			if err != nil || owner == "" {
				return q.NodePort, err
			}
		}
	}
	return c.searchPort(ctx, fmt.Sprintf("%s/%d", s.UID, i), p.Protocol, mine)
}

// searchPort finds a node port that no service has and that this one does not want for another of
// its ports. Users choose ports at the beginning of the range, so these are given out last (KEP-3668).
func (c *cluster) searchPort(ctx context.Context, seed string, protocol corev1.Protocol, mine map[string]bool) (int32, error) {
	count := uint64(c.NodePorts[1] - c.NodePorts[0] + 1)
	chosen := staticPorts(count)
	for _, part := range [][2]uint64{{chosen, count - chosen}, {0, chosen}} {
		first := c.NodePorts[0] + int32(part[0])
		found, err := c.free(seed, part[1], func(n uint64) (bool, error) {
			key := portKey(protocol, first+int32(n))
			if mine[key] {
				return true, nil
			}
			owner, err := c.owner(ctx, key)
			return owner != "", err
		})
		if err != nil {
			return 0, err
		}
		if found >= 0 {
			return first + int32(found), nil
		}
	}
	return 0, status.Internal(errors.New("the range of ports of services on nodes is full")).WithMessage("failed to allocate a nodePort: range is full")
}

// staticPorts returns how many of the first node ports are left for users to choose.
func staticPorts(count uint64) uint64 {
	if count <= 16 {
		return 0
	}
	return min(max(count/32, 16), 128)
}
