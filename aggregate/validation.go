package aggregate

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
	defaultPort        = 443
	maxPort            = 65535
)

// validate reports what is wrong with an APIService, in the sentences of kube-aggregator.
func validate(_ context.Context, s *APIService, f *status.Fields) {
	spec := &s.Spec
	if required := spec.Version + "." + spec.Group; s.Name != required {
		f.At("metadata", "name").Invalid(s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", required))
	}
	if spec.Group == "" && spec.Version != "v1" {
		f.At("spec", "group").Required("only v1 may have an empty group and it better be legacy kube")
	}
	if spec.Group != "" {
		if why := meta.CheckDNSSubdomain(spec.Group); why != "" {
			f.At("spec", "group").Invalid(spec.Group, why)
		}
	}
	if why := meta.CheckDNS1035Label(spec.Version); why != "" {
		f.At("spec", "version").Invalid(spec.Version, why)
	}
	if p := spec.GroupPriorityMinimum; p <= 0 || p > maxGroupPriority {
		f.At("spec", "groupPriorityMinimum").Invalid(p, "must be positive and less than 20000")
	}
	if p := spec.VersionPriority; p <= 0 || p > maxVersionPriority {
		f.At("spec", "versionPriority").Invalid(p, "must be positive and less than 1000")
	}
	if spec.Service == nil {
		validateLocal(spec, f)
		return
	}
	validateService(spec, f)
}

// validateLocal is for a group version that this server answers for.
func validateLocal(spec *APIServiceSpec, f *status.Fields) {
	if n := len(spec.CABundle); n > 0 {
		f.At("spec", "caBundle").Invalid(fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle")
	}
	if spec.InsecureSkipTLSVerify {
		f.At("spec", "insecureSkipTLSVerify").Invalid(true, "local APIServices may not have insecureSkipTLSVerify")
	}
}

func validateService(spec *APIServiceSpec, f *status.Fields) {
	if spec.Service.Namespace == "" {
		f.At("spec", "service", "namespace").Required("")
	}
	if spec.Service.Name == "" {
		f.At("spec", "service", "name").Required("")
	}
	if p := spec.Service.Port; p != nil && (*p < 1 || *p > maxPort) {
		f.At("spec", "service", "port").Invalid(*p, "port is not valid: must be between 1 and 65535, inclusive")
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		f.At("spec", "insecureSkipTLSVerify").Invalid(true, "may not be true if caBundle is present")
	}
}

// validateChange reports conditions whose status is none. The status has no other rules.
func validateChange(_ context.Context, s, _ *APIService, f *status.Fields) {
	known := []string{"False", "True", "Unknown"}
	for i, c := range s.Status.Conditions {
		if !slices.Contains(known, c.Status) {
			f.In(status.At("status", "conditions").Index(i).Child("status")).NotSupported(c.Status, known...)
		}
	}
}
