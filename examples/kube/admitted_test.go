package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// deniesPods is a policy that denies changes and deletions of pods and of their status.
const deniesPods = `{"metadata":{"name":"pods"},"spec":{"matchConstraints":{"resourceRules":[
	{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE","DELETE"],"resources":["pods","pods/status"]}]},
	"validations":[{"expression":"false","message":"pods stay as they are"}]}}`

// As in kube-apiserver, plugins judge a binding and an eviction, and not the writes that these consist of.
func TestPOL_01_BindingsAndEvictionsAreJudgedAsSuch(t *testing.T) {
	s := serve(t, Options{})
	const pods, policies = "/api/v1/namespaces/default/pods", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	s.must(t, 201, "POST", policies+"ies", deniesPods)
	s.must(t, 201, "POST", policies+"ybindings", `{"metadata":{"name":"pods"},"spec":{"policyName":"pods","validationActions":["Deny"]}}`)
	s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 422, "DELETE", pods+"/p", "")

	s.must(t, 201, "POST", pods+"/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n"}}`)
	require.Equal(t, "n", at(s.must(t, 200, "GET", pods+"/p", ""), "spec", "nodeName"))
	s.must(t, 201, "POST", pods+"/p/eviction", `{"metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":0}}`)
	s.must(t, 404, "GET", pods+"/p", "")
}

// A dry run of a binding by its own collection binds nothing.
func TestDRY_01_BindingsByTheirCollection(t *testing.T) {
	s := serve(t, Options{})
	const pods, bindings = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/bindings"
	s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 201, "POST", bindings+"?dryRun=All", `{"metadata":{"name":"p"},"target":{"name":"n"}}`)
	require.Nil(t, at(s.must(t, 200, "GET", pods+"/p", ""), "spec", "nodeName"))
	done := s.must(t, 201, "POST", bindings, `{"metadata":{"name":"p"},"target":{"name":"n"}}`)
	require.Equal(t, []any{"Status", "Success"}, []any{done["kind"], done["status"]}, "as in kube-apiserver, and as by the subresource")
	require.Equal(t, "n", at(s.must(t, 200, "GET", pods+"/p", ""), "spec", "nodeName"))
}

// Who binds a pod has not changed what somebody asked for: as in kube-apiserver, the pod keeps its generation and the
// owners of its fields.
func TestMETA_12_BindingsAreNoNewGeneration(t *testing.T) {
	s := serve(t, Options{})
	const pods = "/api/v1/namespaces/default/pods"
	made := s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 201, "POST", pods+"/p/binding", `{"metadata":{"name":"p","annotations":{"a":"b"}},"target":{"name":"n"}}`)
	bound := s.must(t, 200, "GET", pods+"/p", "")
	require.Equal(t, "n", at(bound, "spec", "nodeName"))
	require.Equal(t, "b", at(bound, "metadata", "annotations", "a"))
	for _, field := range []string{"generation", "managedFields"} {
		require.NotNil(t, at(made, "metadata", field))
		require.Equal(t, at(made, "metadata", field), at(bound, "metadata", field))
	}
}

// ADM-12: the options of a connection are those of kube-apiserver: ports are numbers, and a path is that of the URL.
func TestADM_12_OptionsOfConnections(t *testing.T) {
	s := serve(t, Options{})
	const pods, policies = "/api/v1/namespaces/default/pods", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 201, "POST", pods+"/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n"}}`)
	s.must(t, 201, "POST", policies+"ies", `{"metadata":{"name":"tells"},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CONNECT"],"resources":["pods/*"]}]},
		"validations":[{"expression":"false","messageExpression":"has(object.ports) ? object.ports.map(p, string(p + 1)).join(' ') : string(object.path)"}]}}`)
	s.must(t, 201, "POST", policies+"ybindings", `{"metadata":{"name":"tells"},"spec":{"policyName":"tells","validationActions":["Deny"]}}`)
	for path, want := range map[string]string{
		"portforward?ports=80&ports=1": "denied request: 81 2", "portforward?ports=80,2": "denied request: 81 3", "proxy/a/b?path=/c": "denied request: /a/b",
	} {
		require.Contains(t, s.must(t, 422, "POST", pods+"/p/"+path, "")["message"], want)
	}
	s.must(t, 400, "POST", pods+"/p/portforward?ports=http", "")
}

// changesPods is a mutating policy about pods or one of their subresources.
func changesPods(t *testing.T, s *target, name, resource, operation, mutation string) {
	const policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
	s.must(t, 201, "POST", policies+"ies", `{"metadata":{"name":"`+name+`"},"spec":{"reinvocationPolicy":"Never","failurePolicy":"Ignore","matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["`+operation+`"],"resources":["`+resource+`"]}]},"mutations":[`+mutation+`]}}`)
	s.must(t, 201, "POST", policies+"ybindings", `{"metadata":{"name":"`+name+`"},"spec":{"policyName":"`+name+`"}}`)
}

// A policy may change the options of a connection by a patch. They have no schema that a configuration could be merged by.
func TestPOL_05_ConnectionsAreMutated(t *testing.T) {
	s := serve(t, Options{})
	const pods = "/api/v1/namespaces/default/pods"
	s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 201, "POST", pods+"/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n"}}`)
	changesPods(t, s, "merge", "pods/exec", "CONNECT", `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{container: \"none\"}"}}`)
	changesPods(t, s, "patch", "pods/exec", "CONNECT", `{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: \"add\", path: \"/container\", value: \"other\"}]"}}`)
	refused := s.must(t, 400, "POST", pods+"/p/exec?command=ls&container=c", "")
	require.Contains(t, refused["message"], "container other is not valid for pod p")
}

// A number that its field cannot have is an error of the policy, which may be ignored.
func TestPOL_05_NumbersThatDoNotFit(t *testing.T) {
	s := serve(t, Options{})
	changesPods(t, s, "p", "pods", "CREATE", `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{terminationGracePeriodSeconds: 1.5}}"}}`)
	const pods = "/api/v1/namespaces/default/pods"
	made := s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	require.EqualValues(t, 30, at(made, "spec", "terminationGracePeriodSeconds"))
}

// Options of connections have no labels, so no selector is about them, not even one for objects without labels.
func TestPOL_01_SelectorsAreNotAboutConnections(t *testing.T) {
	s := serve(t, Options{})
	const pods, policies = "/api/v1/namespaces/default/pods", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	s.must(t, 201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 201, "POST", policies+"ies", `{"metadata":{"name":"x"},"spec":{"matchConstraints":{
		"objectSelector":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]},"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CONNECT","CREATE"],"resources":["pods/*"]}]},
		"validations":[{"expression":"request.options != null","message":"without options"}]}}`)
	s.must(t, 201, "POST", policies+"ybindings", `{"metadata":{"name":"x"},"spec":{"policyName":"x","validationActions":["Deny"]}}`)
	s.must(t, 400, "POST", pods+"/p/exec?command=ls", "") // no node
	s.must(t, 201, "POST", pods+"/p/eviction", `{"metadata":{"name":"p"}}`)

	s.must(t, 201, "POST", pods, `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(t, 200, "PATCH", policies+"ies/x", `[{"op":"remove","path":"/spec/matchConstraints/objectSelector"}]`, "Content-Type", "application/json-patch+json")
	refused := s.must(t, 422, "POST", pods+"/q/exec?command=ls", "")
	require.Contains(t, refused["message"], "without options")
}

// The values of policies and configurations are checked once.
func TestPOL_01_WHK_01_BadValuesAreReportedOnce(t *testing.T) {
	s := serve(t, Options{})
	const group = "/apis/admissionregistration.k8s.io/v1/"
	rule := `"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]`
	hook := func(more, rules string) string {
		return `{"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","clientConfig":{"url":"https://a.example.com"},"admissionReviewVersions":["v1"],"rules":[{` + rule + rules + `}]` + more + `}]}`
	}
	policy := func(more, rules string) string {
		return `{"metadata":{"name":"a"},"spec":{"validations":[{"expression":"true"}],"matchConstraints":{"resourceRules":[{` + rule + rules + `}]}` + more + `}}`
	}
	for body, of := range map[string][2]string{
		hook(`,"sideEffects":"Some"`, `,"operations":["CREATE"]`):                                 {"validatingwebhookconfigurations", "webhooks[0].sideEffects"},
		hook(`,"sideEffects":"None","failurePolicy":"x"`, `,"operations":["CREATE"]`):             {"validatingwebhookconfigurations", "webhooks[0].failurePolicy"},
		hook(`,"sideEffects":"None","matchPolicy":"x"`, `,"operations":["CREATE"]`):               {"validatingwebhookconfigurations", "webhooks[0].matchPolicy"},
		hook(`,"sideEffects":"None","reinvocationPolicy":"x"`, `,"operations":["CREATE"]`):        {"mutatingwebhookconfigurations", "webhooks[0].reinvocationPolicy"},
		hook(`,"sideEffects":"None"`, `,"operations":["x"]`):                                      {"mutatingwebhookconfigurations", "webhooks[0].rules[0].operations[0]"},
		hook(`,"sideEffects":"None"`, `,"operations":["CREATE"],"scope":"x"`):                     {"mutatingwebhookconfigurations", "webhooks[0].rules[0].scope"},
		policy(`,"failurePolicy":"x"`, `,"operations":["CREATE"]`):                                {"validatingadmissionpolicies", "spec.failurePolicy"},
		policy(``, `,"operations":["x"]`):                                                         {"validatingadmissionpolicies", "spec.matchConstraints.resourceRules[0].operations[0]"},
		`{"metadata":{"name":"a"},"spec":{"policyName":"a","validationActions":["deny","Warn"]}}`: {"validatingadmissionpolicybindings", "spec.validationActions[0]"},
	} {
		refused := s.must(t, 422, "POST", group+of[0], body)
		causes, _ := at(refused, "details", "causes").([]any)
		require.Len(t, causes, 1, "%v", causes)
		require.Equal(t, of[1], at(causes[0], "field"))
	}
}

// A pod is never given less than a second to end, whoever asks for it.
func TestPOL_05_NegativeGracePeriodsOfPods(t *testing.T) {
	s := serve(t, Options{})
	changesPods(t, s, "p", "pods", "CREATE", `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{terminationGracePeriodSeconds: -5}}"}}`)
	made := s.must(t, 201, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	require.EqualValues(t, 1, at(made, "spec", "terminationGracePeriodSeconds"))
}
