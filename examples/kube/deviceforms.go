package kube

import (
	"maps"
	"reflect"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"github.com/kindwright/kindwright/registry"
)

// withForms serves a kind of devices as v1beta1 and v1beta2 too, where --runtime-config asks for them. Documents of v1beta2
// are those of v1. In v1beta1 a request has no part `exactly`, and a device has a part `basic`.
type withForms[T, B1, B2 any] struct {
	kind[T]

	fill1   func(*B1)           // of v1beta1
	inward  func(registry.Tree) // turns a document of v1beta1 into one of v1
	outward func(registry.Tree) // and back
}

// Define implements registry.Definition.
func (w withForms[T, B1, B2]) Define(env registry.Env) (registry.Bundle, error) {
	k := w.kind
	k.Also = []registry.Form{
		registry.As(deviceForm[B2](k, "v1beta2", deprecatedIn("1.36", "1.39")), recast[B2, T], recast[T, B2], nil),
		registry.As(deviceForm[B1](k, "v1beta1", deprecatedIn("1.35", "1.38")), recastBy[B1, T](w.inward), recastBy[T, B1](w.outward), nil),
	}
	b, err := k.Define(env)
	if err != nil {
		return b, err
	}
	for _, r := range b.Resources[1:] {
		switch {
		case r.Version == "v1beta2":
			err = k.asWritten(r)
		default:
			err = kind[B1]{cluster: k.cluster, fill: w.fill1}.asWritten(r)
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

func deviceForm[B, T any](k kind[T], version string, deprecated *registry.Deprecation) registry.Kind[B] {
	return registry.Kind[B]{
		Selectable: selectableOf[B](k.fields),
		Group:      k.Group, Version: version, Plural: k.Plural, Names: k.Names, Scope: k.Scope, Table: k.Table,
		Status: registry.Status{Metadata: takenWithStatus(k.statusKeeps)}, Serving: registry.Serving{Optional: true, Deprecated: deprecated},
	}
}

// recastBy is recast with a change of the document on the way.
func recastBy[From, To any](change func(registry.Tree)) func(*From) (*To, error) {
	return func(from *From) (*To, error) {
		t, err := treeOf(from, emptiesOf(reflect.TypeFor[From](), map[reflect.Type]*empties{}))
		if err != nil {
			return nil, err
		}
		change(t)
		return decode[To](t)
	}
}

// keepTree is a change that is none.
func keepTree(registry.Tree) {}

// exactFields are the fields of a request of v1beta1 that are in the part `exactly` of v1.
var exactFields = []string{
	"deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity", "derivedAttributes",
}

// requestsInward moves the fields of requests into a part, if any of them is there.
func requestsInward(path ...string) func(registry.Tree) {
	return eachIn(func(request map[string]any) {
		exact := map[string]any{}
		for _, field := range exactFields {
			if v, has := request[field]; has && v != nil && v != "" {
				exact[field] = v
			}
			delete(request, field)
		}
		if len(exact) > 0 {
			request["exactly"] = exact
		}
	}, path...)
}

func requestsOutward(path ...string) func(registry.Tree) {
	return eachIn(func(request map[string]any) {
		exact, _ := request["exactly"].(map[string]any)
		delete(request, "exactly")
		maps.Copy(request, exact)
	}, path...)
}

// devicesInward takes devices out of the part that v1beta1 has them in.
func devicesInward() func(registry.Tree) {
	return eachIn(func(device map[string]any) {
		basic, _ := device["basic"].(map[string]any)
		delete(device, "basic")
		maps.Copy(device, basic)
	}, "spec", "devices")
}

func devicesOutward() func(registry.Tree) {
	return eachIn(func(device map[string]any) {
		basic := map[string]any{}
		for field, v := range device {
			if field != "name" {
				basic[field] = v
				delete(device, field)
			}
		}
		device["basic"] = basic
	}, "spec", "devices")
}

// eachIn calls a function with each object of a list, which it may change. The document was made for it.
func eachIn(do func(map[string]any), path ...string) func(registry.Tree) {
	return func(t registry.Tree) {
		for _, item := range list(at(t, path...)) {
			if one, is := item.(map[string]any); is {
				do(one)
			}
		}
	}
}

// fillBetaRequests does for requests of v1beta1 what fillDeviceRequests does for those of v1.
func fillBetaRequests(all []resourcev1beta1.DeviceRequest) {
	for i := range all {
		r := &all[i]
		if r.DeviceClassName != "" { // the request is no list of alternatives
			set(&r.AllocationMode, resourcev1beta1.DeviceAllocationModeExactCount)
			if r.AllocationMode == resourcev1beta1.DeviceAllocationModeExactCount {
				set(&r.Count, 1)
			}
		}
		fillBetaTolerations(r.Tolerations)
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			set(&s.AllocationMode, resourcev1beta1.DeviceAllocationModeExactCount)
			if s.AllocationMode == resourcev1beta1.DeviceAllocationModeExactCount {
				set(&s.Count, 1)
			}
			fillBetaTolerations(s.Tolerations)
		}
	}
}

func fillBetaTolerations(all []resourcev1beta1.DeviceToleration) {
	for i := range all {
		set(&all[i].Operator, resourcev1beta1.DeviceTolerationOpEqual)
	}
}

// The kinds of devices with their versions.
type (
	deviceClasses   = withForms[resourcev1.DeviceClass, resourcev1beta1.DeviceClass, resourcev1beta2.DeviceClass]
	deviceClaims    = withForms[resourcev1.ResourceClaim, resourcev1beta1.ResourceClaim, resourcev1beta2.ResourceClaim]
	deviceTemplates = withForms[resourcev1.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplate]
	deviceSlices    = withForms[resourcev1.ResourceSlice, resourcev1beta1.ResourceSlice, resourcev1beta2.ResourceSlice]
)
