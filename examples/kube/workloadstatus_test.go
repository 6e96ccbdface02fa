package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Statuses of workloads are refused where kube-apiserver refuses them.
func TestUPDATE_StatusesOfWorkloads(t *testing.T) {
	s := serve(t, Options{})
	const template = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}`
	selected := `{"metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"a":"b"}},` + template + `}}`
	apps := func(plural string) string { return "/apis/apps/v1/namespaces/default/" + plural }
	const controllers = "/api/v1/namespaces/default/replicationcontrollers"
	for path, body := range map[string]string{
		apps("deployments"): selected, apps("replicasets"): selected, apps("statefulsets"): selected, apps("daemonsets"): selected,
		controllers: `{"metadata":{"name":"w"},"spec":{"selector":{"a":"b"},` + template + `}}`,
	} {
		s.must(t, 201, "POST", path, body)
	}
	s.must(t, 200, "PATCH", apps("deployments")+"/w/status", `{"status":{"collisionCount":2}}`, "Content-Type", merge)
	for _, c := range []struct{ path, status, want string }{
		{apps("deployments"), `"replicas":1,"readyReplicas":1,"availableReplicas":1`, ""},
		{apps("deployments"), `"replicas":1,"readyReplicas":2`, "FieldValueInvalid status.readyReplicas"},
		{apps("deployments"), `"unavailableReplicas":-1`, "FieldValueInvalid status.unavailableReplicas"},
		{apps("deployments"), `"replicas":2,"updatedReplicas":3`, "FieldValueInvalid status.updatedReplicas"},
		{apps("deployments"), `"replicas":2,"readyReplicas":1,"availableReplicas":2`, "FieldValueInvalid status.availableReplicas"},
		{apps("deployments"), `"collisionCount":1`, "FieldValueInvalid status.collisionCount"},
		{apps("deployments"), `"terminatingReplicas":-1`, "FieldValueInvalid status.terminatingReplicas"},
		{apps("replicasets"), `"replicas":1,"fullyLabeledReplicas":2`, "FieldValueInvalid status.fullyLabeledReplicas"},
		{controllers, `"replicas":1,"readyReplicas":2`, "FieldValueInvalid status.readyReplicas"},
		{apps("statefulsets"), `"replicas":1,"currentReplicas":2`, "FieldValueInvalid status.currentReplicas"},
		{apps("statefulsets"), `"observedGeneration":-1`, "FieldValueInvalid status.observedGeneration"},
		{apps("daemonsets"), `"numberReady":-1`, "FieldValueInvalid status.numberReady"},
		{apps("daemonsets"), `"numberReady":5`, ""},
	} {
		code, answer := s.do(t, "PATCH", c.path+"/w/status?dryRun=All", `{"status":{`+c.status+`}}`, "Content-Type", merge)
		require.Equal(t, c.want, causesIn(answer), "%s %s: %d", c.path, c.status, code)
	}
}

// causesIn lists the reasons and fields of the causes of an answer.
func causesIn(answer map[string]any) string {
	var out []string
	for _, c := range list(at(answer, "details", "causes")) {
		out = append(out, fmt.Sprintf("%v %v", at(c, "reason"), at(c, "field")))
	}
	return strings.Join(out, ", ")
}
