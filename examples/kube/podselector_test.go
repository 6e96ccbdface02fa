package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys that a pod's selectors name stand for the labels of the pod (KEP-3243, KEP-3633).
func TestSelectorsOfPodsHaveTheValuesOfTheirLabelKeys(t *testing.T) {
	s := serve(t, Options{})
	made := s.must(t, 201, "POST", podsPath, podNamed("web", `"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z",
		"whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"a":"b"}},"matchLabelKeys":["app","none"]},
		{"maxSkew":1,"topologyKey":"y","whenUnsatisfiable":"DoNotSchedule"}],
		"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"z",
		"labelSelector":{"matchLabels":{"a":"b"}},"mismatchLabelKeys":["app"]}]}},`))
	spread := list(at(made, "spec", "topologySpreadConstraints"))
	in := map[string]any{"key": "app", "operator": "In", "values": []any{"web"}}
	require.Equal(t, []any{in}, at(spread[0], "labelSelector", "matchExpressions"))
	require.Nil(t, at(spread[1], "labelSelector"))
	term := list(at(made, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))[0]
	in["operator"] = "NotIn"
	require.Equal(t, []any{in}, at(term, "labelSelector", "matchExpressions"))
}
