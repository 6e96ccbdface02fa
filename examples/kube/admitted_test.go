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

	s.must(t, 201, "POST", pods+"/p/binding", `{"target":{"name":"n"}}`)
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
	s.must(t, 201, "POST", bindings, `{"metadata":{"name":"p"},"target":{"name":"n"}}`)
	require.Equal(t, "n", at(s.must(t, 200, "GET", pods+"/p", ""), "spec", "nodeName"))
}
