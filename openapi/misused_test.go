package openapi_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	_, err := openapi.FromType(reflect.TypeFor[struct{ A string }](), nil)
	require.NoError(t, err, "a nil option is ignored")
	_, err = openapi.FromType(reflect.TypeFor[struct{ A string }](), openapi.WithOverlay(nil))
	require.NoError(t, err, "no overlay")
	_, err = openapi.FromType(nil)
	require.Error(t, err)
}
