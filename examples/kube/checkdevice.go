package kube

import (
	"bytes"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// deviceChecks check what is asked for of devices: claims, their templates, and classes.
type deviceChecks struct {
	selectors func() (*cel.Environment, error) // what selectors may use
}

func newDeviceChecks() deviceChecks {
	return deviceChecks{sync.OnceValues(func() (*cel.Environment, error) { return cel.NewEnvironment(cel.Device()) })}
}

// claim checks a new claim. What it asks for cannot change.
func (d deviceChecks) claim(c *resourcev1.ResourceClaim, f *status.Fields) {
	d.devices(&c.Spec.Devices, f.At("spec", "devices"))
}

func (d deviceChecks) template(t *resourcev1.ResourceClaimTemplate, f *status.Fields) {
	checkTemplateMetadata(&t.Spec.ObjectMeta, f.At("spec", "metadata"))
	d.devices(&t.Spec.Spec.Devices, f.At("spec", "spec", "devices"))
}

// class checks a class. Configurations that are as before may be longer than new ones.
func (d deviceChecks) class(c, old *resourcev1.DeviceClass, f *status.Fields) {
	spec := f.At("spec")
	d.checkSelectors(c.Spec.Selectors, spec.Child("selectors"))
	stored := old != nil && equality.Semantic.DeepEqual(c.Spec.Config, old.Spec.Config)
	if !tooMany(len(c.Spec.Config), resourcev1.DeviceConfigMaxSize, spec.Child("config")) {
		for i := range c.Spec.Config {
			checkDeviceConfig(&c.Spec.Config[i].DeviceConfiguration, stored, spec.Child("config").Index(i))
		}
	}
	if name := c.Spec.ExtendedResourceName; name != nil && !extendedResource(corev1.ResourceName(*name)) {
		spec.Child("extendedResourceName").Invalid(*name, "must be a valid extended resource name")
	}
}

// tooMany reports a list that is too long, of which nothing else is checked.
func tooMany(n, most int, at status.Field) bool {
	if n > most {
		at.TooMany(n, most)
	}
	return n > most
}

// distinct reports what a list has already.
type distinct[K comparable] map[K]bool

func (d distinct[K]) check(key K, at status.Field) {
	if d[key] {
		at.Duplicate(key)
	}
	d[key] = true
}

// requestNames are the names of requests, each with those of its alternatives.
type requestNames map[string]map[string]bool

func namesOf(requests []resourcev1.DeviceRequest) requestNames {
	out := requestNames{}
	for _, r := range requests {
		out[r.Name] = map[string]bool{}
		for _, s := range r.FirstAvailable {
			out[r.Name][s.Name] = true
		}
	}
	return out
}

// check reports a text that names no request, and no alternative of one.
func (r requestNames) check(name string, at status.Field) {
	const why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		at.Invalid(name, why)
		return
	}
	for _, part := range parts {
		checkDeviceLabel(part, at)
	}
	alternatives, ok := r[parts[0]]
	if !ok || len(parts) == 2 && !alternatives[parts[1]] {
		at.Invalid(name, why)
	}
}

// checkAll checks a list of names of requests.
func (r requestNames) checkAll(all []string, at status.Field) {
	if tooMany(len(all), resourcev1.DeviceRequestsMaxSize, at) {
		return
	}
	seen := distinct[string]{}
	for i, name := range all {
		r.check(name, at.Index(i))
		seen.check(name, at.Index(i))
	}
}

func checkDeviceLabel(name string, at status.Field) {
	if why := meta.CheckDNSLabel(name); why != "" {
		at.Invalid(name, why)
	}
}

// devices checks which devices a claim asks for.
func (d deviceChecks) devices(c *resourcev1.DeviceClaim, at status.Field) {
	names := namesOf(c.Requests)
	if at := at.Child("requests"); !tooMany(len(c.Requests), resourcev1.DeviceRequestsMaxSize, at) {
		seen := distinct[string]{}
		for i := range c.Requests {
			d.request(&c.Requests[i], at.Index(i))
			seen.check(c.Requests[i].Name, at.Index(i))
		}
	}
	if at := at.Child("constraints"); !tooMany(len(c.Constraints), resourcev1.DeviceConstraintsMaxSize, at) {
		for i, one := range c.Constraints {
			names.checkAll(one.Requests, at.Index(i).Child("requests"))
			switch {
			case one.MatchAttribute != nil:
				checkFullName(string(*one.MatchAttribute), at.Index(i).Child("matchAttribute"))
			case one.DistinctAttribute != nil:
				checkFullName(string(*one.DistinctAttribute), at.Index(i).Child("distinctAttribute"))
			default:
				at.Index(i).Required(`exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`)
			}
		}
	}
	if at := at.Child("config"); !tooMany(len(c.Config), resourcev1.DeviceConfigMaxSize, at) {
		for i := range c.Config {
			names.checkAll(c.Config[i].Requests, at.Index(i).Child("requests"))
			checkDeviceConfig(&c.Config[i].DeviceConfiguration, false, at.Index(i))
		}
	}
}

// request checks one request: for devices of a class, or for the first of some alternatives that there is.
func (d deviceChecks) request(r *resourcev1.DeviceRequest, at status.Field) {
	checkDeviceLabel(r.Name, at.Child("name"))
	switch {
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		at.Invalid("", "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set")
	case r.Exactly != nil:
		e := r.Exactly
		d.asked(e.DeviceClassName, e.AllocationMode, e.Count, e.Selectors, e.Tolerations, at.Child("exactly"))
	case len(r.FirstAvailable) == 0:
		at.Required("exactly one of `exactly` or `firstAvailable` is required")
	case !tooMany(len(r.FirstAvailable), resourcev1.FirstAvailableDeviceRequestMaxSize, at.Child("firstAvailable")):
		seen := distinct[string]{}
		for i, s := range r.FirstAvailable {
			one := at.Child("firstAvailable").Index(i)
			checkDeviceLabel(s.Name, one.Child("name"))
			d.asked(s.DeviceClassName, s.AllocationMode, s.Count, s.Selectors, s.Tolerations, one)
			seen.check(s.Name, one)
		}
	}
}

// asked checks which devices of a class are asked for.
func (d deviceChecks) asked(class string, mode resourcev1.DeviceAllocationMode, count int64, selectors []resourcev1.DeviceSelector,
	tolerations []resourcev1.DeviceToleration, at status.Field,
) {
	isSubdomain(at.Child("deviceClassName"), class)
	checkDeviceCount(mode, count, at)
	d.checkSelectors(selectors, at.Child("selectors"))
	for i := range tolerations {
		checkDeviceToleration(&tolerations[i], at.Child("tolerations").Index(i))
	}
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

// checkDeviceToleration checks which taints of devices do not keep a claim away.
func checkDeviceToleration(t *resourcev1.DeviceToleration, at status.Field) {
	if t.Key != "" {
		if why := meta.CheckLabelKey(t.Key); why != "" {
			at.Child("key").Invalid(t.Key, why)
		}
	}
	switch why := meta.CheckLabelValue(t.Value); t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			at.Child("value").Invalid(t.Value, "must be empty for operator `Exists`")
		}
	case resourcev1.DeviceTolerationOpEqual:
		if why != "" {
			at.Child("value").Invalid(t.Value, why)
		}
	case "":
		at.Child("operator").Required("")
	default:
		oneOf(at.Child("operator"), t.Operator, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)
	}
	if t.Effect != "" {
		checkDeviceEffect(t.Effect, at.Child("effect"))
	}
}

func checkDeviceEffect(effect resourcev1.DeviceTaintEffect, at status.Field) {
	oneOf(at, effect, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
}

// checkSelectors checks expressions that say which devices are meant.
func (d deviceChecks) checkSelectors(all []resourcev1.DeviceSelector, at status.Field) {
	if tooMany(len(all), resourcev1.DeviceSelectorsMaxSize, at) {
		return
	}
	for i, s := range all {
		one := at.Index(i).Child("cel")
		if s.CEL == nil {
			one.Required("")
			continue
		}
		if len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength {
			one.Child("expression").TooLong(resourcev1.CELSelectorExpressionMaxLength)
			continue
		}
		env, err := d.selectors()
		if err == nil {
			_, err = env.Compile(s.CEL.Expression, cel.Bool(), cel.Any())
		}
		if err != nil {
			one.Child("expression").Invalid(s.CEL.Expression, err.Error())
		}
	}
}

// checkDeviceConfig checks what the driver of devices is told.
func checkDeviceConfig(c *resourcev1.DeviceConfiguration, stored bool, at status.Field) {
	at = at.Child("opaque")
	if c.Opaque == nil {
		at.Required("")
		return
	}
	checkDriverName(c.Opaque.Driver, at.Child("driver"))
	most := resourcev1.OpaqueParametersMaxLength
	if stored {
		most = len(c.Opaque.Parameters.Raw)
	}
	checkRaw(&c.Opaque.Parameters, most, at.Child("parameters"))
}

// checkRaw requires a JSON object that is not too long.
func checkRaw(r *runtime.RawExtension, most int, at status.Field) {
	text := bytes.TrimSpace(r.Raw)
	var v any
	switch {
	case len(text) == 0 || string(text) == "null":
		at.Required("")
	case len(r.Raw) > most:
		at.TooLong(most)
	case json.Unmarshal(text, &v) != nil:
		at.Invalid("<value omitted>", "error parsing data as JSON")
	case text[0] != '{':
		at.Invalid("<value omitted>", "must be a valid JSON object")
	}
}

// checkFactName checks the name of an attribute or a capacity, which may have a domain before it.
func checkFactName(name string, at status.Field) {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 2 && parts[0] == "":
		at.Invalid("", "the domain must not be empty")
	case len(parts) == 2:
		checkDriverName(parts[0], at)
	case len(parts) > 2: // as in kube-apiserver
		return
	}
	if id := parts[len(parts)-1]; id == "" && len(parts) == 2 {
		at.Invalid("", "the name must not be empty")
	} else {
		checkIdentifier(id, at)
	}
}

// checkFullName checks such a name that must have a domain.
func checkFullName(name string, at status.Field) {
	checkFactName(name, at)
	if !strings.Contains(name, "/") {
		at.Invalid(name, "a fully qualified name must be a domain and a name separated by a slash")
	}
}

func checkIdentifier(id string, at status.Field) {
	if len(id) > resourcev1.DeviceMaxIDLength {
		at.TooLong(resourcev1.DeviceMaxIDLength)
	}
	if id == "" || strings.Trim(id, letters+digits+"_") != "" || strings.Contains(digits, id[:1]) {
		at.Invalid(id, "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' "+
			"(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')")
	}
}

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)
