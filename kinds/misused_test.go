package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestNilOptionsAreIgnored(t *testing.T) {
	for name, d := range map[string][]registry.Definition{
		"events": {kinds.Events(nil)}, "namespaces": {kinds.Namespaces(nil)}, "service accounts": {kinds.ServiceAccounts(nil)},
		"all": {kinds.ControlPlane(nil)}, "definitions": {kinds.ControlPlane(), crd.Kinds(nil)},
	} {
		_, err := kindwright.New(memory.New(), kindwright.Serve(d...))
		require.NoError(t, err, name)
	}
}
