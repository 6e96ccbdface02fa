package kube

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage/memory"
)

// Claims and slices have other documents in v1beta1, and nothing is lost on the way there and back.
func TestVER_DevicesInTheirVersions(t *testing.T) {
	s := serveOn(t, memory.New(), Options{}, kindwright.Kubernetes{RuntimeConfig: "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"})
	const group = "/apis/resource.k8s.io/"
	claims := func(version string) string { return group + version + "/namespaces/default/resourceclaims" }
	exact := map[string]any{
		"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1.0,
		"selectors":   []any{map[string]any{"cel": map[string]any{"expression": "true"}}},
		"tolerations": []any{map[string]any{"key": "k", "operator": "Equal", "value": "v"}},
	}
	flat := map[string]any{"name": "r"}
	for name, value := range exact {
		flat[name] = value
	}
	const sent = `"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}],"tolerations":[{"key":"k","value":"v"}]`
	for version, request := range map[string]string{
		"v1": `"exactly":{` + sent + `}`, "v1beta2": `"exactly":{` + sent + `}`, "v1beta1": sent,
	} {
		name := "claim-" + version
		s.must(t, 201, "POST", claims(version), `{"metadata":{"name":"`+name+`"},"spec":{"devices":{"requests":[{"name":"r",`+request+`}]}}}`)
		for _, other := range []string{"v1", "v1beta2", "v1beta1"} {
			got := s.must(t, 200, "GET", claims(other)+"/"+name, "")
			want := map[string]any{"name": "r", "exactly": exact}
			if other == "v1beta1" {
				want = flat
			}
			require.Equal(t, []any{want}, at(got, "spec", "devices", "requests"), "%s as %s", version, other)
		}
	}
	none := func(version string) []string {
		return refusal(s.do(t, "POST", claims(version), `{"metadata":{"name":"none"},"spec":{"devices":{"requests":[{"name":"r"}]}}}`))
	}
	require.Equal(t, []string{"422 Invalid", "spec.devices.requests[0] FieldValueRequired"}, none("v1"))
	require.Equal(t, none("v1"), none("v1beta1"), "errors name the fields of v1")

	s.must(t, 201, "POST", group+"v1beta1/resourceslices", `{"metadata":{"name":"s"},"spec":{"driver":"x.y","nodeName":"n",
		"pool":{"name":"p","generation":1,"resourceSliceCount":1},"devices":[{"name":"d","basic":{"attributes":{"a":{"bool":true}},
		"taints":[{"key":"k","effect":"NoSchedule"}]}}]}}`)
	stored := list(at(s.must(t, 200, "GET", group+"v1/resourceslices/s", ""), "spec", "devices"))[0]
	require.Equal(t, true, at(stored, "attributes", "a", "bool"))
	require.NotNil(t, at(list(at(stored, "taints"))[0], "timeAdded"))
	beta := list(at(s.must(t, 200, "GET", group+"v1beta1/resourceslices/s", ""), "spec", "devices"))[0]
	require.Equal(t, at(stored, "taints"), at(beta, "basic", "taints"))
	require.Nil(t, at(beta, "taints"))
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		for driver, found := range map[string]int{"x.y": 1, "other": 0} {
			all := s.must(t, 200, "GET", group+version+"/resourceslices?fieldSelector=spec.driver%3D"+driver, "")
			require.Len(t, list(all["items"]), found, "%s %s", version, driver)
		}
	}
}
