package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What TestWebhookReinvocationPolicy of Kubernetes asks for: policies and webhooks see the priority and
// the tolerations that plugins give a pod, so that a patch can add to the list of tolerations. A class
// that a policy sets counts as if the client had named it.
func TestADM_PoliciesSeeWhatPluginsGivePods(t *testing.T) {
	s := serve(t, Options{})
	const group, pods = "/apis/admissionregistration.k8s.io/v1/", "/api/v1/namespaces/default/pods"
	for name, value := range map[string]string{"low": "1", "high": "9"} {
		s.must(t, 201, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"`+name+`"},"value":`+value+`}`)
	}
	policy := func(name, condition, patch string) {
		s.must(t, 201, "POST", group+"mutatingadmissionpolicies", `{"metadata":{"name":"`+name+`"},"spec":{
			"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]},
			"matchConditions":[{"name":"c","expression":"`+condition+`"}],"failurePolicy":"Fail","reinvocationPolicy":"IfNeeded",
			"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[`+patch+`]"}}]}}`)
		s.must(t, 201, "POST", group+"mutatingadmissionpolicybindings", `{"metadata":{"name":"`+name+`"},"spec":{"policyName":"`+name+`"}}`)
	}
	policy("tolerate", "!object.spec.tolerations.exists(t, t.key == 'mine')",
		`JSONPatch{op: 'add', path: '/spec/tolerations/-', value: Object.spec.tolerations{key: 'mine', operator: 'Exists'}}`)
	policy("raise", "object.spec.priority == 1",
		`JSONPatch{op: 'replace', path: '/spec/priorityClassName', value: 'high'}, JSONPatch{op: 'remove', path: '/spec/priority'}`)
	policy("seen", "true", `JSONPatch{op: 'add', path: '/metadata/labels', value: {`+
		`'seen': has(object.spec.priority) ? string(object.spec.priority) : 'none'}}`)

	spec := func(class string) string {
		return `{"metadata":{"name":"p"},"spec":{"priorityClassName":"` + class + `","containers":[{"name":"c","image":"x"}]}}`
	}
	pod := s.must(t, 201, "POST", pods, spec("low"))
	require.Equal(t, "high", at(pod, "spec", "priorityClassName"))
	require.InDelta(t, 9, at(pod, "spec", "priority"), 0)
	require.Equal(t, "9", at(pod, "metadata", "labels", "seen"), "the last policy sees what the plugin made of the class of the one before")
	require.Len(t, at(pod, "spec", "tolerations"), 3)
	require.Equal(t, "PreemptLowerPriority", at(pod, "spec", "preemptionPolicy"))
	s.must(t, 200, "PUT", pods+"/p", `{"metadata":{"name":"p"},"spec":{"priorityClassName":"high","tolerations":[{"key":"mine","operator":"Exists"}],`+
		`"containers":[{"name":"c","image":"x"}]}}`)
	pod = s.must(t, 200, "GET", pods+"/p", "")
	require.InDelta(t, 9, at(pod, "spec", "priority"), 0, "a pod keeps its priority")
	require.Len(t, at(pod, "spec", "tolerations"), 3)
	require.Contains(t, s.must(t, 403, "POST", pods, spec("none"))["message"], `pods "p" is forbidden: no PriorityClass with name none was found`)
}

// A pod that says another priority or policy than its class is told both, in the words of kube-apiserver 1.36.3.
func TestPriorityOfAPodThatSaysAnotherThanItsClass(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"low"},"value":7,"preemptionPolicy":"Never"}`)
	for spec, want := range map[string]string{
		`"priority":5`: "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
		`"priority":8,"priorityClassName":"low"`: "the integer value of priority (8) must not be provided in pod spec; " +
			"priority admission controller computed 7 from the given PriorityClass name",
		`"preemptionPolicy":"PreemptLowerPriority","priorityClassName":"low"`: "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; " +
			"priority admission controller computed Never from the given PriorityClass name",
	} {
		refused := s.must(t, 403, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{`+spec+`,"containers":[{"name":"c","image":"x"}]}}`)
		require.Equal(t, `pods "p" is forbidden: `+want, refused["message"])
	}
}

// One class is that of pods without a class, as kube-apiserver's plugin Priority says.
func TestOnePriorityClassIsTheDefault(t *testing.T) {
	s := serve(t, Options{})
	const classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"low"},"value":1,"globalDefault":true}`)
	refused := s.must(t, 403, "POST", classes, `{"metadata":{"name":"high"},"value":9,"globalDefault":true}`)
	require.Equal(t, `priorityclasses.scheduling.k8s.io "high" is forbidden: PriorityClass low is already marked as default. Only one default can exist`, refused["message"])
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"high"},"value":9}`)
	s.must(t, 403, "PATCH", classes+"/high", `{"globalDefault":true}`, "Content-Type", merge)
	s.must(t, 200, "PATCH", classes+"/low", `{"description":"of most pods"}`, "Content-Type", merge)
	s.must(t, 200, "PATCH", classes+"/low", `{"globalDefault":false}`, "Content-Type", merge)
	s.must(t, 200, "PATCH", classes+"/high", `{"globalDefault":true}`, "Content-Type", merge)

	without := serve(t, Options{Without: []string{"Priority"}})
	without.must(t, 201, "POST", classes, `{"metadata":{"name":"low"},"value":1,"globalDefault":true}`)
	without.must(t, 201, "POST", classes, `{"metadata":{"name":"high"},"value":9,"globalDefault":true}`)
}
