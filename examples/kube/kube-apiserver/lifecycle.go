package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/kinds/crd"
)

// A lifecycle says which minor releases have a resource in a version: those from since on, and before
// until unless that is 0.
type lifecycle struct {
	version, resources string
	since, until       int
}

// lifecycles lists what came or went in a release that can be emulated.
func lifecycles() []lifecycle {
	const admissions, networks, devices = "admissionregistration.k8s.io/", "networking.k8s.io/", "resource.k8s.io/"
	const deviceKinds = "deviceclasses resourceclaims resourceclaimtemplates resourceslices"
	return []lifecycle{
		{admissions + "v1", "validatingadmissionpolicies validatingadmissionpolicybindings", 30, 0},
		{admissions + "v1", "mutatingadmissionpolicies mutatingadmissionpolicybindings", 36, 0},
		{admissions + "v1beta1", "validatingadmissionpolicies validatingadmissionpolicybindings", 28, 34},
		{admissions + "v1beta1", "mutatingadmissionpolicies mutatingadmissionpolicybindings", 34, 40},
		{"authentication.k8s.io/v1", "selfsubjectreviews", 28, 0},
		{"certificates.k8s.io/v1beta1", "clustertrustbundles", 33, 40},
		{"certificates.k8s.io/v1beta1", "podcertificaterequests", 35, 41},
		{"coordination.k8s.io/v1alpha2", "leasecandidates", 32, 38},
		{"coordination.k8s.io/v1beta1", "leasecandidates", 33, 39},
		{"flowcontrol.apiserver.k8s.io/v1", "flowschemas prioritylevelconfigurations", 29, 0},
		{networks + "v1", "ipaddresses servicecidrs", 33, 0},
		{networks + "v1beta1", "ipaddresses servicecidrs", 31, 37},
		{devices + "v1", deviceKinds, 34, 0},
		{devices + "v1alpha3", "devicetaintrules", 33, 39},
		{devices + "v1beta1", deviceKinds, 32, 38},
		{devices + "v1beta2", deviceKinds, 33, 39},
		{devices + "v1beta2", "devicetaintrules", 36, 42},
		{"storage.k8s.io/v1", "volumeattributesclasses", 34, 0},
		{"storagemigration.k8s.io/v1beta1", "storageversionmigrations", 35, 41},
	}
}

// absent returns the settings of the runtime configuration that leave out what the emulated release does
// not have.
func (o *options) absent() (out []string) {
	minor, served := o.minor(), o.servedVersions()
	for _, l := range lifecycles() {
		if group, version, _ := strings.Cut(l.version, "/"); !slices.Contains(served[group], version) {
			continue // its feature is off
		}
		later := l.since > minor && !(o.forward && strings.HasSuffix(l.version, "/v1")) &&
			!(o.forwardNamed && slices.Contains(o.libraryVersions, l.version+"=true"))
		if !later && (l.until == 0 || l.until > minor) {
			continue
		}
		for resource := range strings.FieldsSeq(l.resources) {
			out = append(out, fmt.Sprintf("%s/%s=false", l.version, resource))
		}
	}
	return out
}

// definitions are the options for CustomResourceDefinitions: what their features leave out.
func (o *options) definitions() []crd.Option {
	out := []crd.Option{crd.AgeColumn(), crd.ClosedVersions()}
	if !o.features[gateFieldSelectors].on {
		out = append(out, crd.WithoutFieldSelectors())
	}
	if !o.features[gateRatcheting].on {
		out = append(out, crd.WithoutRatcheting())
	}
	return out
}
