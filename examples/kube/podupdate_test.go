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

// What a pod was created from may be sent again: plugins add to it as they did then. Codes and fields
// are those of kube-apiserver 1.36.3.
func TestUPDATE_12_APodIsReplacedByWhatItWasCreatedFrom(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("p", ""))
	p := s.must(t, 200, "PUT", podsPath+"/p", podNamed("p", ""))
	require.EqualValues(t, 0, at(p, "spec", "priority"))
	require.Equal(t, "PreemptLowerPriority", at(p, "spec", "preemptionPolicy"))
	require.Len(t, list(at(p, "spec", "tolerations")), 2)
	code, got := s.do(t, "PUT", podsPath+"/p", podNamed("p", `"priority":7,`))
	require.Equal(t, []string{"422 Invalid", "spec FieldValueForbidden"}, refusal(code, got))
}

// Tolerations are added, deadlines come closer, gates go, and a gated pod may be restricted further.
func TestUPDATE_13_WhatAReplacedPodMayChange(t *testing.T) {
	s := serve(t, Options{})
	affinity := func(terms string) string {
		return `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}`
	}
	in := func(zones string) string { return `{"key":"zone","operator":"In","values":[` + zones + `]}` }
	term := func(all string) string { return `{"matchExpressions":[` + all + `]}` }
	const terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	for _, c := range []struct {
		name, before, now string
		want              []string
	}{
		{"a later deadline", `"activeDeadlineSeconds":5`, `"activeDeadlineSeconds":6`, []string{"422 Invalid", "spec.activeDeadlineSeconds FieldValueInvalid"}},
		{"a deadline that goes", `"activeDeadlineSeconds":5`, `"activeDeadlineSeconds":null`, []string{"422 Invalid", "spec.activeDeadlineSeconds FieldValueInvalid"}},
		{"the same deadline", `"activeDeadlineSeconds":5`, `"activeDeadlineSeconds":5`, nil},
		{"a closer deadline", `"activeDeadlineSeconds":5`, `"activeDeadlineSeconds":4`, nil},
		{"a toleration before another", `"tolerations":[{"key":"a","operator":"Exists"}]`, `"tolerations":[{"key":"b","operator":"Exists"},{"key":"a","operator":"Exists"}]`, nil},
		{"other seconds", `"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute"}]`, `"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]`, nil},
		{"a toleration that goes", `"tolerations":[{"key":"a","operator":"Exists"}]`, `"tolerations":[]`, []string{"422 Invalid", "spec.tolerations FieldValueForbidden"}},
		{"a new gate", `"schedulingGates":[{"name":"a"}]`, `"schedulingGates":[{"name":"b"}]`, []string{"422 Invalid", "spec.schedulingGates[0].name FieldValueForbidden"}},
		{"a first gate", `"restartPolicy":"Always"`, `"schedulingGates":[{"name":"b"}]`, []string{"422 Invalid", "spec.schedulingGates[0].name FieldValueForbidden"}},
		{"no gates", `"schedulingGates":[{"name":"a"}]`, `"schedulingGates":[]`, nil},
		{"a label more", `"schedulingGates":[{"name":"a"}],"nodeSelector":{"x":"y"}`, `"nodeSelector":{"x":"y","z":"z"}`, nil},
		{"another label", `"schedulingGates":[{"name":"a"}],"nodeSelector":{"x":"y"}`, `"nodeSelector":{"x":"z"}`, []string{"422 Invalid", "spec.nodeSelector FieldValueInvalid"}},
		{"a label without gates", `"nodeSelector":{"x":"y"}`, `"nodeSelector":{"x":"y","z":"z"}`, []string{"422 Invalid", "spec FieldValueForbidden"}},
		{"first terms", `"schedulingGates":[{"name":"a"}]`, affinity(term(in(`"a"`))), nil},
		{"a requirement more", `"schedulingGates":[{"name":"a"}],` + affinity(term(in(`"a"`))), affinity(term(in(`"a"`) + "," + in(`"b"`))), nil},
		{"another requirement", `"schedulingGates":[{"name":"a"}],` + affinity(term(in(`"a"`))), affinity(term(in(`"b"`))), []string{"422 Invalid", terms + "[0] FieldValueInvalid"}},
		{"another term", `"schedulingGates":[{"name":"a"}],` + affinity(term(in(`"a"`))), affinity(term(in(`"a"`)) + "," + term(in(`"b"`))), []string{"422 Invalid", terms + " FieldValueInvalid"}},
		{"no affinity", `"schedulingGates":[{"name":"a"}],` + affinity(term(in(`"a"`))), `"affinity":null`, []string{"422 Invalid", terms + " FieldValueInvalid"}},
	} {
		s.must(t, 201, "POST", podsPath, podNamed("p", c.before+","))
		code, got := s.do(t, "PATCH", podsPath+"/p", `{"spec":{`+c.now+`}}`, "Content-Type", merge)
		if c.want == nil {
			require.Equal(t, 200, code, "%s: %v", c.name, got)
		} else {
			require.Equal(t, c.want, refusal(code, got), "%s: %v", c.name, got)
		}
		s.must(t, 200, "DELETE", podsPath+"/p", `{"gracePeriodSeconds":0}`)
	}
}

// Nothing else is said of a pod that cannot have a subresource, however wrong the rest is.
func TestSubresourcesThatAPodCannotHave(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"static","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"n",
		"containers":[{"name":"c","image":"x"}]}}`)
	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"windows"},"spec":{"os":{"name":"windows"},"containers":[{"name":"c","image":"x"}]}}`)
	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"sidecar"},"spec":{"initContainers":[{"name":"i","image":"x","restartPolicy":"Always"}],
		"containers":[{"name":"c","image":"x"}]}}`)
	for _, c := range []struct{ path, body, want string }{
		{"static/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"C"}]}}`, "FieldValueForbidden []"},
		{"static/resize", `{"spec":{"containers":[]}}`, "FieldValueForbidden []"},
		{"windows/resize", `{"spec":{"containers":[]}}`, "FieldValueForbidden []"},
		{"windows/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"d","image":"x"}]}}`, ""},
		{
			"sidecar/resize", `{"spec":{"initContainers":[{"name":"i","image":"x","restartPolicy":"Always","resources":{"limits":{"ephemeral-storage":"1"}}}]}}`,
			"FieldValueForbidden spec.initContainers[0]",
		},
		{"sidecar/resize", `{"spec":{"resources":{}}}`, "FieldValueForbidden spec"},
	} {
		_, answer := s.do(t, "PATCH", podsPath+"/"+c.path+"?dryRun=All", c.body, "Content-Type", merge)
		require.Equal(t, c.want, causesIn(answer), c.path)
	}
}
