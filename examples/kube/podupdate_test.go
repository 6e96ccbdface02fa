package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The path decides what may change in a pod: sizes through resize, debugging containers through
// ephemeralcontainers, and neither on the main path. Codes and fields are those of kube-apiserver
// 1.36.3.
func TestUPDATE_11_WhatChangesInAPodDependsOnThePath(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"p"},"spec":{"initContainers":[{"name":"s","image":"x","resources":{"requests":{"cpu":"1"}}}],
		"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}}`)
	s.must(t, 201, "POST", podsPath, podNamed("best", ""))
	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"sure"},"spec":{"containers":[{"name":"c","image":"x","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}`)
	container := func(fields string) string { return `{"spec":{"containers":[{"name":"c",` + fields + `}]}}` }
	debugger := func(fields string) string { return `{"spec":{"ephemeralContainers":[{"name":` + fields + `}]}}` }
	forbidden := func(field string) []string { return []string{"422 Invalid", field + " FieldValueForbidden"} }
	other := []string{"422 Invalid", "spec FieldValueInvalid"}
	limits := "spec.containers[0].resources.limits"
	for _, c := range []struct {
		path, patch string
		want        []string
	}{
		{"p", container(`"resources":{"requests":{"cpu":"1500m"}}`), forbidden("spec")},
		{"p", container(`"resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]`), forbidden("spec")},
		{"p", `{"spec":{"resources":{"requests":{"cpu":"3"},"limits":{"cpu":"4"}}}}`, forbidden("spec")},
		{"p", debugger(`"e","image":"y"`), forbidden("spec")},
		{"p", container(`"image":"y"`), nil},

		{"p/resize", container(`"resources":{"requests":{"cpu":"1500m"}}`), nil},
		{"p/resize", container(`"resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]`), forbidden("spec")},
		{"p/resize", container(`"resources":{"requests":{"ephemeral-storage":"1Gi"}}`), forbidden("spec")},
		{"p/resize", container(`"resources":{"requests":{"cpu":"3"}}`), []string{"422 Invalid", "spec.containers[0].resources.requests FieldValueInvalid"}},
		{"p/resize", container(`"resources":{"requests":{"cpu":"2","memory":"1Gi"},"limits":{"memory":"1Gi"}}`), nil},
		{"p/resize", container(`"resources":{"limits":{"cpu":null}}`), forbidden(limits)},
		{"p/resize", `{"spec":{"initContainers":[{"name":"s","resources":{"requests":{"cpu":"2"}}}]}}`, nil},
		{"p/resize", `{"spec":{"initContainers":[{"name":"s","resources":{"requests":{"cpu":null}}}]}}`, forbidden("spec.initContainers[0].resources.requests")},
		{"best/resize", container(`"resources":{"requests":{"cpu":"3"}}`), other},
		{"best/resize", `{"spec":{"resources":{"requests":{"cpu":"3"}}}}`, other},
		{"sure/resize", container(`"resources":{"requests":{"cpu":"500m"}}`), other},
		{"sure/resize", container(`"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"2"}}`), nil},

		{"p/ephemeralcontainers", debugger(`"e","image":"y"`), nil},
		{"p/ephemeralcontainers", debugger(`"e","image":"z"`), forbidden("spec.ephemeralContainers")},
		{"p/ephemeralcontainers", debugger(`"c","image":"z"`), []string{"422 Invalid", "spec.ephemeralContainers[0].name FieldValueDuplicate"}},
		{"p/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"$patch":"replace"}]}}`, forbidden("spec.ephemeralContainers")},
		{"p/ephemeralcontainers", debugger(`"f","image":"z","ports":[{"containerPort":1}]`), forbidden("spec.ephemeralContainers[0].ports")},
		{"best/ephemeralcontainers", debugger(`"f","image":""`), []string{"422 Invalid", "spec.ephemeralContainers[0].image FieldValueRequired"}},
		{"best/ephemeralcontainers", debugger(`"f","image":"x","targetContainerName":"zz"`), []string{"422 Invalid", "spec.ephemeralContainers[0].targetContainerName FieldValueNotFound"}},
		{"best", `{"spec":{"initContainers":[{"name":"f","image":"x"}]}}`, forbidden("spec.initContainers")},
	} {
		code, got := s.do(t, "PATCH", podsPath+"/"+c.path, c.patch, "Content-Type", "application/strategic-merge-patch+json")
		if c.want == nil {
			require.Equal(t, 200, code, "%s %s: %v", c.path, c.patch, got)
			continue
		}
		require.Equal(t, c.want, refusal(code, got), "%s %s: %v", c.path, c.patch, got)
	}
	p := s.must(t, 200, "GET", podsPath+"/p", "")
	require.Equal(t, "2", at(list(at(p, "spec", "containers"))[0], "resources", "requests", "cpu"))
	require.Equal(t, "2", at(list(at(p, "spec", "initContainers"))[0], "resources", "requests", "cpu"))
	require.Len(t, list(at(p, "spec", "ephemeralContainers")), 1)
}
