package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The classes that a cluster has from its start stay as they are.
func TestClassesOfTheSystemStay(t *testing.T) {
	s := serve(t, Options{})
	const classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
	kept := s.must(t, 403, "DELETE", classes+"/system-node-critical", "")
	require.Equal(t, `priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted`, kept["message"])
	s.must(t, 403, "DELETE", classes+"/system-node-critical?dryRun=All", "")
	unknown := s.must(t, 422, "POST", classes, `{"metadata":{"name":"system-x"},"value":1}`)
	require.Contains(t, unknown["message"], "reserved for system use only. error: system-x is not a known system priority class")

	s.must(t, 200, "DELETE", classes, "") // all at once, as in kube-apiserver
	for body, why := range map[string]string{
		`"value":5`: "value of system-node-critical PriorityClass must be 2000001000",
		`"value":2000001000,"globalDefault":true`: "globalDefault of system-node-critical PriorityClass must be false",
	} {
		refused := s.must(t, 422, "POST", classes, `{"metadata":{"name":"system-node-critical"},`+body+`}`)
		require.Contains(t, refused["message"], why)
	}
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"system-node-critical"},"value":2000001000}`)
}
