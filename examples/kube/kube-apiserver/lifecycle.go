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
	const admissions, networks = "admissionregistration.k8s.io/", "networking.k8s.io/"
	return []lifecycle{
		{admissions + "v1", "validatingadmissionpolicies validatingadmissionpolicybindings", 30, 0},
		{admissions + "v1", "mutatingadmissionpolicies mutatingadmissionpolicybindings", 36, 0},
		{admissions + "v1beta1", "validatingadmissionpolicies validatingadmissionpolicybindings", 28, 34},
		{admissions + "v1beta1", "mutatingadmissionpolicies mutatingadmissionpolicybindings", 34, 40},
		{"authentication.k8s.io/v1", "selfsubjectreviews", 28, 0},
		{"flowcontrol.apiserver.k8s.io/v1", "flowschemas prioritylevelconfigurations", 29, 0},
		{networks + "v1", "ipaddresses servicecidrs", 33, 0},
		{networks + "v1beta1", "ipaddresses servicecidrs", 31, 37},
		{"resource.k8s.io/v1", "deviceclasses resourceclaims resourceclaimtemplates resourceslices", 34, 0},
		{"storage.k8s.io/v1", "volumeattributesclasses", 34, 0},
	}
}

// absent returns the settings of the runtime configuration that leave out what the emulated release does
// not have.
func (o *options) absent() (out []string) {
	minor := o.minor()
	for _, l := range lifecycles() {
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
