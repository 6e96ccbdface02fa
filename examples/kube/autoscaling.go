package kube

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// autoscaling is HorizontalPodAutoscaler, stored as v2 and also served as v1.
func autoscaling(c *cluster) []registry.Definition {
	names := []string{"hpa"}
	still := registry.WriteRules{NoGeneration: true}
	v1 := registry.Kind[autoscalingv1.HorizontalPodAutoscaler]{
		Writes: still, Status: registry.Status{Metadata: everyMetadata()},
		Group: "autoscaling", Version: "v1", Plural: "horizontalpodautoscalers",
		Names: registry.Names{ShortNames: names, Categories: []string{"all"}},
		Table: registry.Table{Columns: autoscalerColumns(made("Targets", "What is measured, and what it should be.",
			cpuTarget, "status.currentCPUUtilizationPercentage", "spec.targetCPUUtilizationPercentage"))},
	}
	return []registry.Definition{
		autoscalers{kind[autoscalingv2.HorizontalPodAutoscaler]{cluster: c, Kind: registry.Kind[autoscalingv2.HorizontalPodAutoscaler]{
			Rules: registry.Rules[autoscalingv2.HorizontalPodAutoscaler]{
				Validate: checked(checkAutoscaler), ValidateUpdate: checkAutoscalerUpdate,
				ValidateCreate: func(_ context.Context, a *autoscalingv2.HorizontalPodAutoscaler, f *status.Fields) {
					checkAutoscalerVersions(a, nil, f)
				},
			},

			Writes: still, Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers",
			Names: registry.Names{ShortNames: names, Categories: []string{"all"}},
			Table: registry.Table{Columns: autoscalerColumns(made("Targets",
				"What is measured, and what it should be.", metricTargets, "spec.metrics", "status.currentMetrics"))},
			Also: []registry.Form{registry.As(v1, autoscalerToV2, autoscalerToV1, nil)},
		}, fill: fillAutoscaler}, kind[autoscalingv1.HorizontalPodAutoscaler]{fill: fillAutoscalerV1}},
	}
}

// autoscalers are both versions.
type autoscalers struct {
	stored kind[autoscalingv2.HorizontalPodAutoscaler]
	v1     kind[autoscalingv1.HorizontalPodAutoscaler]
}

// Define implements registry.Definition.
func (a autoscalers) Define(env registry.Env) (registry.Bundle, error) {
	b, err := a.stored.Define(env)
	if err != nil {
		return b, err
	}
	return b, a.v1.asWritten(b.Resources[1])
}

func autoscalerColumns(targets openapi.Column) []openapi.Column {
	return columns(
		made("Reference", "What is scaled.", func(v []any) any {
			return word(at(v[0], "kind")) + "/" + word(at(v[0], "name"))
		}, "spec.scaleTargetRef"),
		targets,
		or("MinPods", "spec.minReplicas", "<unset>", "How many pods there are at least."),
		made("MaxPods", "How many there are at most.", func(v []any) any { return number(v[0]) }, "spec.maxReplicas"),
		made("Replicas", "How many there are.", func(v []any) any { return number(v[0]) }, "status.currentReplicas"),
	)
}

func cpuTarget(v []any) any {
	if v[1] == nil {
		return "<none>"
	}
	return "cpu: " + percent(v[0], "<unknown>") + "/" + percent(v[1], "<auto>")
}

func percent(v any, otherwise string) string {
	if v == nil {
		return otherwise
	}
	return word(v) + "%"
}

// metricTargets shows the first two metrics.
func metricTargets(v []any) any {
	specs, statuses := list(v[0]), list(v[1])
	if len(specs) == 0 {
		return "<none>"
	}
	var out []string
	for i, spec := range specs {
		var state any
		if i < len(statuses) {
			state = statuses[i]
		}
		out = append(out, metricTarget(spec, state))
	}
	if len(out) > 2 {
		return fmt.Sprintf("%s + %d more...", strings.Join(out[:2], ", "), len(out)-2)
	}
	return strings.Join(out, ", ")
}

// metricTarget shows the current and the desired value of one metric.
func metricTarget(spec, state any) string {
	source := map[string]string{
		"External": "external", "Pods": "pods", "Object": "object", "Resource": "resource",
		"ContainerResource": "containerResource",
	}[word(at(spec, "type"))]
	if source == "" {
		return "<unknown type>"
	}
	target, current := at(spec, source, "target"), at(state, source, "current")
	name, suffix := "", ""
	value := "value"
	switch {
	case source == "pods":
		value = "averageValue"
	case source == "resource" || source == "containerResource":
		name, value = word(at(spec, source, "name"))+": ", "averageValue"
		if at(target, value) == nil {
			return name + percent(at(current, "averageUtilization"), "<unknown>") + "/" +
				percent(at(target, "averageUtilization"), "<auto>")
		}
	case at(target, "averageValue") != nil:
		value, suffix = "averageValue", " (avg)"
	}
	is := "<unknown>"
	if text := word(at(current, value)); text != "" {
		is = text
	}
	return name + is + "/" + word(at(target, value)) + suffix
}

// autoscalerToV2 moves the one metric of v1 to its place in v2.
func autoscalerToV2(a *autoscalingv1.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: a.TypeMeta, ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	if use := a.Spec.TargetCPUUtilizationPercentage; use != nil {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUse(use)}
	}
	if use := a.Status.CurrentCPUUtilizationPercentage; use != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
			Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: use},
		}}}
	}
	fillEmpty(reflect.ValueOf(out))
	return out, nil
}

// autoscalerToV1 converts what v1 can express.
func autoscalerToV1(a *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta: a.TypeMeta, ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	for _, m := range a.Spec.Metrics {
		if r := m.Resource; r != nil && r.Name == corev1.ResourceCPU && r.Target.AverageUtilization != nil {
			out.Spec.TargetCPUUtilizationPercentage = r.Target.AverageUtilization
		}
	}
	for _, m := range a.Status.CurrentMetrics {
		if r := m.Resource; r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
	}
	return out, nil
}

// cpuUse is the metric that v1 has.
func cpuUse(percent *int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
			Type:               autoscalingv2.UtilizationMetricType,
			AverageUtilization: percent,
		},
	}}
}
