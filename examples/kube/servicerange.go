package kube

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	kmeta "github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Services get their addresses from the ranges of the ServiceCIDRs that are ready. The server makes the
// first ServiceCIDR of its options. kube-controller-manager says whether one is ready, and keeps one
// whose addresses are in use by a finalizer. Without it, all are ready and end at once.

const (
	defaultServiceCIDR = "kubernetes"
	serviceCIDRManager = "kubernetes-service-cidr-controller"
	serviceCIDRLooks   = 10 * time.Second // how soon the default ServiceCIDR is there again
)

var serviceCIDRResource = kmeta.GroupVersionResource{Group: networkingv1.GroupName, Version: "v1", Resource: "servicecidrs"}

// ownRanges are the ranges of the options.
func (c *cluster) ownRanges() []netip.Prefix {
	if c.SecondServiceRange.IsValid() {
		return []netip.Prefix{c.ServiceRange, c.SecondServiceRange}
	}
	return []netip.Prefix{c.ServiceRange}
}

// serviceRanges follows the ServiceCIDRs.
type serviceRanges struct {
	declared namespaceIndex[networkingv1.ServiceCIDR]
	observed *engine.Observation
}

// observe begins to follow them, and returns when those that exist are known.
func (r *serviceRanges) observe(ctx context.Context, e *engine.Engine) (err error) {
	if r.observed, err = e.Observe(serviceCIDRResource.GroupResource(), &r.declared); err != nil || !r.observed.Attached() {
		return err
	}
	looks := time.NewTicker(time.Millisecond)
	defer looks.Stop()
	for r.observed.Err() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-looks.C:
		}
	}
	return nil
}

// ready returns the ranges of one family that services can get addresses from: those of the options first,
// then in the order of the names of their objects. While there is no default ServiceCIDR, the ranges of
// the options stand for it.
func (c *cluster) ready(family corev1.IPFamily) ([]netip.Prefix, error) {
	if o := c.ranges.observed; o != nil && o.Attached() && o.Err() != nil {
		return nil, status.ServiceUnavailable("the ranges of addresses of services are not known at the moment; please try again")
	}
	var out []netip.Prefix
	add := func(p netip.Prefix) {
		p = p.Masked()
		tooWide := p.Addr().Is6() && p.Bits() < 64 // Kubernetes takes no addresses from these
		if p.Addr().Is6() == (family == corev1.IPv6Protocol) && !tooWide && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	all := c.ranges.declared.of("")
	isDefault := func(one indexed[networkingv1.ServiceCIDR]) bool { return one.name == defaultServiceCIDR }
	if !slices.ContainsFunc(all, isDefault) {
		for _, p := range c.ownRanges() {
			add(p)
		}
	}
	for _, wanted := range []bool{true, false} {
		for _, one := range all {
			if isDefault(one) != wanted || !givesAddresses(one.object) {
				continue
			}
			for _, text := range one.object.Spec.CIDRs {
				if p, err := netip.ParsePrefix(text); err == nil {
					add(p)
				}
			}
		}
	}
	return out, nil
}

// givesAddresses reports whether services can get addresses from a ServiceCIDR. One without a condition is
// ready: nobody may be there to say so.
func givesAddresses(s *networkingv1.ServiceCIDR) bool {
	said := meta.FindStatusCondition(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return s.DeletionTimestamp == nil && (said == nil || said.Status == metav1.ConditionTrue)
}

// hasAddress reports whether services can have an address of a range. The first names the range, and
// the last of an IPv4 range is for broadcasts.
func hasAddress(p netip.Prefix, ip netip.Addr) bool {
	return p.Contains(ip) && ip != p.Masked().Addr() && (ip.Is6() || p.Contains(ip.Next()))
}

// sizeOf returns how many addresses of a range services can have. They are numbered from 1.
func sizeOf(p netip.Prefix) uint64 {
	size := uint64(1)<<min(p.Addr().BitLen()-p.Bits(), 62) - 1
	if p.Addr().Is4() && size > 0 {
		size--
	}
	return size
}

// checkServiceCIDR checks the ranges of a ServiceCIDR, of which there is one of each family.
func checkServiceCIDR(s *networkingv1.ServiceCIDR, f *status.Fields) {
	at := f.At("spec", "cidrs")
	cidrs := s.Spec.CIDRs
	switch n := len(cidrs); {
	case n == 0:
		at.Required("at least one CIDR required")
		return
	case n > 2:
		at.Invalid(struct{ CIDRs []string }{cidrs}, "may only hold up to 2 values")
		return
	}
	for i, cidr := range cidrs {
		asInvalid(at.Index(i), validation.IsValidCIDR(nil, cidr))
	}
	if len(cidrs) == 2 {
		first, second := netutils.IPFamilyOfCIDRString(cidrs[0]), netutils.IPFamilyOfCIDRString(cidrs[1])
		if first == second && first != netutils.IPFamilyUnknown {
			at.Invalid(cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
	}
}

// checkServiceCIDRUpdate checks that the ranges stay, but for a second one that is added.
func checkServiceCIDRUpdate(s, old *networkingv1.ServiceCIDR, f *status.Fields) {
	const why = "field is immutable"
	at := f.At("spec", "cidrs")
	now, before := s.Spec.CIDRs, old.Spec.CIDRs
	switch {
	case len(now) != len(before) && (len(before) != 1 || len(now) != 2):
		at.Invalid(append([]string{}, now...), why) // an empty list, and not null
		return
	case len(now) > len(before):
		defer checkServiceCIDR(s, f)
	}
	for i := range before {
		if now[i] != before[i] {
			at.Index(i).Invalid(now[i], why)
		}
	}
}

// rangeHook keeps the default ServiceCIDR.
func (c *cluster) rangeHook() registry.Hook {
	return registry.Hook{
		Name: "start-kubernetes-service-cidr-controller",
		Run:  every(serviceCIDRLooks, c.ensureRange),
	}
}

// ensureRange creates the default ServiceCIDR and says that it is ready, unless it exists. One with other
// ranges than the options stays, but for a second range, which is added.
func (c *cluster) ensureRange(ctx context.Context, o registry.Objects) error {
	ctx = authn.WithUser(ctx, serverUser())
	var want []string
	for _, p := range c.ownRanges() {
		want = append(want, p.Masked().String())
	}
	all := registry.From[networkingv1.ServiceCIDR](o).With(registry.WriteOptions{FieldManager: serverManager})
	have, err := all.Get(ctx, "", defaultServiceCIDR)
	if status.IsNotFound(err) {
		have, err = all.Create(ctx, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: defaultServiceCIDR},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: want},
		})
		if status.IsAlreadyExists(err) { // another server was faster
			have, err = all.Get(ctx, "", defaultServiceCIDR)
		}
	}
	if err != nil {
		return err
	}
	if len(want) == 2 && len(have.Spec.CIDRs) == 1 && have.Spec.CIDRs[0] == want[0] {
		have.Spec.CIDRs = want
		if have, err = all.Update(ctx, have); err != nil {
			return err
		}
	}
	said := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if have.DeletionTimestamp != nil || !reflect.DeepEqual(have.Spec.CIDRs, want) || said != nil && said.Status != metav1.ConditionUnknown {
		return nil
	}
	return sayReady(ctx, o, c.now())
}

// sayReady sets the condition of the default ServiceCIDR.
func sayReady(ctx context.Context, o registry.Objects, now time.Time) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": serviceCIDRResource.GroupVersion().String(), "kind": "ServiceCIDR",
		"metadata": map[string]any{"name": defaultServiceCIDR},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": networkingv1.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue),
			"lastTransitionTime": now.UTC().Format(time.RFC3339), "message": "Kubernetes default Service CIDR is ready",
		}}},
	})
	if err != nil {
		return err
	}
	_, err = o.Patch(ctx, registry.Target{Resource: serviceCIDRResource, Name: defaultServiceCIDR, Subresource: "status"},
		registry.PatchRequest{Type: kmeta.ApplyPatch, Body: body}, registry.WriteOptions{FieldManager: serviceCIDRManager, Force: true})
	return err
}
