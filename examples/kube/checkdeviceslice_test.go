package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A slice says of each device what can be true of it.
func TestCREATE_DevicesOfSlicesAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const path = "/apis/resource.k8s.io/v1/resourceslices?dryRun=All"
	post := func(count int, devices string) (int, map[string]any) {
		return s.do(t, "POST", path, fmt.Sprintf(`{"metadata":{"name":"s"},"spec":{"driver":"d.example.com","nodeName":"n",
			"pool":{"name":"p","generation":0,"resourceSliceCount":%d},"devices":[%s]}}`, count, devices))
	}
	device := func(attribute string) string { return `{"name":"a","attributes":{"x":` + attribute + `}}` }
	for _, good := range []string{
		"", device(`{"bool":false}`), device(`{"int":0}`), device(`{"string":""}`), device(`{"version":"1.0.0-rc.1+build.007"}`),
		`{"name":"a"},{"name":"b"}`,
	} {
		code, out := post(1, good)
		require.Equal(t, 201, code, "%s: %v", good, out)
	}
	many := func(n int, more string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"name":"d%d"%s}`, i, more)
		}
		return strings.Join(all, ",")
	}
	const taints = `,"taints":[{"key":"k","effect":"NoSchedule"}]`
	for _, bad := range []struct {
		count         int
		devices, want string
	}{
		{0, "", "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"},
		{1, device(`{}`), "spec.devices[0].attributes[x]: Invalid value: \"\": exactly one value must be specified"},
		{1, device(`{"int":1,"bool":true}`), "spec.devices[0].attributes[x]"},
		{1, device(`{"string":"` + strings.Repeat("a", 65) + `"}`), "spec.devices[0].attributes[x].string: Too long"},
		{1, device(`{"version":"v1.0"}`), "must be a string compatible with semver.org spec 2.0.0"},
		{1, device(`{"version":"1.0.0-01"}`), "must be a string compatible with semver.org spec 2.0.0"},
		{1, `{"name":"A"}`, "spec.devices[0].name: Invalid value"},
		{1, `{"name":""}`, "spec.devices[0].name: Invalid value"},
		{1, `{"name":"a"},{"name":"a"}`, "spec.devices[1]: Duplicate value"},
		{1, many(129, ""), "spec.devices: Too many: 129: must have at most 128 items"},
		{1, many(65, taints), "spec.devices: Too many: 65: must have at most 64 items"},
	} {
		code, out := post(bad.count, bad.devices)
		require.Equal(t, 422, code, "%s: %v", bad.want, out)
		require.Contains(t, out["message"], bad.want)
	}
}
