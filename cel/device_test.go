package cel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
)

// Selectors of devices compile with what is known of a device.
func TestDevice(t *testing.T) {
	env, err := cel.NewEnvironment(cel.Device())
	require.NoError(t, err)
	for _, good := range []string{
		`true`, `device.driver == "gpu.example.com"`, `device.attributes["gpu.example.com"].model == "a100"`,
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0`, `device.attributes["gpu.example.com"].healthy`,
		`cel.bind(gpu, device.attributes["gpu.example.com"], gpu.a && gpu.b)`, `device.allowMultipleAllocations`,
		`device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.0"))`,
	} {
		_, err := env.Compile(good, cel.Bool(), cel.Any())
		require.NoError(t, err, good)
	}
	for bad, why := range map[string]string{
		``: "Syntax error", `device.name == "a"`: "undefined field 'name'", `1`: "must evaluate to bool but got int",
		`device.driver == 1`: "no matching overload",
	} {
		_, err := env.Compile(bad, cel.Bool(), cel.Any())
		require.ErrorContains(t, err, why, bad)
	}
	plain, err := cel.NewEnvironment(cel.User())
	require.NoError(t, err)
	_, err = plain.Compile(`cel.bind(x, true, x)`, cel.Bool())
	require.ErrorContains(t, err, "undeclared reference")
}
