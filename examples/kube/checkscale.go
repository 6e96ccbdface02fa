package kube

import (
	"context"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

func checkAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler, f *status.Fields) {
	spec := f.At("spec")
	if m := a.Spec.MinReplicas; m != nil && *m < 1 {
		spec.Child("minReplicas").Invalid(*m, "must be greater than or equal to 1")
	}
	switch most := a.Spec.MaxReplicas; {
	case most == 0:
		spec.Child("maxReplicas").Required("must be greater than 0")
	case most < 0:
		spec.Child("maxReplicas").Invalid(most, "must be greater than or equal to 1")
	}
	if m := a.Spec.MinReplicas; m != nil && a.Spec.MaxReplicas < *m {
		spec.Child("maxReplicas").Invalid(a.Spec.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	checkTarget(a.Spec.ScaleTargetRef, spec.Child("scaleTargetRef"))
	for i := range a.Spec.Metrics {
		checkMetric(&a.Spec.Metrics[i], spec.Child("metrics").Index(i))
	}
	if m := a.Spec.MinReplicas; m != nil && *m == 0 && !slices.ContainsFunc(a.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}) {
		spec.Child("metrics").Forbidden("must have an Object or External metric, which goes on when there are no replicas")
	}
	if b := a.Spec.Behavior; b != nil {
		checkScaling(b.ScaleUp, spec.Child("behavior").Child("scaleUp"))
		checkScaling(b.ScaleDown, spec.Child("behavior").Child("scaleDown"))
	}
}

// checkTarget checks a reference to what is scaled or measured.
func checkTarget(r autoscalingv2.CrossVersionObjectReference, at status.Field) {
	isSegment(at.Child("kind"), r.Kind)
	isSegment(at.Child("name"), r.Name)
}

// checkAutoscalerVersions checks the versions of what an autoscaler scales and measures. Old is nil
// for a new one; otherwise, what has not changed stays as it is.
func checkAutoscalerVersions(a, old *autoscalingv2.HorizontalPodAutoscaler, f *status.Fields) {
	target, before := a.Spec.ScaleTargetRef, autoscalingv2.CrossVersionObjectReference{}
	if old != nil {
		before = old.Spec.ScaleTargetRef
	}
	if old == nil || target.APIVersion != before.APIVersion || target.Kind != before.Kind {
		if why := versionProblem(target.APIVersion, target.Kind == "ReplicationController"); why != "" {
			f.At("spec", "scaleTargetRef", "apiVersion").Invalid(target.APIVersion, why)
		}
	}
	wrong := func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil &&
			versionProblem(m.Object.DescribedObject.APIVersion, true) != ""
	}
	if old != nil && slices.ContainsFunc(old.Spec.Metrics, wrong) {
		return
	}
	for i, m := range a.Spec.Metrics {
		if wrong(m) {
			of := m.Object.DescribedObject.APIVersion
			measured := f.At("spec", "metrics").Index(i).Child("object").Child("describedObject")
			measured.Child("apiVersion").Invalid(of, versionProblem(of, true))
		}
	}
}

// checkAutoscalerUpdate checks a change of an autoscaler, or of its status.
func checkAutoscalerUpdate(ctx context.Context, a, old *autoscalingv2.HorizontalPodAutoscaler, f *status.Fields) {
	if registry.SubresourceFrom(ctx) != "status" {
		checkAutoscalerVersions(a, old, f)
		return
	}
	notNegative(f.At("status", "currentReplicas"), &a.Status.CurrentReplicas)
	notNegative(f.At("status", "desiredReplicas"), &a.Status.DesiredReplicas)
}

// versionProblem says why a text is not the version of an object, or returns "". No text is the
// version of the core group, which counts only if core is set.
func versionProblem(version string, core bool) string {
	switch {
	case strings.Count(version, "/") > 1:
		return "unexpected GroupVersion string: " + version
	case !core && (!strings.Contains(version, "/") || strings.HasPrefix(version, "/")):
		return "apiVersion must specify API group"
	}
	return ""
}

// checkScaling checks how fast replicas come or go.
func checkScaling(r *autoscalingv2.HPAScalingRules, at status.Field) {
	if r == nil {
		return
	}
	if s := r.StabilizationWindowSeconds; s != nil {
		notNegative(at.Child("stabilizationWindowSeconds"), s)
		if *s > 3600 {
			at.Child("stabilizationWindowSeconds").Invalid(*s, "must be less than or equal to 3600")
		}
	}
	if q := r.Tolerance; q != nil && q.Sign() < 0 {
		at.Child("tolerance").Invalid(q.String(), "must be greater than or equal to 0")
	}
	if r.SelectPolicy != nil {
		oneOf(at.Child("selectPolicy"), *r.SelectPolicy, autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect,
			autoscalingv2.MinChangePolicySelect)
	}
	if len(r.Policies) == 0 {
		at.Child("policies").Required("must specify at least one Policy")
	}
	for i, p := range r.Policies {
		one := at.Child("policies").Index(i)
		oneOf(one.Child("type"), p.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		if p.Value <= 0 {
			one.Child("value").Invalid(p.Value, "must be greater than zero")
		}
		if p.PeriodSeconds <= 0 {
			one.Child("periodSeconds").Invalid(p.PeriodSeconds, "must be greater than zero")
		}
		if p.PeriodSeconds > 1800 {
			one.Child("periodSeconds").Invalid(p.PeriodSeconds, "must be less than or equal to 1800")
		}
	}
}

// checkMetric requires that a metric has the source that its type names, and no other one.
func checkMetric(m *autoscalingv2.MetricSpec, at status.Field) {
	if m.Type == "" {
		at.Child("type").Required("must specify a metric source type")
	}
	oneOf(at.Child("type"), m.Type, autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	sources := []metricSource{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(at status.Field) {
			checkTarget(m.Object.DescribedObject, at.Child("describedObject"))
			checkMetricName(m.Object.Metric, at.Child("metric"))
			checkAmounts(&m.Object.Target, at.Child("target"), "must set either a target value for metric or a per-pod target")
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(at status.Field) {
			checkMetricName(m.External.Metric, at.Child("metric"))
			checkAmounts(&m.External.Target, at.Child("target"), "must set either a target value for metric or a per-pod target")
			if t := m.External.Target; t.Value != nil && t.AverageValue != nil {
				at.Child("target").Child("value").Forbidden("may not set both a target value for metric and a per-pod target")
			}
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(at status.Field) {
			checkMetricName(m.Pods.Metric, at.Child("metric"))
			if m.Pods.Target.AverageValue == nil {
				at.Child("target").Child("averageValue").Required("must specify a positive target averageValue")
			}
			checkAmounts(&m.Pods.Target, at.Child("target"), "")
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(at status.Field) {
			checkUse(string(m.Resource.Name), &m.Resource.Target, at)
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(at status.Field) {
			if m.ContainerResource.Container == "" {
				at.Child("container").Required("must specify a container")
			} else if why := meta.CheckDNSLabel(m.ContainerResource.Container); why != "" {
				at.Child("container").Invalid(m.ContainerResource.Container, why)
			}
			if name := m.ContainerResource.Name; name != "" {
				checkContainerAmount(at.Child("name"), name)
			}
			checkUse(string(m.ContainerResource.Name), &m.ContainerResource.Target, at)
		}},
	}
	checkMetricSources(sources, m.Type, at)
}

// metricSource is one place where a metric can have its source.
type metricSource struct {
	of    autoscalingv2.MetricSourceType
	name  string
	has   bool
	check func(status.Field)
}

// checkMetricSources checks the first source of a metric. Others must not be there, and that of the type must.
func checkMetricSources(all []metricSource, of autoscalingv2.MetricSourceType, at status.Field) {
	count := 0
	for _, s := range all {
		if s.has {
			if count++; count == 1 {
				s.check(at.Child(s.name))
			}
		} else if s.of == of {
			at.Child(s.name).Required("must populate information for the given metric source")
		}
	}
	for _, s := range all {
		if s.has && s.of != of && count > 1 {
			at.Child(s.name).Forbidden("must populate the given metric source only")
		}
	}
}

func checkMetricName(m autoscalingv2.MetricIdentifier, at status.Field) {
	if m.Name == "" {
		at.Child("name").Required("must specify a metric name")
	} else {
		isSegment(at.Child("name"), m.Name)
	}
}

// checkTargetType requires a type of target, which needs not be that of the value, as in kube-apiserver.
func checkTargetType(t *autoscalingv2.MetricTarget, at status.Field) {
	if t.Type == "" {
		at.Child("type").Required("must specify a metric target type")
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		at.Child("type").Invalid(string(t.Type), "must be either Utilization, Value, or AverageValue")
	}
}

// checkAmounts checks a target that is an amount. If none is a problem, that is what to say.
func checkAmounts(t *autoscalingv2.MetricTarget, at status.Field, none string) {
	checkTargetType(t, at)
	positive := func(name string, q *resource.Quantity) {
		if q != nil && q.Sign() <= 0 {
			at.Child(name).Invalid(q.String(), "must be positive")
		}
	}
	positive("value", t.Value)
	positive("averageValue", t.AverageValue)
	if t.Value == nil && t.AverageValue == nil && none != "" {
		at.Child("averageValue").Required(none)
	}
}

// checkUse checks a target for the use of a resource.
func checkUse(name string, t *autoscalingv2.MetricTarget, at status.Field) {
	if name == "" {
		at.Child("name").Required("must specify a resource name")
	}
	target := at.Child("target")
	checkTargetType(t, target)
	if u := t.AverageUtilization; u != nil && *u < 1 {
		target.Child("averageUtilization").Invalid(*u, "must be greater than 0")
	}
	if v := t.AverageValue; v != nil && v.Sign() <= 0 {
		target.Child("averageValue").Invalid(v.String(), "must be positive")
	}
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		target.Child("averageUtilization").Required("must set either a target raw value or a target utilization")
	case t.AverageUtilization != nil && t.AverageValue != nil:
		target.Child("averageValue").Forbidden("may not set both a target raw value and a target utilization")
	}
}
