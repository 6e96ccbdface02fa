package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Each address of a service has an IPAddress, which is created and deleted in the same commit as the
// service gets and loses the address. Clients see by them what is in use, and take addresses for other
// purposes by creating some of their own. They can also delete one by mistake. So the record of an
// address, and not its IPAddress, says that it is a service's, and a loop makes the IPAddress anew.

const (
	ipAddressStorage = networkingv1.GroupName + "/ipaddresses"
	addressManager   = "ipallocator.k8s.io" // what Kubernetes calls the part that does this
	serverManager    = "kube-apiserver"

	repairEvery = 3 * time.Minute
	orphanAge   = time.Minute // an IPAddress without a service that is younger stays
)

var (
	ipAddressResource = meta.GroupVersionResource{Group: networkingv1.GroupName, Version: "v1", Resource: "ipaddresses"}
	endpointsResource = meta.GroupVersionResource{Version: "v1", Resource: "endpoints"}
)

// serverUser is who writes what the server itself needs.
func serverUser() authn.User {
	return authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}
}

// addressesOf returns the names of the IPAddresses of a service.
func addressesOf(s *corev1.Service) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, ip := range s.Spec.ClusterIPs {
		if a, ok := parseIP(ip); ok {
			out = append(out, a.String())
		}
	}
	return out
}

// serviceObjects returns the IPAddresses that come and go with a change of a service. Its endpoints go with it: a new
// service of the name must not find the old ones, which a controller would remove some time later.
func serviceObjects(old, next registry.Tree) ([]registry.Companion, error) {
	var sides [2]*corev1.Service
	for i, t := range []registry.Tree{old, next} {
		if t == nil {
			continue
		}
		s, err := decode[corev1.Service](t)
		if err != nil {
			return nil, err
		}
		sides[i] = s
	}
	before, after := addressesOf(sides[0]), addressesOf(sides[1])
	var out []registry.Companion
	for _, ip := range after {
		if slices.Contains(before, ip) {
			continue
		}
		body, err := json.Marshal(newIPAddress(ip, sides[1]))
		if err != nil {
			return nil, err
		}
		out = append(out, registry.Companion{Target: registry.Target{Resource: ipAddressResource, Name: ip}, Body: body, FieldManager: serverManager})
	}
	for _, ip := range before {
		if !slices.Contains(after, ip) {
			out = append(out, registry.Companion{Target: registry.Target{Resource: ipAddressResource, Name: ip}})
		}
	}
	if gone := sides[0]; gone != nil && sides[1] == nil {
		out = append(out, registry.Companion{Target: registry.Target{Resource: endpointsResource, Namespace: gone.Namespace, Name: gone.Name}})
	}
	return out, nil
}

// newIPAddress returns the IPAddress of a service.
func newIPAddress(ip string, s *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "IPAddress"},
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(ip)), networkingv1.LabelManagedBy: addressManager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
}

// checkIPAddress checks what an IPAddress is for.
func checkIPAddress(a *networkingv1.IPAddress, f *status.Fields) {
	at := f.At("spec", "parentRef")
	ref := a.Spec.ParentRef
	if ref == nil {
		at.Required("")
		return
	}
	if ref.Group != "" { // services have none
		for _, why := range validation.IsDNS1123Subdomain(ref.Group) {
			at.Child("group").Invalid(ref.Group, why)
		}
	}
	for _, one := range []struct {
		field, value string
		required     bool
	}{{"resource", ref.Resource, true}, {"name", ref.Name, true}, {"namespace", ref.Namespace, false}} {
		if one.value == "" {
			if one.required {
				at.Child(one.field).Required("")
			}
			continue
		}
		for _, why := range content.IsPathSegmentName(one.value) {
			at.Child(one.field).Invalid(one.value, why)
		}
	}
}

func checkIPAddressUpdate(a, old *networkingv1.IPAddress, f *status.Fields) {
	now, before := a.Spec.ParentRef, old.Spec.ParentRef
	if (now == nil) != (before == nil) || now != nil && *now != *before {
		f.At("spec", "parentRef").Invalid(goFields(now), "field is immutable")
	}
}

// goFields returns a reference as Kubernetes' messages show it.
func goFields(r *networkingv1.ParentReference) any {
	if r == nil {
		return nil
	}
	return struct{ Group, Resource, Namespace, Name string }{r.Group, r.Resource, r.Namespace, r.Name}
}

// repairHook makes the IPAddresses that services lack, such as those of services that an earlier version of
// this program stored, and removes those that lack a service.
func (c *cluster) repairHook() registry.Hook {
	return registry.Hook{
		Name: "start-service-ip-repair-controllers",
		Run: func(ctx context.Context, o registry.Objects) {
			ticks := time.NewTicker(repairEvery)
			defer ticks.Stop()
			for {
				if err := c.repairAddresses(ctx, o); err != nil && ctx.Err() == nil {
					c.engine.Load().Logger().Error(err, "not every address of a service has its IPAddress; trying again", "after", repairEvery.String())
				}
				select {
				case <-ctx.Done():
					return
				case <-ticks.C:
				}
			}
		},
	}
}

// repairAddresses compares services and IPAddresses once.
func (c *cluster) repairAddresses(ctx context.Context, o registry.Objects) error {
	if len(o.ResourcesOf(reflect.TypeFor[networkingv1.IPAddress]())) == 0 {
		return nil
	}
	all := registry.From[networkingv1.IPAddress](o).AsSystem().With(registry.WriteOptions{FieldManager: serverManager})
	have := map[string]*networkingv1.IPAddress{}
	for a, err := range all.List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			return fmt.Errorf("list the addresses: %w", err)
		}
		have[a.Name] = a
	}
	// The addresses are older than the services in these lists. So what a service lacks may be there by now,
	// and what no service has may be one's by now.
	used := map[string]bool{}
	var problems []error
	for s, err := range registry.From[corev1.Service](o).AsSystem().List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			return fmt.Errorf("list the services: %w", err)
		}
		for _, ip := range addressesOf(s) {
			used[ip] = true
			problems = append(problems, c.repairAddress(ctx, all, have[ip], newIPAddress(ip, s)))
		}
	}
	for ip, a := range have {
		if a.Labels[networkingv1.LabelManagedBy] == addressManager && !used[ip] && c.now().Sub(a.CreationTimestamp.Time) > orphanAge {
			problems = append(problems, c.removeOrphan(ctx, all, a))
		}
	}
	return errors.Join(problems...)
}

// repairAddress makes the IPAddress of a service what it should be, if the service still has the address.
func (c *cluster) repairAddress(ctx context.Context, all registry.Front[networkingv1.IPAddress], have, want *networkingv1.IPAddress) error {
	if have != nil {
		same := have.Spec.ParentRef != nil && *have.Spec.ParentRef == *want.Spec.ParentRef
		for name, value := range want.Labels {
			same = same && have.Labels[name] == value
		}
		if same {
			return nil
		}
		err := all.Delete(ctx, "", have.Name, registry.DeleteOptions{UID: meta.UID(have.UID)})
		if status.IsNotFound(err) || status.IsConflict(err) {
			return nil // it changes; the next comparison sees what it is then
		}
		if err != nil {
			return fmt.Errorf("replace the IPAddress %s: %w", have.Name, err)
		}
	}
	key, ref := addressKey(want.Name), want.Spec.ParentRef
	record, err := c.engine.Load().Store().Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && string(record.Value) != ref.Namespace+"/"+ref.Name {
		return nil
	}
	if err != nil {
		return err
	}
	still := engine.Along(ctx, storage.Check(key, storage.Expect(record.Revision)))
	if _, err := all.Create(still, want); err != nil && !status.IsAlreadyExists(err) && !errors.Is(err, engine.ErrOvertaken) {
		return fmt.Errorf("create the IPAddress %s: %w", want.Name, err)
	}
	return nil
}

// removeOrphan removes an IPAddress that no service has.
func (c *cluster) removeOrphan(ctx context.Context, all registry.Front[networkingv1.IPAddress], a *networkingv1.IPAddress) error {
	if owner, err := c.owner(ctx, addressKey(a.Name)); err != nil || owner != "" {
		return err
	}
	err := all.Delete(ctx, "", a.Name, registry.DeleteOptions{UID: meta.UID(a.UID)})
	if status.IsNotFound(err) || status.IsConflict(err) {
		return nil
	}
	return err
}
