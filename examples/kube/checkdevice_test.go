package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/status"
)

// complaints are what a check says of an object: the fields, each with a reason.
func complaints[T any](t *testing.T, object string, check func(*T, *status.Fields)) string {
	t.Helper()
	o, f := new(T), &status.Fields{}
	require.NoError(t, json.Unmarshal([]byte(object), o), object)
	check(o, f)
	var out []string
	for _, e := range f.Errors() {
		out = append(out, fmt.Sprintf("%s %s", e.Field, strings.TrimPrefix(string(e.Type), "FieldValue")))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// What is asked for of devices names what there is, in forms that drivers and the scheduler understand.
func TestCREATE_ClaimsForDevicesAreChecked(t *testing.T) {
	d := newDeviceChecks()
	const request = `{"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}`
	exactly := func(part string) string {
		return `"requests":[{"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1,` + part + `}}]`
	}
	with := func(part string) string { return `"requests":[` + request + `],` + part }
	const at = "spec.devices."
	for devices, want := range map[string]string{
		with(`"constraints":[{"requests":["a"],"matchAttribute":"d.e/x"}]`):                                   "",
		exactly(`"selectors":[{"cel":{"expression":"cel.bind(x, device.attributes['d.e'], x.a)"}}]`):          "",
		`"requests":[` + request + `,` + request + `]`:                                                        at + "requests[1] Duplicate",
		exactly(`"selectors":[{"cel":{"expression":"device.name"}}]`):                                         at + "requests[0].exactly.selectors[0].cel.expression Invalid",
		exactly(`"selectors":[{"cel":{"expression":""}}]`):                                                    at + "requests[0].exactly.selectors[0].cel.expression Invalid",
		exactly(`"tolerations":[{"key":"k","operator":"Exists","value":"v","effect":"x"}]`):                   at + "requests[0].exactly.tolerations[0].effect NotSupported, " + at + "requests[0].exactly.tolerations[0].value Invalid",
		with(`"constraints":[{}]`):                                                                            at + "constraints[0] Required",
		with(`"constraints":[{"requests":["b","a","a"],"matchAttribute":"x"}]`):                               at + "constraints[0].matchAttribute Invalid, " + at + "constraints[0].requests[0] Invalid, " + at + "constraints[0].requests[2] Duplicate",
		with(`"config":[{"requests":["a/b"]}]`):                                                               at + "config[0].opaque Required, " + at + "config[0].requests[0] Invalid",
		with(`"config":[{"opaque":{"driver":"-","parameters":[]}}]`):                                          at + "config[0].opaque.driver Invalid, " + at + "config[0].opaque.parameters Invalid",
		with(`"config":[{"opaque":{"driver":"d","parameters":{"a":"` + strings.Repeat("a", 11<<10) + `"}}}]`): at + "config[0].opaque.parameters TooLong",
	} {
		require.Equal(t, want, complaints(t, `{"spec":{"devices":{`+devices+`}}}`, d.claim), devices)
	}
	require.Equal(t, "spec.metadata.labels Invalid, spec.metadata.name Forbidden, spec.metadata.uID Forbidden",
		complaints(t, `{"spec":{"metadata":{"name":"x","uid":"u","labels":{"-":""}},"spec":{"devices":{}}}}`, d.template))
	require.Equal(t, "spec.config[0].opaque Required, spec.extendedResourceName Invalid, spec.selectors[0].cel Required",
		complaints(t, `{"spec":{"extendedResourceName":"x","config":[{}],"selectors":[{}]}}`, func(c *resourcev1.DeviceClass, f *status.Fields) { d.class(c, nil, f) }))
}

// A slice says of devices what can be true.
func TestCREATE_SlicesOfDevicesAreChecked(t *testing.T) {
	device := func(part string) string { return `"nodeName":"n","devices":[{"name":"d",` + part + `}]` }
	const at = "spec.devices[0]."
	for part, want := range map[string]string{
		device(`"capacity":{"m":{"value":"4Gi"}}`): "",
		`"nodeSelector":{"nodeSelectorTerms":[]}`:  "spec.nodeSelector.nodeSelectorTerms Invalid, spec.nodeSelector.nodeSelectorTerms Required",
		`"nodeName":"n","sharedCounters":[{"name":"s"},{"name":"s","counters":{"A":{"value":"1"}}}]`: "spec.sharedCounters[0].counters Required, " +
			"spec.sharedCounters[1] Duplicate, spec.sharedCounters[1].counters Invalid",
		`"nodeName":"n","sharedCounters":[{"name":"s","counters":{"a":{"value":"1"}}}],"devices":[{"name":"d"}]`: "spec Invalid",
		`"perDeviceNodeSelection":true,"devices":[{"name":"d"}]`:                                                 "spec.devices[0] Required",
		device(`"allNodes":true`):                                   "spec.devices[0] Invalid",
		device(`"attributes":{"a b":{"bool":true}}`):                at + "attributes Invalid",
		device(`"capacity":{"/x":{"value":"1"}}`):                   at + "capacity Invalid",
		device(`"taints":[{"key":"","value":"-"}]`):                 at + "taints[0].effect Required, " + at + "taints[0].key Invalid, " + at + "taints[0].value Invalid",
		device(`"consumesCounters":[{}]`):                           at + "consumesCounters[0].counterSet Required, " + at + "consumesCounters[0].counters Required",
		device(`"bindingConditions":["a","a"]`):                     at + "bindingConditions[1] Duplicate, " + at + "bindingFailureConditions Invalid",
		device(`"capacity":{"m":{"value":"1","requestPolicy":{}}}`): at + "capacity[m].requestPolicy Forbidden",
		device(`"allowMultipleAllocations":true,"capacity":{"m":{"value":"4","requestPolicy":{"default":"5","validRange":{"min":"1","max":"2","step":"3"}}}}`): at +
			"capacity[m].requestPolicy.validRange.max Invalid, " + at + "capacity[m].requestPolicy.validRange.step Invalid",
		device(`"allowMultipleAllocations":true,"capacity":{"m":{"value":"4","requestPolicy":{"default":"3","validValues":["2","1"]}}}`): at +
			"capacity[m].requestPolicy.validValues Invalid, " + at + "capacity[m].requestPolicy.validValues[1] Invalid",
	} {
		object := `{"spec":{"driver":"d.e","pool":{"name":"p","resourceSliceCount":1},` + part + `}}`
		require.Equal(t, want, complaints(t, object, func(s *resourcev1.ResourceSlice, f *status.Fields) { checkDeviceSlice(s, nil, f) }), part)
	}
	require.Equal(t, "spec.driver Required, spec.pool.name Required, spec.pool.resourceSliceCount Invalid",
		complaints(t, `{"spec":{"allNodes":true}}`, func(s *resourcev1.ResourceSlice, f *status.Fields) { checkDeviceSlice(s, nil, f) }))
}

// A claim gets devices that it asks for, and drivers report on those.
func TestUPDATE_StatusesOfClaimsAreChecked(t *testing.T) {
	d := newDeviceChecks()
	ctx := hookcontext.WithSubresource(context.Background(), "status")
	const result = `{"request":"a","driver":"d.e","pool":"p","device":"x"}`
	for part, want := range map[string]string{
		`"allocation":{"devices":{"results":[` + result + `]}},"devices":[{"driver":"d.e","pool":"p","device":"x"}]`: "",
		`"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]`:                                                   "status.reservedFor Forbidden",
		`"allocation":{},"reservedFor":[{"uid":"u"},{"resource":"pods","name":"p","uid":"u"}]`:                       "status.reservedFor[0].name Required, status.reservedFor[0].resource Required, status.reservedFor[1] Duplicate",
		`"allocation":{"devices":{"results":[{"request":"b","driver":"d","pool":"p","device":"x","shareID":"S"}]}}`: "status.allocation.devices.results[0].request Invalid, " +
			"status.allocation.devices.results[0].shareID Invalid",
		`"allocation":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{}}}]}}`: "status.allocation.devices.config[0].source Required",
		`"devices":[{"driver":"d","pool":"p","device":"x","networkData":{"ips":["1.2.3.4"]},"data":[]}]`: "status.devices[0] Invalid, " +
			"status.devices[0].data Invalid, status.devices[0].networkData.ips[0] Invalid",
	} {
		object := `{"spec":{"devices":{"requests":[{"name":"a"}]}},"status":{` + part + `}}`
		require.Equal(t, want, complaints(t, object, func(c *resourcev1.ResourceClaim, f *status.Fields) {
			d.claimUpdate(ctx, c, &resourcev1.ResourceClaim{}, f)
		}), part)
	}
	allocated := `{"status":{"allocation":{"devices":{"results":[` + result + `]}},"devices":[{"driver":"d.e","pool":"p","device":"x"}]}}`
	old, c := &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaim{}
	require.NoError(t, json.Unmarshal([]byte(allocated), old))
	old.DeepCopyInto(c)
	c.Status.Allocation = nil
	require.NoError(t, completeClaim(ctx, c, old))
	require.Empty(t, c.Status.Devices, "of devices that the claim no longer has")
}

// Classes of runtimes, roles, budgets and autoscalers are refused for what they are refused for elsewhere.
func TestCREATE_SmallKindsAreChecked(t *testing.T) {
	require.Equal(t, "overhead.limits[x] Invalid, scheduling.tolerations[1] Duplicate", complaints(t,
		`{"handler":"h","overhead":{"podFixed":{"x":"1"}},"scheduling":{"tolerations":[{"operator":"Exists"},{"operator":"Exists","tolerationSeconds":null}]}}`,
		checkRuntimeClass))
	require.Equal(t, "aggregationRule.clusterRoleSelectors[0] Invalid, aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator Invalid",
		complaints(t, `{"aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"x"}]}]}}`,
			func(r *rbacv1.ClusterRole, f *status.Fields) { checkClusterRole(r, f) }))
	require.Equal(t, "spec.unhealthyPodEvictionPolicy NotSupported", complaints(t, `{"spec":{"unhealthyPodEvictionPolicy":""}}`, checkBudget))
	ctx := hookcontext.WithSubresource(context.Background(), "status")
	require.Equal(t, "status.conditions[0].lastTransitionTime Required, status.currentHealthy Invalid", complaints(t,
		`{"status":{"currentHealthy":-1,"conditions":[{"type":"A","status":"True","reason":"R"}]}}`,
		func(b *policyv1.PodDisruptionBudget, f *status.Fields) { checkBudgetUpdate(ctx, b, nil, f) }))
	require.Equal(t, "status.desiredReplicas Invalid", complaints(t, `{"status":{"desiredReplicas":-1}}`,
		func(a *autoscalingv2.HorizontalPodAutoscaler, f *status.Fields) {
			checkAutoscalerUpdate(ctx, a, nil, f)
		}))
	require.Equal(t, "metrics.object Required", complaints(t, `{"type":"Object","pods":{"metric":{"name":"m"},"target":{"type":"Value","averageValue":"1"}}}`,
		func(m *autoscalingv2.MetricSpec, f *status.Fields) { checkMetric(m, f.At("metrics")) }))
}
