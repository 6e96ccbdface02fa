package kube

import (
	"strconv"
	"strings"

	"k8s.io/pod-security-admission/api"

	"github.com/kindwright/kindwright/admission"
	internal "github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/metrics"
)

// podSecurityStats counts what PodSecurity does, under the names of Kubernetes. The labels are of few
// values: versions above the server's own count as one.
type podSecurityStats struct {
	release                         api.Version
	evaluations, errors, exemptions internal.Counts
}

func (s *podSecurityStats) evaluated(allowed bool, by api.LevelVersion, mode string, r *admission.Request) {
	version, decision := by.Version.String(), "deny"
	switch {
	case by.Level == api.LevelPrivileged || by.Version.Latest():
		version = "latest"
	case s.release.Older(by.Version):
		version = "future"
	}
	if allowed {
		decision = "allow"
	}
	s.evaluations.Add(append([]string{decision, string(by.Level), version, mode}, about(r)...)...)
}

func (s *podSecurityStats) failed(fatal bool, r *admission.Request) {
	s.errors.Add(append([]string{strconv.FormatBool(fatal)}, about(r)...)...)
}

// about returns the labels that say what a request was for.
func about(r *admission.Request) []string {
	resource := "controller"
	switch r.Resource.Resource {
	case "pods":
		resource = "pod"
	case "namespaces":
		resource = "namespace"
	}
	return []string{strings.ToLower(string(r.Operation)), resource, r.Subresource}
}

func (s *podSecurityStats) collect(r *internal.Registry) {
	of := []string{"request_operation", "resource", "subresource"}
	r.Collect([]internal.Desc{
		{
			Name: "pod_security_errors_total", Type: metrics.Counter, Labels: append([]string{"fatal"}, of...),
			Help: "How many errors kept PodSecurity from a normal evaluation.",
		},
		{
			Name: "pod_security_evaluations_total", Type: metrics.Counter,
			Labels: append([]string{"decision", "policy_level", "policy_version", "mode"}, of...),
			Help:   "How many evaluations of pods and their templates by PodSecurity there were.",
		},
		{
			Name: "pod_security_exemptions_total", Type: metrics.Counter, Labels: of,
			Help: "How many requests were exempt from PodSecurity.",
		},
	}, func(b *internal.Batch) {
		s.errors.Report(b, 0)
		s.evaluations.Report(b, 1)
		s.exemptions.Report(b, 2)
		for _, operation := range []string{"create", "update"} {
			b.Add(2, 0, operation, "pod", "")
		}
	})
}
