package kube

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func checkDeviceClaim(c *resourcev1.ResourceClaim, f *status.Fields) {
	checkDevices(&c.Spec.Devices, f.At("spec", "devices"))
}

func checkDeviceTemplate(t *resourcev1.ResourceClaimTemplate, f *status.Fields) {
	checkDevices(&t.Spec.Spec.Devices, f.At("spec", "spec", "devices"))
}

// checkDevices checks which devices a claim asks for.
func checkDevices(d *resourcev1.DeviceClaim, at status.Field) {
	requests := at.Child("requests")
	if n := len(d.Requests); n > resourcev1.DeviceRequestsMaxSize {
		requests.TooMany(n, resourcev1.DeviceRequestsMaxSize)
	}
	names := unique{}
	for i := range d.Requests {
		r, one := &d.Requests[i], requests.Index(i)
		checkRequestName(r.Name, one.Child("name"), names)
		switch {
		case r.Exactly != nil && len(r.FirstAvailable) > 0:
			one.Invalid("", "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set")
		case r.Exactly == nil && len(r.FirstAvailable) == 0:
			one.Required("exactly one of `exactly` or `firstAvailable` is required")
		case r.Exactly != nil:
			exact := one.Child("exactly")
			isSubdomain(exact.Child("deviceClassName"), r.Exactly.DeviceClassName)
			checkDeviceCount(r.Exactly.AllocationMode, r.Exactly.Count, exact)
			checkDeviceSelectors(r.Exactly.Selectors, exact.Child("selectors"))
		}
		alternatives := unique{}
		for j := range r.FirstAvailable {
			s, sub := &r.FirstAvailable[j], one.Child("firstAvailable").Index(j)
			checkRequestName(s.Name, sub.Child("name"), alternatives)
			isSubdomain(sub.Child("deviceClassName"), s.DeviceClassName)
			checkDeviceCount(s.AllocationMode, s.Count, sub)
			checkDeviceSelectors(s.Selectors, sub.Child("selectors"))
		}
	}
}

func checkRequestName(name string, at status.Field, names unique) {
	if why := meta.CheckDNSLabel(name); why != "" {
		at.Invalid(name, why)
	}
	names.check(at, name)
}

func checkDeviceCount(mode resourcev1.DeviceAllocationMode, count int64, at status.Field) {
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			at.Child("count").Invalid(count, "must not be specified when allocationMode is 'All'")
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if count <= 0 {
			at.Child("count").Invalid(count, "must be greater than zero")
		}
	default:
		oneOf(at.Child("allocationMode"), mode, resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
	}
}

func checkDeviceSelectors(all []resourcev1.DeviceSelector, at status.Field) {
	if n := len(all); n > resourcev1.DeviceSelectorsMaxSize {
		at.TooMany(n, resourcev1.DeviceSelectorsMaxSize)
	}
	for i, s := range all {
		switch one := at.Index(i).Child("cel"); {
		case s.CEL == nil:
			one.Required("")
		case s.CEL.Expression == "":
			one.Child("expression").Required("")
		}
	}
}
