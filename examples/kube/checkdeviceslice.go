package kube

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

const (
	maxFacts         = resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	maxFactName      = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength // of which error messages show more
	maxAttributeText = resourcev1.DeviceAttributeMaxValueLength
	maxDeviceOptions = 10 // what one may request of a capacity
)

// semanticVersions are what semver.org calls valid: three numbers, then identifiers of a pre-release, then of a build.
var semanticVersions = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}` +
	`(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?` +
	`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// checkDeviceSlice checks a slice. Old is nil for a new one.
func checkDeviceSlice(s, old *resourcev1.ResourceSlice, f *status.Fields) {
	spec := f.At("spec")
	checkDriverName(s.Spec.Driver, spec.Child("driver"))
	checkPoolName(s.Spec.Pool.Name, spec.Child("pool").Child("name"))
	if n := s.Spec.Pool.ResourceSliceCount; n <= 0 {
		spec.Child("pool").Child("resourceSliceCount").Invalid(n, "must be greater than zero")
	}
	if n := s.Spec.Pool.Generation; n < 0 {
		spec.Child("pool").Child("generation").Invalid(n, "must be greater than or equal to zero")
	}
	checkSliceNodes(&s.Spec, spec)
	if s.Spec.SharedCounters != nil && s.Spec.Devices != nil {
		spec.Invalid("", "only one of `sharedCounters` or `devices` is allowed")
	}
	taints := map[string][]resourcev1.DeviceTaint{}
	if old != nil { // the right to write a slice follows from its node
		same(spec.Child("pool").Child("name"), s.Spec.Pool.Name == old.Spec.Pool.Name, s.Spec.Pool.Name)
		same(spec.Child("driver"), s.Spec.Driver == old.Spec.Driver, s.Spec.Driver)
		same(spec.Child("nodeName"), reflect.DeepEqual(s.Spec.NodeName, old.Spec.NodeName), s.Spec.NodeName)
		for _, d := range slices.Backward(old.Spec.Devices) {
			taints[d.Name] = d.Taints
		}
	}
	checkSliceDevices(&s.Spec, taints, spec.Child("devices"))
	if at := spec.Child("sharedCounters"); !tooMany(len(s.Spec.SharedCounters), resourcev1.ResourceSliceMaxCounterSets, at) {
		seen := distinct[string]{}
		for i, set := range s.Spec.SharedCounters {
			checkCounters(set.Name, set.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, at.Index(i), "name")
			seen.check(set.Name, at.Index(i))
		}
	}
}

// checkSliceNodes checks on which nodes the devices of a slice are.
func checkSliceNodes(s *resourcev1.ResourceSliceSpec, spec status.Field) {
	var given []string
	if name := s.NodeName; name != nil {
		if *name == "" {
			spec.Child("nodeName").Invalid(*name, "must be either unset or set to a non-empty string")
		} else {
			given = append(given, "`nodeName`")
			isSubdomain(spec.Child("nodeName"), *name)
		}
	}
	if s.NodeSelector != nil {
		given = append(given, "`nodeSelector`")
		at := spec.Child("nodeSelector")
		checkNodeSelector(s.NodeSelector, at)
		if len(s.NodeSelector.NodeSelectorTerms) != 1 {
			at.Child("nodeSelectorTerms").Invalid(s.NodeSelector.NodeSelectorTerms, "must have exactly one node selector term")
		}
	}
	for _, one := range []struct {
		field string
		is    *bool
	}{{"allNodes", s.AllNodes}, {"perDeviceNodeSelection", s.PerDeviceNodeSelection}} {
		if one.is != nil && !*one.is {
			spec.Child(one.field).Invalid(false, "must be either unset or set to true")
		} else if one.is != nil {
			given = append(given, "`"+one.field+"`")
		}
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(given) {
	case 0:
		spec.Required(one)
	case 1:
	default:
		spec.Invalid("{"+strings.Join(given, ", ")+"}", one+", but multiple fields are set")
	}
}

// checkSliceDevices checks the devices of a slice: their names and what is said about each. Taints are those that each
// had before.
func checkSliceDevices(s *resourcev1.ResourceSliceSpec, taints map[string][]resourcev1.DeviceTaint, f status.Field) {
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(s.Devices, advancedDevice) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	if tooMany(len(s.Devices), most, f) {
		return
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	seen := distinct[string]{}
	for i := range s.Devices {
		d, at := &s.Devices[i], f.Index(i)
		checkDeviceLabel(d.Name, at.Child("name"))
		seen.check(d.Name, at)
		checkFacts(d, at)
		if before, had := taints[d.Name]; !had || !equality.Semantic.DeepEqual(before, d.Taints) {
			checkDeviceTaints(d.Taints, at.Child("taints"))
		}
		if at := at.Child("consumesCounters"); !tooMany(len(d.ConsumesCounters), resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, at) {
			sets := distinct[string]{}
			for j, c := range d.ConsumesCounters {
				checkCounters(c.CounterSet, c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, at.Index(j), "counterSet")
				sets.check(c.CounterSet, at.Index(j))
			}
		}
		checkDeviceNodes(d, perDevice, at)
		checkBindingConditions(d.BindingConditions, d.BindingFailureConditions, at)
	}
}

// advancedDevice reports whether a device says more of itself than most, so a slice can have fewer of them.
func advancedDevice(d resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0
}

// checkFacts checks the attributes and the capacities of a device.
func checkFacts(d *resourcev1.Device, at status.Field) {
	if n := len(d.Attributes) + len(d.Capacity); n > maxFacts {
		at.Invalid(n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", maxFacts))
	}
	values := 0
	for _, a := range d.Attributes {
		values += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if most := resourcev1.ResourceSliceMaxAttributeValuesPerDevice; values > most {
		at.Invalid(values, fmt.Sprintf("the total number of attribute values must not exceed %d", most))
	}
	for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
		checkFactName(string(key), at.Child("attributes"))
		checkAttribute(d.Attributes[key], at.Child("attributes").Key(shortened(string(key), maxFactName)))
	}
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, key := range slices.Sorted(maps.Keys(d.Capacity)) {
		checkFactName(string(key), at.Child("capacity"))
		c := d.Capacity[key]
		policy := at.Child("capacity").Key(shortened(string(key), maxFactName)).Child("requestPolicy")
		switch {
		case c.RequestPolicy == nil:
		case !shared:
			policy.Forbidden("allowMultipleAllocations must be true")
		default:
			checkRequestPolicy(c.RequestPolicy, c.Value, policy)
		}
	}
}

// shortened leaves out the middle of a key that is too long for an error message.
func shortened(key string, most int) string {
	if len(key) <= most {
		return key
	}
	rest := most - len("...")
	return key[:(rest+1)/2] + "..." + key[len(key)-rest/2:]
}

// checkAttribute checks that an attribute has one value.
func checkAttribute(a resourcev1.DeviceAttribute, f status.Field) {
	given := 0
	for _, is := range []bool{a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil} {
		if is {
			given++
		}
	}
	lists := func(name string, is bool, n int) {
		if is {
			given++
		}
		if is && n == 0 {
			f.Child(name).Invalid([]string{}, "must not be empty if specified")
		}
	}
	lists("bools", a.BoolValues != nil, len(a.BoolValues))
	lists("ints", a.IntValues != nil, len(a.IntValues))
	lists("strings", a.StringValues != nil, len(a.StringValues))
	lists("versions", a.VersionValues != nil, len(a.VersionValues))
	ifSet(a.StringValue, f.Child("string"), checkAttributeText)
	for i, text := range a.StringValues {
		checkAttributeText(text, f.Child("strings").Index(i))
	}
	ifSet(a.VersionValue, f.Child("version"), checkAttributeVersion)
	for i, text := range a.VersionValues {
		checkAttributeVersion(text, f.Child("versions").Index(i))
	}
	if given != 1 {
		f.Invalid("", "exactly one value must be specified")
	}
}

func checkAttributeText(text string, at status.Field) {
	if len(text) > maxAttributeText {
		at.TooLong(maxAttributeText)
	}
}

func checkAttributeVersion(text string, at status.Field) {
	if !semanticVersions.MatchString(text) {
		at.Invalid(text, "must be a string compatible with semver.org spec 2.0.0")
	}
	checkAttributeText(text, at)
}

// checkRequestPolicy checks how much of a capacity claims may have.
func checkRequestPolicy(p *resourcev1.CapacityRequestPolicy, capacity resource.Quantity, at status.Field) {
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		at.Forbidden(`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)
	case len(p.ValidValues) > 0 && p.Default == nil:
		at.Child("default").Required("required when validValues is defined")
	case len(p.ValidValues) > 0:
		checkRequestValues(p.ValidValues, *p.Default, capacity, at.Child("validValues"))
	case p.ValidRange != nil && p.Default == nil:
		at.Child("default").Required("required when validRange is defined")
	case p.ValidRange != nil:
		checkRequestRange(p.ValidRange, *p.Default, capacity, at.Child("validRange"))
	}
}

func checkRequestValues(all []resource.Quantity, standard, capacity resource.Quantity, at status.Field) {
	for i := 1; i < len(all); i++ {
		if less(all[i], all[i-1]) {
			at.Index(i).Invalid(all[i].String(), "values must be sorted in ascending order")
		}
	}
	found := false
	if !tooMany(len(all), maxDeviceOptions, at) {
		seen := distinct[int64]{}
		for i, q := range all {
			if less(capacity, q) {
				at.Index(i).Invalid(q.String(), "option is larger than capacity value: "+capacity.String())
			}
			found = found || q.Cmp(standard) == 0
			seen.check(q.Value(), at.Index(i))
		}
	}
	if !found {
		at.Invalid(standard.String(), "default value is not valid according to the requestPolicy")
	}
}

func checkRequestRange(r *resourcev1.CapacityRequestPolicyRange, standard, capacity resource.Quantity, at status.Field) {
	if r.Min == nil {
		at.Child("min").Required("required when validRange is defined")
		return
	}
	wrong := func(field string, is bool, q resource.Quantity, why string, than resource.Quantity) {
		if is {
			at.Child(field).Invalid(q.String(), why+": "+than.String())
		}
	}
	wrong("min", less(capacity, *r.Min), *r.Min, "min is larger than capacity value", capacity)
	wrong("min", less(standard, *r.Min), standard, "default is less than min", *r.Min)
	if r.Max != nil {
		wrong("max", less(*r.Max, *r.Min), *r.Min, "min is larger than max", *r.Max)
		wrong("max", less(capacity, *r.Max), *r.Max, "max is larger than capacity value", capacity)
		wrong("max", less(*r.Max, standard), standard, "default is more than max", *r.Max)
	}
	if r.Step == nil {
		return
	}
	next := r.Min.DeepCopy()
	next.Add(*r.Step)
	wrong("step", less(capacity, next), *r.Step, "one step "+next.String()+" is larger than capacity value", capacity)
	for _, q := range []*resource.Quantity{&standard, r.Max} {
		if q != nil && (r.Step.Value() == 0 || (q.Value()-r.Min.Value())%r.Step.Value() != 0) {
			at.Child("step").Invalid(q.String(), "value is not a multiple of a given step ("+r.Step.String()+") from ("+r.Min.String()+")")
		}
	}
}

func checkDeviceTaints(all []resourcev1.DeviceTaint, at status.Field) {
	if tooMany(len(all), resourcev1.DeviceTaintsMaxLength, at) {
		return
	}
	for i, t := range all {
		one := at.Index(i)
		checkTaintLabel(t.Key, t.Value, one)
		if t.Effect == "" {
			one.Child("effect").Required("")
		} else {
			checkDeviceEffect(t.Effect, one.Child("effect"))
		}
	}
}

// checkCounters checks a set of counters, or what a device takes of one.
func checkCounters(set string, counters map[string]resourcev1.Counter, most int, at status.Field, field string) {
	isLabel(at.Child(field), set)
	at = at.Child("counters")
	if len(counters) == 0 {
		at.Required("")
		return
	}
	if !tooMany(len(counters), most, at) {
		for _, name := range sortedNames(counters) {
			checkDeviceLabel(name, at)
		}
	}
}

// checkDeviceNodes checks on which nodes a device is, which each device says of itself or none.
func checkDeviceNodes(d *resourcev1.Device, perDevice bool, at status.Field) {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			at.Invalid(nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")
		}
		return
	}
	var given []string
	if name := d.NodeName; name != nil {
		if *name == "" {
			at.Child("nodeName").Invalid(*name, "must not be empty")
		} else {
			given = append(given, "`nodeName`")
			isSubdomain(at.Child("nodeName"), *name)
		}
	}
	if d.NodeSelector != nil {
		given = append(given, "`nodeSelector`")
		checkNodeSelector(d.NodeSelector, at.Child("nodeSelector"))
	}
	if d.AllNodes != nil && *d.AllNodes {
		given = append(given, "`allNodes`")
	} else if d.AllNodes != nil {
		at.Child("allNodes").Invalid(false, "must be either unset or set to true")
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	switch len(given) {
	case 0:
		at.Required(one)
	case 1:
	default:
		at.Invalid("{"+strings.Join(given, ", ")+"}", one)
	}
}

// checkBindingConditions checks for which conditions the scheduler waits, and which end the wait.
func checkBindingConditions(good, bad []string, at status.Field) {
	known := distinct[string]{}
	check := func(all []string, most int, at status.Field) distinct[string] {
		seen := distinct[string]{}
		short := !tooMany(len(all), most, at)
		for i, name := range all {
			if why := meta.CheckLabelKey(name); why != "" && short {
				at.Index(i).Invalid(name, why)
			}
			seen.check(name, at.Index(i))
			if known[name] {
				at.Index(i).Invalid(name, "bindingFailureConditions must not overlap with bindingConditions")
			}
		}
		return seen
	}
	conditions, failures := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	known = check(good, resourcev1.BindingConditionsMaxSize, conditions)
	check(bad, resourcev1.BindingFailureConditionsMaxSize, failures)
	if len(good) == 0 && len(bad) > 0 {
		conditions.Invalid(good, "bindingConditions are required to use bindingFailureConditions")
	}
	if len(bad) == 0 && len(good) > 0 {
		failures.Invalid(bad, "bindingFailureConditions are required to use bindingConditions")
	}
}

// dropDeviceFields removes what the release does not have, and the lists of values of a feature that is off, unless a
// device of the slice had one.
func (c *cluster) dropDeviceFields(s, old *resourcev1.ResourceSlice) {
	s.Spec.PartitionTypeAttribute, s.Spec.SkipNodeOperations = nil, nil
	keep := c.has("DRAListTypeAttributes") || old != nil && slices.ContainsFunc(old.Spec.Devices, func(d resourcev1.Device) bool {
		return advancedDevice(resourcev1.Device{Attributes: d.Attributes})
	})
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		d.NodeAllocatableResources = nil
		for j := range d.ConsumesCounters {
			d.ConsumesCounters[j].CompatibilityGroups = nil
		}
		for key, a := range d.Attributes {
			if !keep {
				a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
				d.Attributes[key] = a
			}
		}
	}
}
