package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// deny puts a policy about config maps in force.
func (h *host) deny(name, expression, more string) {
	h.t.Helper()
	h.must(201, "POST", policiesPath, aboutConfigMaps(name, expression, more))
	h.must(201, "POST", policyBindingsPath, inForce(name, `["Deny"]`, ""))
}

// TestPOL_02_C3_ExpressionsThatAttackTheParser are refused when the policy is written, with an answer that is
// shorter than they are.
func TestPOL_02_C3_ExpressionsThatAttackTheParser(t *testing.T) {
	h := servePolicies(t, memory.New())
	for name, text := range map[string]string{
		"one long text": "'" + strings.Repeat("x", 1<<20) + "' == ''",
		"brackets":      strings.Repeat("(", 10_000) + "true" + strings.Repeat(")", 10_000),
		"calls":         strings.Repeat("size([", 10_000) + "1" + strings.Repeat("])", 10_000) + " == 1",
		"negations":     strings.Repeat("!", 100_001) + "true",
		"fields":        "object" + strings.Repeat(".a", 100_000) + " == 1",
		"lists":         strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + " == []",
		"conditionals":  strings.Repeat("true ? true : ", 100_000) + "true",
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			out := h.must(422, "POST", policiesPath, aboutConfigMaps("p", text, ""))
			require.Less(t, len(fmt.Sprint(out)), 3*len(text)+100_000)
			h.must(404, "GET", policiesPath+"/p", "")
		})
	}
	h.t = t
}

// TestPOL_07_C1_C2_C4_ExpressionsThatGrow are stopped, and refuse the write: no error counts as true.
func TestPOL_07_C1_C2_C4_ExpressionsThatGrow(t *testing.T) {
	h := servePolicies(t, memory.New())
	grown := "'xxxxxxxxxx'"
	for range 9 {
		grown += ".replace('x', 'xxxxxxxxxx')"
	}
	doubled := `"variables":[{"name":"v0","expression":"'xxxxxxxxxx'"}`
	for i := range 40 {
		doubled += fmt.Sprintf(`,{"name":"v%d","expression":"variables.v%d + variables.v%d"}`, i+1, i, i)
	}
	listed := `"variables":[{"name":"v0","expression":"[1]"}`
	for i := range 40 {
		listed += fmt.Sprintf(`,{"name":"v%d","expression":"variables.v%d + variables.v%d"}`, i+1, i, i)
	}
	macro := "[1,2,3,4,5,6,7,8,9,10].map(a, %s)"
	nested := "1"
	for range 12 {
		nested = fmt.Sprintf(macro, nested)
	}
	for name, c := range map[string]struct{ expression, more string }{
		"replace":    {"size(" + grown + ") > 0", ""},
		"split":      {"size(" + grown + ".split('')) > 0", ""},
		"doubling":   {"size(variables.v40) > 0", "," + doubled + "]"},
		"lists":      {"variables.v40.sum() == 0 || variables.v40 == variables.v40", "," + listed + "]"},
		"macros":     {"size(" + nested + ") > 0", ""},
		"patterns":   {"object.data.a.matches('(' + object.data.a + ')*$')", ""},
		"quantities": {"quantity(object.data.digits).isGreaterThan(quantity('0'))", ""},
		"exponents":  {"quantity('1e1000000000').isGreaterThan(quantity('0'))", ""},
		"divided":    {"1 / 0 == 1", ""},
		"missing":    {"object.data.nothing == ''", ""},
		"annotation": {"true", `,"auditAnnotations":[{"key":"k","valueExpression":"string(object.data.nothing)"}]`},
		"condition":  {"true", `,"matchConditions":[{"name":"c","expression":"object.data.nothing == ''"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.deny("p", c.expression, c.more)
			body := configMap("x", fmt.Sprintf(`"a":%q,"digits":%q`, strings.Repeat("a", 2_000), strings.Repeat("9", 5_000)))
			out := h.must(422, "POST", configMapsPath, body)
			require.Less(t, len(fmt.Sprint(out)), 200_000)
			h.must(404, "GET", configMapsPath+"/x", "")
			h.must(200, "DELETE", policyBindingsPath+"/p", "")
			h.must(200, "DELETE", policiesPath+"/p", "")
		})
	}
	h.t = t
}

// TestPOL_04_VariablesInCircles cannot be written: a variable sees those before it.
func TestPOL_04_VariablesInCircles(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.refused("POST", policiesPath, aboutConfigMaps("p", "variables.a", `,"variables":[
		{"name":"a","expression":"variables.b"},{"name":"b","expression":"variables.a"},{"name":"c","expression":"variables.c"}]`),
		"spec.variables[0].expression", "spec.variables[2].expression", "spec.validations[0].expression")
	const same = `,"variables":[{"name":"a","expression":"1"},{"name":"a","expression":"variables.a + 1"}]`
	if code, _ := h.do("POST", policiesPath, aboutConfigMaps("p", "variables.a == 2", same)); code == 201 {
		h.must(201, "POST", policyBindingsPath, inForce("p", `["Deny"]`, ""))
		code, _ := h.do("POST", configMapsPath, configMap("x", ""))
		require.Contains(t, []int{201, 422}, code, "the same name twice ends")
	}
}

// TestPOL_01_PoliciesThatMatchThemselves lock nobody out of repairing them.
func TestPOL_01_PoliciesThatMatchThemselves(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		const everything = `{"metadata":{"name":"never"},"spec":{"matchConstraints":{"resourceRules":[
			{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]},
			{"apiGroups":["admissionregistration.k8s.io"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},
			"validations":[{"expression":"false"}]}}`
		h.must(201, "POST", policiesPath, everything)
		h.must(201, "POST", policyBindingsPath, inForce("never", `["Deny"]`, ""))
		h.must(422, "POST", configMapsPath, configMap("x", ""))
		h.must(200, "PATCH", policiesPath+"/never", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
		h.change("changes", merges(`Object{metadata: Object.metadata{labels: {"by": "policy"}}}`), "")
		h.must(200, "DELETE", policyBindingsPath+"/never", "")
		h.must(200, "DELETE", policiesPath+"/never", "")
		made := h.must(201, "POST", configMapsPath, configMap("x", ""))
		require.Equal(t, "policy", at(made, "metadata", "labels", "by"))
	})
}

// TestPOL_01_FailuresOfConditions decides by the failure policy, unless another condition does not hold.
func TestPOL_01_FailuresOfConditions(t *testing.T) {
	h := servePolicies(t, memory.New())
	const broken, not = `{"name":"a","expression":"object.data.nothing == ''"}`, `{"name":"b","expression":"object.metadata.name == 'other'"}`
	for _, c := range []struct {
		conditions, failures string
		code                 int
	}{
		{broken, "Fail", 422},
		{broken, "Ignore", 201},
		{broken + "," + not, "Fail", 201},
		{not + "," + broken, "Fail", 201},
	} {
		h.deny("p", "false", fmt.Sprintf(`,"failurePolicy":%q,"matchConditions":[%s]`, c.failures, c.conditions))
		h.must(c.code, "POST", configMapsPath, configMap("x", `"a":"b"`))
		h.must(200, "DELETE", policyBindingsPath+"/p", "")
		if c.code == 201 {
			h.must(200, "DELETE", configMapsPath+"/x", "")
		}
		h.must(200, "DELETE", policiesPath+"/p", "")
	}
}

// TestPOL_04_ObjectsOfDeletions are null, and so are those before a creation.
func TestPOL_04_ObjectsOfDeletions(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.deny("p", "request.operation == 'DELETE' ? object == null && oldObject.data.a == 'b' : request.operation == 'CREATE' ? oldObject == null : oldObject != null", "")
	h.must(201, "POST", configMapsPath, configMap("x", `"a":"c"`))
	h.must(422, "DELETE", configMapsPath+"/x", "")
	h.must(422, "DELETE", configMapsPath, "")
	h.must(200, "PUT", configMapsPath+"/x", configMap("x", `"a":"b"`))
	h.must(200, "DELETE", configMapsPath+"/x?dryRun=All", "")
	h.must(200, "DELETE", configMapsPath, "")
	h.must(404, "GET", configMapsPath+"/x", "")
}

// TestPOL_03_ParametersThatGoAway deletes a parameter, forbids it, and names a namespace for a kind that has
// none.
func TestPOL_03_ParametersThatGoAway(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "object == null || object.metadata.name != params.metadata.name",
		`,"paramKind":{"apiVersion":"v1","kind":"Namespace"}`))
	ref := func(more string) string {
		return inForce("p", `["Deny"]`, `,"paramRef":{`+more+`,"parameterNotFoundAction":"Deny"}`)
	}
	h.must(201, "POST", policyBindingsPath, ref(`"name":"red","namespace":"default"`))
	out := h.must(422, "POST", configMapsPath, configMap("x", ""))
	require.Contains(t, out["message"], "paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	h.must(200, "PUT", policyBindingsPath+"/p", withVersion(h, policyBindingsPath+"/p", ref(`"name":"red"`)))
	h.must(422, "POST", configMapsPath, configMap("x", ""))
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"red"}}`)
	h.must(201, "POST", configMapsPath, configMap("x", ""))
	h.must(422, "POST", configMapsPath, configMap("red", ""))
	h.must(200, "PUT", policyBindingsPath+"/p", withVersion(h, policyBindingsPath+"/p", ref(`"selector":{}`)))
	h.must(422, "POST", configMapsPath, configMap("default", ""))
	h.must(201, "POST", configMapsPath, configMap("y", ""))
}

// TestPOL_03_S1_WhatManyParametersSay is bounded. Whoever may create parameters decides how many
// there are, and a policy fails and makes a note for each.
func TestPOL_03_S1_WhatManyParametersSay(t *testing.T) {
	sink := &kept{}
	h := servePolicies(t, memory.New(), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}, sink))
	for i := range 200 {
		h.must(201, "POST", strings.Replace(configMapsPath, "configmaps", "secrets", 1), fmt.Sprintf(`{"metadata":{"name":"s%d","labels":{"p":"q"}}}`, i))
	}
	const kind, ref = `,"paramKind":{"apiVersion":"v1","kind":"Secret"}`, `"paramRef":{"selector":{"matchLabels":{"p":"q"}},"parameterNotFoundAction":"Deny"}`
	long := strings.Repeat("x", 2_000)
	h.must(201, "POST", mutatingPath, changesConfigMaps("m", merges(`Object{data: {"a": params.metadata.labels["none"] + "`+long+`"}}`), kind))
	h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"m"},"spec":{"policyName":"m",`+ref+`}}`)
	out := h.must(403, "POST", configMapsPath, configMap("x", ""))
	require.Contains(t, out["message"], "no such key: none")
	require.Less(t, len(fmt.Sprint(out)), 100_000)
	h.must(200, "DELETE", mutatingBindingsPath+"/m", "")

	h.must(201, "POST", policiesPath, aboutConfigMaps("v", "true", kind+`,"auditAnnotations":[{"key":"k","valueExpression":"params.metadata.name + '`+long+`'"}]`))
	h.must(201, "POST", policyBindingsPath, inForce("v", `["Deny"]`, ","+ref))
	h.must(201, "POST", configMapsPath, configMap("x", ""))
	note := sink.last().Annotations["v/k"]
	require.Contains(t, note, "s0"+long+", s1"+long)
	require.Less(t, len(note), 100_000)
}

// TestPOL_05_PatchesThatKindsDoNotHave leave no field behind that the kind does not have.
func TestPOL_05_PatchesThatKindsDoNotHave(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		code  int
	}{
		"unknown field":    {`[JSONPatch{op: "add", path: "/nope", value: {"a": 1}}]`, 500},
		"wrong type":       {`[JSONPatch{op: "add", path: "/data", value: 5}]`, 500},
		"another kind":     {`[JSONPatch{op: "replace", path: "/kind", value: "Secret"}]`, 0},
		"another name":     {`[JSONPatch{op: "replace", path: "/metadata/name", value: "y"}]`, 0},
		"another place":    {`[JSONPatch{op: "replace", path: "/metadata/namespace", value: "kube-system"}]`, 0},
		"everything":       {`[JSONPatch{op: "replace", path: "", value: {}}]`, 0},
		"nothing":          {`[JSONPatch{op: "remove", path: ""}]`, 0},
		"a bad operation":  {`[JSONPatch{op: "steal", path: "/data"}]`, 0},
		"a copy of itself": {`[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30].map(i, JSONPatch{op: "copy", from: "/data", path: "/data/" + string(i)})`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := servePolicies(t, memory.New())
			h.change("p", patches(c.patch), "")
			code, out := h.do("POST", configMapsPath, configMap("x", `"a":"b"`))
			if c.code == 0 {
				require.Contains(t, []int{400, 403, 413, 422}, code, "%v", out)
				h.must(200, "PATCH", mutatingPath+"/p", `{"spec":{"failurePolicy":"Ignore"}}`, "Content-Type", "application/merge-patch+json")
				_, out = h.do("POST", configMapsPath, configMap("x", `"a":"b"`))
				require.NotEqual(t, "InternalError", out["reason"], "%v", out)
				return
			}
			require.Equal(t, c.code, code, "%v", out)
			h.must(404, "GET", configMapsPath+"/x", "")
		})
	}
}

// TestPOL_05_NobodyReadsByAMutatingPolicy refuses mutating policies of users who cannot read the parameters.
func TestPOL_05_NobodyReadsByAMutatingPolicy(t *testing.T) {
	h := servePolicies(t, memory.New(), kindwright.Authorize(writesPolicies()))
	reads := changesConfigMaps("p", merges(`Object{data: {"stolen": string(params.data["x"])}}`), `,"paramKind":{"apiVersion":"v1","kind":"Secret"}`)
	binding := `{"metadata":{"name":"p"},"spec":{"policyName":"p","paramRef":{"name":"s","namespace":"default","parameterNotFoundAction":"Deny"}}}`
	out := h.must(422, "POST", mutatingPath, reads, as("thief")...)
	require.Contains(t, out["message"], `user thief must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`)
	h.must(201, "POST", mutatingPath, reads, as("reader")...)
	out = h.must(422, "POST", mutatingBindingsPath, binding, as("thief")...)
	require.Contains(t, out["message"], `user thief does not have "get" permission on the object referenced by paramRef`)
	h.must(201, "POST", mutatingBindingsPath, binding, as("reader")...)
}

// TestX10_WaysPastAPolicy writes what a policy forbids in every way that a write can come.
func TestX10_WaysPastAPolicy(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.deny("p", "request.operation == 'DELETE' || !has(object.data) || !('bad' in object.data)", "")
	h.must(201, "POST", configMapsPath, configMap("x", `"a":"b"`))
	bad := configMap("x", `"bad":""`)
	applied := strings.Replace(configMap("y", `"bad":""`), "{", `{"apiVersion":"v1","kind":"ConfigMap",`, 1)
	for _, query := range []string{"", "&dryRun=All", "&fieldValidation=Ignore"} {
		for _, c := range []struct{ method, path, body, as string }{
			{"POST", "", configMap("y", `"bad":""`), "json"},
			{"POST", "", "metadata: {name: 'y'}\ndata: {bad: ''}\n", "yaml"},
			{"PUT", "/x", bad, "json"},
			{"PATCH", "/x", `{"data":{"bad":""}}`, "merge-patch+json"},
			{"PATCH", "/x", `[{"op":"add","path":"/data/bad","value":""}]`, "json-patch+json"},
			{"PATCH", "/x", `[{"op":"copy","from":"/data/a","path":"/data/bad"}]`, "json-patch+json"},
			{"PATCH", "/x", `[{"op":"move","from":"/data/a","path":"/data/b~0"},{"op":"move","from":"/data/b~0","path":"/data/bad"}]`, "json-patch+json"},
			{"PATCH", "/x", `{"data":{"bad":""}}`, "strategic-merge-patch+json"},
			{"PATCH", "/x", strings.Replace(applied, `"y"`, `"x"`, 1), "apply-patch+yaml"},
			{"PATCH", "/y", applied, "apply-patch+yaml"},
		} {
			path := configMapsPath + c.path + "?fieldManager=m" + query
			out := h.must(422, c.method, path, c.body, "Content-Type", "application/"+c.as)
			require.Contains(t, out["message"], "ValidatingAdmissionPolicy 'p'", "%s as %s", path, c.as)
		}
	}
	require.Equal(t, map[string]any{"a": "b"}, h.must(200, "GET", configMapsPath+"/x", "")["data"])
	h.must(404, "GET", configMapsPath+"/y", "")
}
