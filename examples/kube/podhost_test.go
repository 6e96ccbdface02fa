package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Old clients select the pods of a node by spec.host.
func TestPodsAreSelectedByTheirHost(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("here", `"nodeName":"n1",`))
	s.must(t, 201, "POST", podsPath, podNamed("there", `"nodeName":"n2",`))
	found := s.must(t, 200, "GET", podsPath+"?fieldSelector=spec.host%3Dn1", "")
	require.Len(t, found["items"], 1)
	require.Equal(t, "here", at(list(found["items"])[0], "metadata", "name"))
}
