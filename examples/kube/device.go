package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// deviceAccess names the plugin that guards devices. Kubernetes has the same checks in its kinds.
const deviceAccess = "DeviceAccess"

// devicePlugin returns the plugin that guards devices:
//
//   - Claims and templates ask for access to devices that others use only in namespaces with a label.
//   - Who allocates or reserves devices for a claim needs the same right to resourceclaims/binding.
//   - Who reports the state of devices needs a right to resourceclaims/driver with the driver's name:
//     associated-node:update on the node of the devices, or arbitrary-node:update.
func (c *cluster) devicePlugin() admission.Plugin {
	on := func(o admission.Operation, resources ...string) admission.Rule {
		return admission.Rule{Operations: []admission.Operation{o}, Groups: []string{resourcev1.GroupName}, Resources: resources}
	}
	return admission.Plugin{Name: deviceAccess, Validator: admission.ValidatorFunc(c.guardDevices), Rules: []admission.Rule{
		on(admission.Create, "resourceclaims", "resourceclaimtemplates"), on(admission.Update, "resourceclaims/status"),
	}}
}

func (c *cluster) guardDevices(ctx context.Context, r *admission.Request) error {
	f := &status.Fields{}
	switch {
	case r.Subresource == "status":
		results := []string{"status", "allocation", "devices", "results"}
		if asksForAll(at(r.OldObject, results...)) < 0 {
			checkAdminAccess(ctx, r, f, asksForAll(at(r.Object, results...)), results)
		}
		if !c.LooseDeviceStates {
			checkDeviceBinding(ctx, r, f)
			checkDeviceDrivers(ctx, r, f)
		}
	case r.Resource.Resource == "resourceclaims":
		of := []string{"spec", "devices", "requests"}
		checkAdminAccess(ctx, r, f, asksForAll(at(r.Object, of...)), of)
	default:
		of := []string{"spec", "spec", "devices", "requests"}
		checkAdminAccess(ctx, r, f, asksForAll(at(r.Object, of...)), of[1:])
	}
	if all := f.Errors(); len(all) > 0 {
		name := cmp.Or(r.Name, word(at(r.Object, "metadata", "name")))
		return status.Invalid(meta.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, name, all)
	}
	return nil
}

// asksForAll returns the index of the first request, or of the first result of one, with access to
// devices that others use, and -1 if there is none.
func asksForAll(requests any) int {
	return slices.IndexFunc(list(requests), func(one any) bool {
		return at(one, "exactly", "adminAccess") == true || at(one, "adminAccess") == true
	})
}

func checkAdminAccess(ctx context.Context, r *admission.Request, f *status.Fields, first int, path []string) {
	if first < 0 {
		return
	}
	field := f.At(path...).Index(first).Child("adminAccess")
	labels, err := r.NamespaceLabels(ctx)
	if value, _ := labels.Get(resourcev1.DRAAdminNamespaceLabelKey); err != nil || value != "true" {
		field.Forbidden(fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))
	}
}

// deviceVerb is the verb of a request: a patch needs the right to patch.
func deviceVerb(ctx context.Context) string {
	if x := request.ExchangeFrom(ctx); x != nil {
		if info := x.Info.Load(); info != nil && info.Verb == request.VerbPatch {
			return request.VerbPatch
		}
	}
	return request.VerbUpdate
}

// claimsFor is a subresource that only rights name.
func claimsFor(what, namespace, name string) registry.Target {
	return registry.Target{
		Resource:    meta.GroupVersionResource{Group: resourcev1.GroupName, Version: "v1", Resource: "resourceclaims"},
		Subresource: what, Namespace: namespace, Name: name,
	}
}

func checkDeviceBinding(ctx context.Context, r *admission.Request, f *status.Fields) {
	same := func(field string) bool {
		return json.Equal(at(r.Object, "status", field), at(r.OldObject, "status", field))
	}
	if same("allocation") && same("reservedFor") {
		return
	}
	verb := deviceVerb(ctx)
	if err := registry.Require(ctx, verb, claimsFor("binding", "", "")); err != nil {
		f.At("status", "allocation").Forbidden(fmt.Sprintf(
			`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, verb, err))
	}
}

func checkDeviceDrivers(ctx context.Context, r *admission.Request, f *status.Fields) {
	if at(r.Object, "status", "allocation") == nil {
		return
	}
	verbs := []string{"arbitrary-node:" + deviceVerb(ctx)}
	if onNodeOf(r) {
		verbs = append([]string{"associated-node:" + deviceVerb(ctx)}, verbs...)
	}
	for _, driver := range changedDrivers(r) {
		var first error
		if !slices.ContainsFunc(verbs, func(verb string) bool {
			err := registry.Require(ctx, verb, claimsFor("driver", r.Namespace, driver))
			if first == nil {
				first = err
			}
			return err == nil
		}) {
			f.At("status", "devices").Forbidden(fmt.Sprintf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, first))
		}
	}
}

// changedDrivers returns the drivers of the devices whose state a write adds, changes or takes away.
func changedDrivers(r *admission.Request) []string {
	type key struct{ driver, pool, device, share string }
	states := func(object map[string]any) map[key]any {
		out := map[key]any{}
		for _, d := range list(at(object, "status", "devices")) {
			out[key{word(at(d, "driver")), word(at(d, "pool")), word(at(d, "device")), word(at(d, "shareID"))}] = d
		}
		return out
	}
	now, before := states(r.Object), states(r.OldObject)
	drivers := map[string]bool{}
	for k, state := range now {
		if was, had := before[k]; !had || !reflect.DeepEqual(was, state) {
			drivers[k.driver] = true
		}
		delete(before, k)
	}
	for k := range before {
		drivers[k.driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// onNodeOf reports whether the caller is an account whose token is bound to the one node that the
// devices of a claim are on.
func onNodeOf(r *admission.Request) bool {
	terms := list(at(r.Object, "status", "allocation", "nodeSelector", "nodeSelectorTerms"))
	if len(terms) != 1 || len(list(at(terms[0], "matchExpressions"))) != 0 || len(list(at(terms[0], "matchFields"))) != 1 {
		return false
	}
	field := list(at(terms[0], "matchFields"))[0]
	values := list(at(field, "values"))
	if word(at(field, "key")) != "metadata.name" || word(at(field, "operator")) != "In" || len(values) != 1 {
		return false
	}
	node := r.User.Extra["authentication.kubernetes.io/node-name"]
	return strings.HasPrefix(r.User.Name, authn.ServiceAccountPrefix) && len(node) == 1 && node[0] != "" && node[0] == word(values[0])
}
