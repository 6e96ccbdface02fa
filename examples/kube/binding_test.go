package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A binding ends the nomination of a pod for a node, or else the scheduler would keep room for it there.
func TestBindingsForgetNominations(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		s := serve(t, Options{FeaturesOff: func(gate string) bool { return keeps && gate == "ClearingNominatedNodeNameAfterBinding" }})
		s.must(t, 201, "POST", podsPath, podNamed("p", ""))
		s.must(t, 200, "PATCH", podsPath+"/p/status", `{"status":{"nominatedNodeName":"n2"}}`, "Content-Type", merge)
		s.must(t, 201, "POST", podsPath+"/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n1"}}`)
		bound := s.must(t, 200, "GET", podsPath+"/p", "")
		require.Equal(t, "n1", at(bound, "spec", "nodeName"))
		require.Equal(t, map[bool]any{false: nil, true: "n2"}[keeps], at(bound, "status", "nominatedNodeName"))
	}
}
