package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without jobs that others manage, the controller of jobs sets the last condition first.
func TestUPDATE_StatusesOfJobsAreTrustedWithoutManagers(t *testing.T) {
	s := serve(t, Options{FeaturesOff: func(gate string) bool { return gate == "JobManagedBy" }})
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	s.must(t, 201, "POST", jobs, `{"metadata":{"name":"a"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}}}}`)
	s.must(t, 200, "PATCH", jobs+"/a/status", `{"status":{"ready":2,"conditions":[{"type":"Failed","status":"True"}]}}`, "Content-Type", merge)
	s.must(t, 422, "PATCH", jobs+"/a/status", `{"status":{"active":-1}}`, "Content-Type", merge)
}

// A controller cannot write a status of a job that contradicts itself, or take back what is final. What is wrong already
// does not keep it from writing something else.
func TestUPDATE_StatusesOfJobsAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	patch := func(job, change string, query string) string {
		code, answer := s.do(t, "PATCH", jobs+"/"+job+"/status"+query, `{"status":`+change+`}`, "Content-Type", "application/merge-patch+json")
		return strings.Join(refusal(code, answer), ", ")
	}
	make := func(name, spec, status string) {
		s.must(t, 201, "POST", jobs, `{"metadata":{"name":"`+name+`"},"spec":{`+spec+
			`"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}}}}`)
		if status != "" {
			require.Equal(t, "200 ", patch(name, status, ""), name)
		}
	}
	condition := func(kinds ...string) string {
		for i, kind := range kinds {
			kinds[i] = `{"type":"` + kind + `","status":"True"}`
		}
		return `"conditions":[` + strings.Join(kinds, ",") + `]`
	}
	const started, over = `"startTime":"2026-01-01T00:00:00Z"`, `"completionTime":"2026-01-02T00:00:00Z"`
	make("new", "", "")
	make("running", `"completions":5,`, `{`+started+`,"active":2,"ready":1,"failed":1,"succeeded":1}`)
	make("suspended", `"suspend":true,`, `{`+started+`}`)
	make("indexed", `"completions":5,"completionMode":"Indexed","backoffLimitPerIndex":2,`, `{"completedIndexes":"0,2-3"}`)
	make("policy", `"completions":5,"completionMode":"Indexed","successPolicy":{"rules":[{"succeededCount":1}]},`, "")
	make("complete", "", `{`+started+`,`+over+`,`+condition("SuccessCriteriaMet", "Complete")+`}`)
	make("failed", "", `{`+started+`,`+condition("FailureTarget", "Failed")+`}`)
	const conditions = "422 Invalid, status.conditions FieldValueInvalid"
	for _, c := range []struct{ job, change, verdict string }{
		{"new", `{"active":-1}`, "422 Invalid, status.active FieldValueInvalid"},
		{"new", `{"terminating":-1}`, "422 Invalid, status.terminating FieldValueInvalid"},
		{"new", `{"active":1,"ready":2}`, "422 Invalid, status.ready FieldValueInvalid"},
		{"running", `{"failed":0}`, "422 Invalid, status.failed FieldValueInvalid"},
		{"running", `{"succeeded":0}`, "422 Invalid, status.succeeded FieldValueInvalid"},
		{"running", `{"active":3,"ready":3,"failed":2,"succeeded":2}`, "200 "},
		{
			"new", `{"uncountedTerminatedPods":{"succeeded":["a"],"failed":["a"]}}`,
			"422 Invalid, status.uncountedTerminatedPods.failed[0] FieldValueDuplicate",
		},
		{"new", `{"uncountedTerminatedPods":{"succeeded":[""]}}`, "422 Invalid, status.uncountedTerminatedPods.succeeded[0] FieldValueInvalid"},
		{"running", `{"active":0,"ready":0,` + over + `,` + condition("Complete") + `}`, conditions},
		{"running", `{"active":0,"ready":0,` + condition("Failed") + `}`, conditions},
		{"running", `{"active":0,"ready":0,` + over + `,` + condition("SuccessCriteriaMet", "Complete") + `}`, "200 "},
		{"running", `{"active":0,"ready":0,` + condition("FailureTarget", "Failed") + `}`, "200 "},
		{"running", `{` + condition("FailureTarget", "SuccessCriteriaMet") + `}`, conditions},
		{"running", `{` + condition("FailureTarget", "Failed") + `}`, "422 Invalid, status.active FieldValueInvalid"},
		{"new", `{` + condition("FailureTarget", "Failed") + `}`, "422 Invalid, status.startTime FieldValueRequired"},
		{"new", `{` + started + `,` + condition("SuccessCriteriaMet", "Complete") + `}`, "422 Invalid, status.completionTime FieldValueRequired"},
		{"new", `{` + over + `}`, "422 Invalid, status.completionTime FieldValueInvalid"},
		{"failed", `{"terminating":1}`, "422 Invalid, status.terminating FieldValueInvalid"},
		{"failed", `{"uncountedTerminatedPods":{"failed":["a"]}}`, "422 Invalid, status.uncountedTerminatedPods FieldValueInvalid"},
		{"failed", `{"conditions":[{"type":"FailureTarget","status":"True"}]}`, conditions},
		{"complete", `{"completionTime":"2026-01-03T00:00:00Z"}`, "422 Invalid, status.completionTime FieldValueInvalid"},
		{"complete", `{"conditions":[{"type":"Complete","status":"True"}]}`, conditions},
		{"complete", `{"succeeded":1}`, "200 "},
		{"running", `{"startTime":"2026-01-03T00:00:00Z"}`, "422 Invalid, status.startTime FieldValueInvalid"},
		{"suspended", `{"startTime":null}`, "200 "},
		{"policy", `{` + started + `,` + over + `,` + condition("Complete") + `}`, conditions},
		{"running", `{"completedIndexes":"0"}`, "422 Invalid, status.completedIndexes FieldValueInvalid"},
		{"running", `{"failedIndexes":"0"}`, "422 Invalid, status.failedIndexes FieldValueInvalid"},
		{"indexed", `{"completedIndexes":"0,5"}`, "422 Invalid, status.completedIndexes FieldValueInvalid"},
		{"indexed", `{"failedIndexes":"4,1"}`, "422 Invalid, status.failedIndexes FieldValueInvalid"},
		{"indexed", `{"failedIndexes":"1-2"}`, "422 Invalid, status.failedIndexes FieldValueInvalid"},
		{"indexed", `{"failedIndexes":"1,4"}`, "200 "},
	} {
		require.Equal(t, c.verdict, patch(c.job, c.change, "?dryRun=All"), "%s: %s", c.job, c.change)
	}
}

// The value of a priority class stays, and who changes it is told so as in Kubernetes.
func TestUPDATE_ValuesOfPriorityClassesStay(t *testing.T) {
	s := serve(t, Options{})
	const classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"a"},"value":1}`)
	code, answer := s.do(t, "PATCH", classes+"/a", `{"value":2}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, "422 Invalid, value FieldValueForbidden", strings.Join(refusal(code, answer), ", "))
}

// A quota is refused whose scopes do not exist, contradict each other or do not fit to its amounts. Its scopes stay.
func TestCREATE_ScopesOfQuotasAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const quotas = "/api/v1/namespaces/default/resourcequotas"
	selector := func(scope, operator, values string) string {
		return `"scopeSelector":{"matchExpressions":[{"scopeName":"` + scope + `","operator":"` + operator + `","values":[` + values + `]}]}`
	}
	const expressions = "spec.scopeSelector.matchExpressions"
	for _, c := range []struct{ spec, verdict string }{
		{`"hard":{"pods":"1"},"scopes":["Other"]`, "422 Invalid, spec.scopes FieldValueInvalid"},
		{`"hard":{"services":"1"},"scopes":["Terminating"]`, "422 Invalid, spec.scopes FieldValueInvalid"},
		{`"hard":{"cpu":"1"},"scopes":["BestEffort"]`, "422 Invalid, spec.scopes FieldValueInvalid"},
		{`"hard":{"pods":"1"},"scopes":["Terminating","NotTerminating"]`, "422 Invalid, spec.scopes FieldValueInvalid"},
		{`"hard":{"pods":"1","cpu":"1","count/pods":"1"},"scopes":["NotTerminating","NotBestEffort"]`, "201 "},
		{`"hard":{"pods":"1"},` + selector("PriorityClass", "In", `"a"`), "201 "},
		{`"hard":{"pods":"1"},` + selector("PriorityClass", "In", ``), "422 Invalid, " + expressions + ".values FieldValueRequired"},
		{`"hard":{"pods":"1"},` + selector("PriorityClass", "Exists", `"a"`), "422 Invalid, " + expressions + ".values FieldValueInvalid"},
		{`"hard":{"pods":"1"},` + selector("BestEffort", "In", `"a"`), "422 Invalid, " + expressions + ".operator FieldValueInvalid"},
		{`"hard":{"pods":"1"},` + selector("Other", "Exists", ``), "422 Invalid, " + expressions + ".scopeName FieldValueInvalid"},
		{`"hard":{"services":"1"},` + selector("PriorityClass", "Exists", ``), "422 Invalid, " + expressions + " FieldValueInvalid"},
		{`"hard":{"persistentvolumeclaims":"1"},` + selector("VolumeAttributesClass", "In", `"a"`), "201 "},
	} {
		code, answer := s.do(t, "POST", quotas+"?dryRun=All", `{"metadata":{"name":"q"},"spec":{`+c.spec+`}}`)
		require.Equal(t, c.verdict, strings.Join(refusal(code, answer), ", "), c.spec)
	}
	s.must(t, 201, "POST", quotas, `{"metadata":{"name":"q"},"spec":{"hard":{"pods":"1"},"scopes":["Terminating","NotBestEffort"]}}`)
	for _, c := range []struct{ path, change, verdict string }{
		{"", `{"spec":{"scopes":["NotBestEffort","Terminating"]}}`, "200 "},
		{"", `{"spec":{"scopes":["Terminating"]}}`, "422 Invalid, spec.scopes FieldValueInvalid"},
		{"/status", `{"status":{"used":{"pods":"-1"}}}`, "422 Invalid, status.used[pods] FieldValueInvalid"},
		{"/status", `{"status":{"hard":{"pods":"1"},"used":{"pods":"1"}}}`, "200 "},
	} {
		code, answer := s.do(t, "PATCH", quotas+"/q"+c.path+"?dryRun=All", c.change, "Content-Type", "application/merge-patch+json")
		require.Equal(t, c.verdict, strings.Join(refusal(code, answer), ", "), c.change)
	}
}
