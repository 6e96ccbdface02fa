package kube

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pods of a job change while it is suspended, in where they may run and what they request, and not
// at other times. So do the completions of a job with indexes, together with its parallelism.
func TestUPDATE_JobsChangeAsInKubernetes(t *testing.T) {
	s := serve(t, Options{})
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	make := func(name, spec string) {
		s.must(t, 201, "POST", jobs, `{"metadata":{"name":"`+name+`"},"spec":{`+spec+
			`"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}}}}`)
	}
	make("running", `"completions":5,`)
	make("suspended", `"suspend":true,"completions":5,`)
	make("indexed", `"completions":5,"parallelism":2,"completionMode":"Indexed","backoffLimitPerIndex":2,`)
	const (
		resources = `{"template":{"spec":{"containers":[{"name":"a","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}`
		image     = `{"template":{"spec":{"containers":[{"name":"a","image":"other"}]}}}`
		place     = `{"template":{"spec":{"nodeSelector":{"a":"b"},"tolerations":[{"operator":"Exists"}]}}}`
		neighbour = `{"template":{"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"z"}]}}}}}`
	)
	for _, c := range []struct{ job, patch, verdict string }{
		{"running", resources, "422 Invalid, spec.template FieldValueInvalid"},
		{"running", place, "422 Invalid, spec.template FieldValueInvalid"},
		{"running", `{"completions":7}`, "422 Invalid, spec.completions FieldValueInvalid"},
		{"running", `{"managedBy":"a.b/c"}`, "422 Invalid, spec.managedBy FieldValueInvalid"},
		{"running", `{"parallelism":3}`, "200 "},
		{"suspended", resources, "200 "},
		{"suspended", place, "200 "},
		{"suspended", `{"template":{"metadata":{"labels":{"q":"r"}}}}`, "200 "},
		{"suspended", image, "422 Invalid, spec.template.spec FieldValueInvalid"},
		{"suspended", neighbour, "422 Invalid, spec.template.spec FieldValueInvalid"},
		{"indexed", `{"completions":7}`, "422 Invalid, spec.completions FieldValueInvalid"},
		{"indexed", `{"completions":7,"parallelism":7}`, "200 "},
		{"indexed", `{"backoffLimitPerIndex":3}`, "422 Invalid, spec.backoffLimitPerIndex FieldValueInvalid"},
	} {
		code, answer := s.do(t, "PATCH", jobs+"/"+c.job+"?dryRun=All", `{"spec":`+c.patch+`}`, "Content-Type", "application/merge-patch+json")
		require.Equal(t, c.verdict, strings.Join(refusal(code, answer), ", "), "%s: %s", c.job, c.patch)
	}
}

// A job whose name is made by the server has the labels of its template that were there before, and others
// the labels that the server adds, as in kube-apiserver.
func TestCREATE_LabelsOfJobs(t *testing.T) {
	s := serve(t, Options{})
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	const spec = `"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}}}`
	made := s.must(t, 201, "POST", jobs, `{"metadata":{"generateName":"j-"},`+spec+`}`)
	require.Equal(t, map[string]any{"a": "b"}, at(made, "metadata", "labels"))
	named := s.must(t, 201, "POST", jobs, `{"metadata":{"name":"j"},`+spec+`}`)
	require.Equal(t, "j", at(named, "metadata", "labels", "job-name"))
}

// Fields of features that are off are dropped from new objects, and kept by stored ones that have them.
func TestUPDATE_FieldsOfFeaturesThatAreOff(t *testing.T) {
	on := true
	s := serve(t, Options{Features: func(gate string) bool { return on && gate == gateStopSignals }})
	const pods = "/api/v1/namespaces/default/pods"
	const spec = `"spec":{"os":{"name":"linux"},"schedulingGroup":{"podGroupName":"g"},"containers":[{"name":"a","image":"i","lifecycle":{"stopSignal":"SIGUSR1"}}]}}`
	signal := func(object map[string]any) any {
		return at(list(at(object, "spec", "containers"))[0], "lifecycle", "stopSignal")
	}
	made := s.must(t, 201, "POST", pods, `{"metadata":{"name":"before"},`+spec)
	require.Equal(t, "SIGUSR1", signal(made))
	require.Nil(t, at(made, "spec", "schedulingGroup"))
	on = false
	require.Nil(t, signal(s.must(t, 201, "POST", pods, `{"metadata":{"name":"after"},`+spec)))
	kept := s.must(t, 200, "PATCH", pods+"/before", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, "SIGUSR1", signal(kept), "nothing is lost when a feature is switched off")
}

// Without the features what a suspended job requests stays, and where its pods run from its first start on.
func TestUPDATE_SuspendedJobsWithoutTheFeatures(t *testing.T) {
	const path = "/apis/batch/v1/namespaces/default/jobs"
	job := func(name string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}`
	}
	const resources = `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"1"}}}]}}}}`
	const place = `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`
	const stopped = `{"status":{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Suspended","status":"True"}]}}`
	const immutable = "spec.template FieldValueInvalid"
	for _, c := range []struct {
		off                       []string
		resources, place, stopped string // what is refused
	}{
		{nil, "", "", ""},
		{[]string{gateSuspendedResources}, immutable, "", ""},
		{[]string{gateSuspendedPlaces}, "", "", "spec.template.spec FieldValueInvalid"},
		{[]string{gateSuspendedResources, gateSuspendedPlaces}, immutable, "", immutable},
	} {
		s := serve(t, Options{FeaturesOff: func(gate string) bool { return slices.Contains(c.off, gate) }})
		s.must(t, 201, "POST", path, job("new"))
		patch := func(name, body, want string) {
			code, got := s.do(t, "PATCH", path+"/"+name, body, "Content-Type", merged)
			if want == "" {
				require.Equal(t, 200, code, "%v: %v", c.off, got)
				return
			}
			require.Equal(t, []string{"422 Invalid", want}, refusal(code, got), "%v: %s", c.off, body)
		}
		patch("new", resources, c.resources)
		patch("new", place, c.place)
		s.must(t, 201, "POST", path, job("old"))
		s.must(t, 200, "PATCH", path+"/old/status", stopped, "Content-Type", merged)
		patch("old", place, c.stopped)
	}
}

// The signal that ends a container is one of the system that the pod names; OpenAPI tells those of Linux.
func TestCREATE_StopSignals(t *testing.T) {
	s := serve(t, Options{Features: func(gate string) bool { return gate == gateStopSignals }})
	pod := func(spec, signal string) (int, map[string]any) {
		return s.do(t, "POST", podsPath+"?dryRun=All", `{"metadata":{"name":"p"},"spec":{`+spec+`"containers":[{"name":"c","image":"x","lifecycle":{"stopSignal":"`+signal+`"}}]}}`)
	}
	const field = "spec.containers[0].lifecycle.stopSignal"
	for _, c := range []struct{ spec, signal, want string }{
		{"", "SIGTERM", field + " FieldValueForbidden"},
		{`"os":{"name":"linux"},`, "SIGTERM", ""},
		{`"os":{"name":"linux"},`, "SIGRTMIN+15", ""},
		{`"os":{"name":"linux"},`, "SIGRTMAX-14", ""},
		{`"os":{"name":"linux"},`, "SIGRTMAX-15", field + " FieldValueNotSupported"},
		{`"os":{"name":"windows"},`, "SIGKILL", ""},
		{`"os":{"name":"windows"},`, "SIGHUP", field + " FieldValueNotSupported"},
	} {
		code, got := pod(c.spec, c.signal)
		if c.want == "" {
			require.Equal(t, 201, code, "%s: %v", c.signal, got)
			continue
		}
		require.Equal(t, []string{"422 Invalid", c.want}, refusal(code, got), c.signal)
	}
	require.Len(t, linuxSignals(), 65)
}
