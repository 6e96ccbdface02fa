package overlay_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/examples/kube/overlay"
	"github.com/kindwright/kindwright/openapi"
)

// OAPI: the feature OpenAPIEnums, which Kubernetes tests in test/integration/apiserver/openapi.
func TestValuesAreToldUnlessTheFeatureIsOff(t *testing.T) {
	for parse, want := range map[bool]int{true: 3, false: 0} {
		load := overlay.ParseWithoutEnums
		if parse {
			load = overlay.Parse
		}
		o, err := load()
		require.NoError(t, err)
		s, err := openapi.FromType(reflect.TypeFor[corev1.ContainerPort](), openapi.WithOverlay(o))
		require.NoError(t, err)
		protocol, found := s.Lookup("protocol")
		require.True(t, found)
		require.Len(t, protocol.Enum, want)
		require.Equal(t, "TCP", protocol.DefaultValue, "what else the comments say is told")
	}
}
