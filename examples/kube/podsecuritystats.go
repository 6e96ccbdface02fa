package kube

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/pod-security-admission/api"

	"github.com/kindwright/kindwright/admission"
	internal "github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/metrics"
)

// podSecurityStats counts what PodSecurity does, under the names of Kubernetes. The labels are of few
// values: versions above the server's own count as one.
type podSecurityStats struct {
	release             api.Version
	mu                  sync.Mutex
	evaluations, errors map[string]int // by the values of their labels, joined by a space
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
	s.add(&s.evaluations, decision, string(by.Level), version, mode, r)
}

func (s *podSecurityStats) failed(fatal bool, r *admission.Request) {
	s.add(&s.errors, strconv.FormatBool(fatal), "", "", "", r)
}

func (s *podSecurityStats) add(to *map[string]int, a, b, c, d string, r *admission.Request) {
	resource := "controller"
	switch r.Resource.Resource {
	case "pods":
		resource = "pod"
	case "namespaces":
		resource = "namespace"
	}
	words := append(strings.Fields(a+" "+b+" "+c+" "+d), strings.ToLower(string(r.Operation)), resource, r.Subresource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if *to == nil {
		*to = map[string]int{}
	}
	(*to)[strings.Join(words, " ")]++
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
			Help: "How many requests were exempt from PodSecurity. Nothing is exempt.",
		},
	}, func(b *internal.Batch) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, counts := range []map[string]int{s.errors, s.evaluations} {
			for _, key := range slices.Sorted(maps.Keys(counts)) {
				b.Add(i, float64(counts[key]), strings.Split(key, " ")...)
			}
		}
		for _, operation := range []string{"create", "update"} {
			b.Add(2, 0, operation, "pod", "")
		}
	})
}
