package apply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/openapi"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	schema, err := openapi.New(&openapi.Schema{Type: "object"})
	require.NoError(t, err)
	_, err = apply.New([]apply.Version{{APIVersion: "v1", Schema: schema}}, nil, nil)
	require.NoError(t, err, "a nil option is ignored")
	for says, versions := range map[string][]apply.Version{
		"a kind needs at least one version": nil,
		"the field Schema must be set":      {{APIVersion: "v1"}},
		"APIVersion must be set":            {{Schema: schema}},
		"needs a Convert function":          {{APIVersion: "v1", Schema: schema}, {APIVersion: "v2", Schema: schema}},
	} {
		_, err := apply.New(versions, nil)
		require.ErrorContains(t, err, says)
	}
}
