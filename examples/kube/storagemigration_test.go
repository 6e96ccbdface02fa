package kube

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage/memory"
)

// What Kubernetes tests in pkg/apis/storagemigration/validation, with its sentences.
func TestStorageMigrationsAreRecorded(t *testing.T) {
	s := serveOn(t, memory.New(), Options{StorageMigrations: true}, kindwright.Kubernetes{RuntimeConfig: "storagemigration.k8s.io/v1beta1=true"})
	const path = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
	made := s.must(t, 201, "POST", path, `{"metadata":{"name":"a"},"spec":{"resource":{"group":"apps","resource":"deployments"}},"status":{"resourceVersion":"7"}}`)
	require.Nil(t, at(made, "status", "resourceVersion"))
	for spec, want := range map[string]string{
		`{}`:                               "spec.resource.resource: Required value: resource is required to be set",
		`{"resource":{"resource":"Pods"}}`: `spec.resource.resource: Invalid value: "Pods"`,
		`{"resource":{"resource":"pods","group":"_"}}`: `spec.resource.group: Invalid value: "_"`,
	} {
		require.Contains(t, s.must(t, 422, "POST", path, `{"metadata":{"name":"b"},"spec":`+spec+`}`)["message"], want)
	}
	require.Contains(t, s.must(t, 422, "PATCH", path+"/a", `{"spec":{"resource":{"resource":"pods"}}}`, "Content-Type", merged)["message"], "spec: Invalid value")
	state := func(code int, body string) string {
		return word(s.must(t, code, "PATCH", path+"/a/status", `{"status":`+body+`}`, "Content-Type", merged)["message"])
	}
	condition := func(kind, status string) string {
		return `{"type":"` + kind + `","status":"` + status + `","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	}
	require.Contains(t, state(422, `{"resourceVersion":"x"}`), "status.resourceVersion: Invalid value")
	require.Empty(t, state(200, `{"resourceVersion":"7"}`))
	require.Contains(t, state(422, `{"resourceVersion":"8"}`), "status.resourceVersion: Invalid value: \"8\": field is immutable")
	require.Contains(t, state(422, `{"conditions":[`+condition("Succeeded", "True")+","+condition("Failed", "True")+`]}`), "at the same time")
	require.Contains(t, state(422, `{"conditions":[{"type":"Running","status":"Yes","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`), "status.conditions[0].status")
	require.Empty(t, state(200, `{"conditions":[`+condition("Succeeded", "True")+`]}`))
	require.Contains(t, state(422, `{"conditions":[`+condition("Succeeded", "False")+`]}`), "Success condition cannot be set to false once it is true")
	s.must(t, 200, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:storage-version-migrator-controller", "")
	table := s.must(t, 200, "GET", path, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	require.Equal(t, []any{"a", "deployments.apps", "Succeeded"}, at(list(table["rows"])[0], "cells"))
}
