package kube

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// What a slice may have of each.
const (
	maxDevices         = 128
	maxAdvancedDevices = 64 // if one has taints or takes counters
	maxFacts           = 32 // attributes and capacities of one device
	maxAttributeText   = 64
)

// semanticVersions are what semver.org calls valid: three numbers, then identifiers of a pre-release, then of a build.
var semanticVersions = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}` +
	`(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?` +
	`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// checkSliceDevices checks the devices of a slice: their names and what is said about each.
func checkSliceDevices(all []resourcev1.Device, f status.Field) {
	most := maxDevices
	if slices.ContainsFunc(all, func(d resourcev1.Device) bool { return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 }) {
		most = maxAdvancedDevices
	}
	if len(all) > most {
		f.TooMany(len(all), most)
		return
	}
	seen := map[string]bool{}
	for i := range all {
		d, at := &all[i], f.Index(i)
		if why := meta.CheckDNSLabel(d.Name); why != "" {
			at.Child("name").Invalid(d.Name, why)
		} else if seen[d.Name] {
			at.Duplicate(d.Name)
		}
		seen[d.Name] = true
		if n := len(d.Attributes) + len(d.Capacity); n > maxFacts {
			at.Invalid(n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", maxFacts))
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
			checkAttribute(d.Attributes[key], at.Child("attributes").Key(string(key)))
		}
	}
}

// checkAttribute checks that an attribute has one value.
func checkAttribute(a resourcev1.DeviceAttribute, f status.Field) {
	given := 0
	for _, is := range []bool{
		a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.BoolValues != nil, a.IntValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if is {
			given++
		}
	}
	if s := a.StringValue; s != nil && len(*s) > maxAttributeText {
		f.Child("string").TooLong(maxAttributeText)
	}
	if v := a.VersionValue; v != nil {
		if !semanticVersions.MatchString(*v) {
			f.Child("version").Invalid(*v, "must be a string compatible with semver.org spec 2.0.0")
		}
		if len(*v) > maxAttributeText {
			f.Child("version").TooLong(maxAttributeText)
		}
	}
	if given != 1 {
		f.Invalid("", "exactly one value must be specified")
	}
}
