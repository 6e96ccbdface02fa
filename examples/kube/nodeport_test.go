package kube

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Users choose node ports at the beginning of the range, so these are given to others last.
func TestNodePortsForUsersAreGivenLast(t *testing.T) {
	s := serve(t, Options{NodePorts: [2]int32{31000, 31031}})
	port := func(name, ports string) []float64 {
		made := s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"`+name+`"},"spec":{"type":"NodePort","ports":[`+ports+`]}}`)
		var out []float64
		for _, p := range list(at(made, "spec", "ports")) {
			out = append(out, at(p, "nodePort").(float64))
		}
		return out
	}
	for i := range 16 {
		require.GreaterOrEqual(t, port(fmt.Sprintf("s%d", i), `{"port":80}`)[0], 31016.0)
	}
	require.Less(t, port("last", `{"port":80}`)[0], 31016.0)
}

// Two protocols of a port of a new service have one port on nodes, also if the second one names it.
func TestProtocolsShareANodePort(t *testing.T) {
	s := serve(t, Options{})
	made := s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"dns"},"spec":{"type":"NodePort","ports":[
		{"name":"t","port":53},{"name":"u","port":53,"protocol":"UDP","nodePort":30053}]}}`)
	for _, p := range list(at(made, "spec", "ports")) {
		require.EqualValues(t, 30053, at(p, "nodePort"))
	}
}
