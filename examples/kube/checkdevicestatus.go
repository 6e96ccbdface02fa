package kube

import (
	"context"
	"regexp"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// uuids are ids in the usual form.
var uuids = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// allocatedDevice names a device, or a share of one, that a claim has.
type allocatedDevice struct{ driver, pool, device, share string }

// shareOf is the share in the name of a device. An empty one is none: the schema has it as the default of a key.
func shareOf[S ~string](id *S) string {
	if id == nil || *id == "" {
		return ""
	}
	return "/" + string(*id)
}

// allocatedDevices are the devices that a claim has.
func allocatedDevices(c *resourcev1.ResourceClaim) map[allocatedDevice]bool {
	out := map[allocatedDevice]bool{}
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			out[allocatedDevice{r.Driver, r.Pool, r.Device, shareOf(r.ShareID)}] = true
		}
	}
	return out
}

func stateOf(d *resourcev1.AllocatedDeviceStatus) allocatedDevice {
	return allocatedDevice{d.Driver, d.Pool, d.Device, shareOf(d.ShareID)}
}

// completeClaim forgets the state of devices that the claim no longer has, and what the release does not have.
func completeClaim(ctx context.Context, c, old *resourcev1.ResourceClaim) error {
	dropRequestFields(c.Spec.Devices.Requests)
	if a := c.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			a.Devices.Results[i].SkipNodeOperations = nil
		}
	}
	if old == nil || registry.SubresourceFrom(ctx) != "status" {
		return nil
	}
	had, has := allocatedDevices(old), allocatedDevices(c)
	var kept []resourcev1.AllocatedDeviceStatus
	for i := range c.Status.Devices {
		if d := stateOf(&c.Status.Devices[i]); !had[d] || has[d] {
			kept = append(kept, c.Status.Devices[i])
		}
	}
	c.Status.Devices = kept
	return nil
}

func completeClaimTemplate(_ context.Context, t, _ *resourcev1.ResourceClaimTemplate) error {
	dropRequestFields(t.Spec.Spec.Devices.Requests)
	return nil
}

// dropRequestFields removes what the release does not have.
func dropRequestFields(requests []resourcev1.DeviceRequest) {
	for i := range requests {
		if e := requests[i].Exactly; e != nil {
			e.DerivedAttributes = nil
		}
		for j := range requests[i].FirstAvailable {
			requests[i].FirstAvailable[j].DerivedAttributes = nil
		}
	}
}

// claimUpdate checks a change of a claim: what it asks for stays, and its status says what can be.
func (d deviceChecks) claimUpdate(ctx context.Context, c, old *resourcev1.ResourceClaim, f *status.Fields) {
	if registry.SubresourceFrom(ctx) != "status" {
		same(f.At("spec"), equality.Semantic.DeepEqual(c.Spec, old.Spec), c.Spec)
		return
	}
	at := f.At("status")
	checkReservations(c, old, at.Child("reservedFor"))
	has, seen := allocatedDevices(c), distinct[allocatedDevice]{}
	for i := range c.Status.Devices {
		s, one := &c.Status.Devices[i], at.Child("devices").Index(i)
		checkDeviceState(s, one, f)
		if !has[stateOf(s)] {
			one.Invalid(stateOf(s).String(), "must be an allocated device in the claim")
		}
		if seen[stateOf(s)] {
			one.Duplicate(stateOf(s).String())
		}
		seen[stateOf(s)] = true
	}
	switch a := c.Status.Allocation; {
	case a == nil:
	case old.Status.Allocation != nil:
		same(at.Child("allocation"), equality.Semantic.DeepEqual(a, old.Status.Allocation), a)
	default:
		checkAllocation(a, namesOf(c.Spec.Devices.Requests), at.Child("allocation"))
	}
}

// String returns the name of a device as kube-apiserver writes it.
func (d allocatedDevice) String() string {
	return d.driver + "/" + d.pool + "/" + d.device + d.share
}

// checkReservations checks who uses the devices of a claim.
func checkReservations(c, old *resourcev1.ResourceClaim, at status.Field) {
	all := c.Status.ReservedFor
	if !tooMany(len(all), resourcev1.ResourceClaimReservedForMaxSize, at) {
		seen := distinct[types.UID]{}
		for i, r := range all {
			for _, field := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}, {"uid", string(r.UID)}} {
				if field.value == "" {
					at.Index(i).Child(field.name).Required("")
				}
			}
			seen.check(r.UID, at.Index(i))
		}
	}
	switch {
	case len(all) == 0:
	case c.Status.Allocation == nil:
		at.Forbidden("may not be specified when `allocated` is not set")
	case c.DeletionTimestamp != nil:
		before := map[resourcev1.ResourceClaimConsumerReference]bool{}
		for _, r := range old.Status.ReservedFor {
			before[r] = true
		}
		for _, r := range all {
			if !before[r] {
				at.Forbidden("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
				return
			}
		}
	}
}

// checkAllocation checks which devices a claim gets.
func checkAllocation(a *resourcev1.AllocationResult, names requestNames, at status.Field) {
	devices := at.Child("devices")
	if at := devices.Child("results"); !tooMany(len(a.Devices.Results), resourcev1.AllocationResultsMaxSize, at) {
		for i, r := range a.Devices.Results {
			one := at.Index(i)
			names.check(r.Request, one.Child("request"))
			checkDriverName(r.Driver, one.Child("driver"))
			checkPoolName(r.Pool, one.Child("pool"))
			checkDeviceLabel(r.Device, one.Child("device"))
			checkBindingConditions(r.BindingConditions, r.BindingFailureConditions, one)
			if r.ShareID != nil {
				checkShare(string(*r.ShareID), one.Child("shareID"))
			}
		}
	}
	if at := devices.Child("config"); !tooMany(len(a.Devices.Config), 2*resourcev1.DeviceConfigMaxSize, at) {
		for i := range a.Devices.Config {
			c, one := &a.Devices.Config[i], at.Index(i)
			if c.Source == "" {
				one.Child("source").Required("")
			} else {
				oneOf(one.Child("source"), c.Source, resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
			}
			names.checkAll(c.Requests, one.Child("requests"))
			checkDeviceConfig(&c.DeviceConfiguration, false, one)
		}
	}
	if a.NodeSelector != nil {
		checkNodeSelector(a.NodeSelector, at.Child("nodeSelector"))
	}
}

// checkShare checks the id of a share: a UUID in the usual form.
func checkShare(id string, at status.Field) {
	if !uuids.MatchString(id) {
		at.Invalid(id, "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")
	}
}

// checkDeviceState checks what the driver says of a device.
func checkDeviceState(s *resourcev1.AllocatedDeviceStatus, at status.Field, f *status.Fields) {
	checkDriverName(s.Driver, at.Child("driver"))
	checkPoolName(s.Pool, at.Child("pool"))
	checkDeviceLabel(s.Device, at.Child("device"))
	if shareOf(s.ShareID) != "" {
		checkShare(*s.ShareID, at.Child("shareID"))
	}
	conditions := at.Child("conditions")
	if n := len(s.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		conditions.TooMany(n, resourcev1.AllocatedDeviceStatusMaxConditions)
	}
	checkConditions(f, s.Conditions, conditions.Path().String())
	if s.Data != nil && len(s.Data.Raw) > 0 {
		checkRaw(s.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, at.Child("data"))
	}
	n := s.NetworkData
	if n == nil {
		return
	}
	at = at.Child("networkData")
	if most := resourcev1.NetworkDeviceDataInterfaceNameMaxLength; len(n.InterfaceName) > most {
		at.Child("interfaceName").TooLong(most)
	}
	if most := resourcev1.NetworkDeviceDataHardwareAddressMaxLength; len(n.HardwareAddress) > most {
		at.Child("hardwareAddress").TooLong(most)
	}
	if at := at.Child("ips"); !tooMany(len(n.IPs), resourcev1.NetworkDeviceDataMaxIPs, at) {
		seen := distinct[string]{}
		for i, ip := range n.IPs {
			addErrors(f, validation.IsValidInterfaceAddress(field.NewPath(at.Index(i).Path().String()), ip))
			seen.check(ip, at.Index(i))
		}
	}
}
