package kinds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	policiesPath       = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	policyBindingsPath = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
)

// servePolicies serves config maps and secrets with admission policies.
func servePolicies(t *testing.T, b storage.Backend, opts ...kindwright.Option) *host {
	t.Helper()
	return serve(t, b, nil, append(opts, kindwright.Serve(kinds.Policies(), kinds.ConfigMaps(), kinds.Secrets()))...)
}

// aboutConfigMaps is a policy about config maps. more are further fields of its spec, with a comma before
// them.
func aboutConfigMaps(name, expression, more string) string {
	text, _ := json.Marshal(expression)
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE","DELETE"],"resources":["configmaps"]}]},
		"validations":[{"expression":%s}]%s}}`, name, text, more)
}

// inForce is a binding of a policy of the same name. more are further fields of its spec.
func inForce(name, actions, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":%s%s}}`, name, name, actions, more)
}

func configMap(name, data string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"data":{%s}}`, name, data)
}

// TestPOL_01_03_APolicyIsInForceWhenItsWriteIsAnswered creates a policy and its binding, and takes them away
// again.
func TestPOL_01_03_APolicyIsInForceWhenItsWriteIsAnswered(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		p := h.must(201, "POST", policiesPath, aboutConfigMaps("sizes", "object == null || size(object.data) < 2", ""))
		require.Equal(t, "Fail", at(p, "spec", "failurePolicy"))
		require.Equal(t, "Equivalent", at(p, "spec", "matchConstraints", "matchPolicy"))
		h.must(201, "POST", configMapsPath, configMap("free", `"a":"1","b":"2"`))
		h.must(201, "POST", policyBindingsPath, inForce("sizes", `["Deny"]`, ""))
		refused := h.must(422, "POST", configMapsPath, configMap("big", `"a":"1","b":"2"`))
		const text = `ValidatingAdmissionPolicy 'sizes' with binding 'sizes' denied request: failed expression: object == null || size(object.data) < 2`
		require.Equal(t, `configmaps "big" is forbidden: `+text, refused["message"])
		require.Equal(t, "Invalid", refused["reason"])
		require.Equal(t, []any{map[string]any{"message": text}}, at(refused, "details", "causes"))
		h.must(201, "POST", configMapsPath, configMap("small", `"a":"1"`))
		h.must(422, "PUT", configMapsPath+"/small", configMap("small", `"a":"1","b":"2"`))
		h.must(200, "DELETE", policyBindingsPath+"/sizes", "")
		h.must(200, "PUT", configMapsPath+"/small", configMap("small", `"a":"1","b":"2"`))
	})
}

// TestPOL_01_03_BindingsBeforeTheirPolicies have no effect until there is a policy, and another one
// after it was replaced.
func TestPOL_01_03_BindingsBeforeTheirPolicies(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.must(201, "POST", policyBindingsPath, inForce("p", `["Deny"]`, ""))
	h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"p"},"spec":{"policyName":"p"}}`)
	check := func(code int) {
		t.Helper()
		out := h.must(code, "POST", configMapsPath+"?dryRun=All", configMap("x", `"a":"b"`))
		if code == 201 {
			require.Equal(t, map[string]any{"a": "b"}, out["data"])
		}
	}
	check(201)
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "object.data.a != 'b'", ""))
	check(422)
	h.must(200, "DELETE", policiesPath+"/p", "")
	check(201)
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "object.data.a == 'c'", ""))
	h.must(201, "POST", mutatingPath, changesConfigMaps("p", merges(`Object{data: {"a": "c"}}`), ""))
	out := h.must(201, "POST", configMapsPath+"?dryRun=All", configMap("x", `"a":"b"`))
	require.Equal(t, map[string]any{"a": "c"}, out["data"])
	h.must(200, "DELETE", mutatingPath+"/p", "")
	check(422)
}

// TestPOL_02_ReasonsAndMessages asks for each code, and for messages that expressions make.
func TestPOL_02_ReasonsAndMessages(t *testing.T) {
	h := servePolicies(t, memory.New())
	for i, c := range []struct {
		validation string // fields after the expression
		code       int
		message    string
	}{
		{`"message":" no. "`, 422, "no."},
		{`"message":"no","reason":"Forbidden"`, 403, "no"},
		{`"message":"no","reason":"Unauthorized"`, 401, "no"},
		{`"message":"no","reason":"RequestEntityTooLarge"`, 413, "no"},
		{`"message":"no","messageExpression":"'not ' + object.metadata.name"`, 422, "not x"},
		{`"message":"no","messageExpression":"'two\\nlines'"`, 422, "no"},
		{`"messageExpression":"object.nothing"`, 422, ""},
		{`"message":"no","messageExpression":"string(object.nothing)"`, 422, "no"},
		{`"messageExpression":"' '"`, 422, "failed expression: false"},
		{`"message":"no","messageExpression":"'` + strings.Repeat("x", 5121) + `'"`, 422, "no"},
		{`"message":"no","messageExpression":"'` + strings.Repeat("x", 5120) + `'"`, 422, strings.Repeat("x", 5120)},
	} {
		name := fmt.Sprintf("p%d", i)
		p := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[
			{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
			"validations":[{"expression":"false",%s}]}}`, name, c.validation)
		if c.message == "" { // its type is not known to be text
			h.refused("POST", policiesPath, p, "spec.validations[0].messageExpression")
			continue
		}
		h.must(201, "POST", policiesPath, p)
		h.must(201, "POST", policyBindingsPath, inForce(name, `["Deny"]`, ""))
		out := h.must(c.code, "POST", configMapsPath, configMap("x", ""))
		require.Equal(t, fmt.Sprintf(`configmaps "x" is forbidden: ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s`, name, name, c.message), out["message"])
		h.must(200, "DELETE", policyBindingsPath+"/"+name, "")
	}
}

// TestPOL_03_Parameters takes parameters by name and by labels, from the namespace of the request, and
// without any.
func TestPOL_03_Parameters(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		h.must(201, "POST", policiesPath, aboutConfigMaps("limits", "params == null || object.metadata.name.startsWith('limit') || size(object.data) <= int(params.data.limit)",
			`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}`))
		h.must(201, "POST", policyBindingsPath, inForce("limits", `["Deny"]`, `,"paramRef":{"name":"limit","parameterNotFoundAction":"Deny"}`))
		two := configMap("two", `"a":"1","b":"2"`)
		refused := h.must(422, "POST", configMapsPath, two)
		require.Contains(t, refused["message"], "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
		h.must(200, "PUT", policyBindingsPath+"/limits", withVersion(h, policyBindingsPath+"/limits", inForce("limits", `["Deny"]`, `,"paramRef":{"name":"limit","parameterNotFoundAction":"Allow"}`)))
		h.must(201, "POST", configMapsPath, configMap("limit", `"limit":"1"`))
		h.must(422, "POST", configMapsPath, two)
		h.must(200, "PUT", configMapsPath+"/limit", configMap("limit", `"limit":"2"`))
		h.must(201, "POST", configMapsPath, two)
		h.must(200, "PUT", configMapsPath+"/limit", `{"metadata":{"name":"limit","labels":{"kind":"limit"}},"data":{"limit":"1"}}`)
		h.must(200, "PUT", policyBindingsPath+"/limits", withVersion(h, policyBindingsPath+"/limits",
			inForce("limits", `["Deny"]`, `,"paramRef":{"selector":{"matchLabels":{"kind":"limit"}},"parameterNotFoundAction":"Allow"}`)))
		h.must(422, "POST", configMapsPath, configMap("three", `"a":"1","b":"2"`))
		h.must(200, "PUT", policyBindingsPath+"/limits", withVersion(h, policyBindingsPath+"/limits", inForce("limits", `["Deny"]`, "")))
		h.must(201, "POST", configMapsPath, configMap("three", `"a":"1","b":"2"`)) // no parameter is null
	})
}

// withVersion adds the resourceVersion that an object has now.
func withVersion(h *host, path, body string) string {
	h.t.Helper()
	var object map[string]any
	require.NoError(h.t, json.Unmarshal([]byte(body), &object))
	now := h.must(200, "GET", path, "")
	object["metadata"].(map[string]any)["resourceVersion"] = at(now, "metadata", "resourceVersion")
	out, err := json.Marshal(object)
	require.NoError(h.t, err)
	return string(out)
}

// TestPOL_04_CEL_09_Variables reads every variable. Warnings show what it finds.
func TestPOL_04_CEL_09_Variables(t *testing.T) {
	h := servePolicies(t, memory.New(), kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "admin" || a.Verb == "greet" && a.Name == "x" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})))
	h.must(201, "POST", policiesPath, aboutConfigMaps("all", strings.Join([]string{
		"object.metadata.name == 'x'", "oldObject == null", "request.operation == 'CREATE'", "request.kind.kind == 'ConfigMap'",
		"request.resource.resource == 'configmaps'", "request.name == 'x'", "request.namespace == 'default'", "request.userInfo.username == 'admin'",
		"request.userInfo.groups.exists(g, g == 'system:masters')", "!request.dryRun", "request.options.kind == 'CreateOptions'",
		"namespaceObject.metadata.name == 'default'", "namespaceObject.status.phase == 'Active'", "variables.b == 3",
		"authorizer.group('').resource('secrets').check('get').allowed()", "authorizer.requestResource.check('greet').allowed()",
	}, " && "), `,"matchConditions":[{"name":"robots","expression":"!authorizer.serviceAccount('default', 'robot').group('').resource('secrets').check('get').allowed()"}],
		"variables":[{"name":"a","expression":"1"},{"name":"b","expression":"variables.a + 2"}]`))
	h.must(201, "POST", policyBindingsPath, inForce("all", `["Deny"]`, ""))
	h.must(201, "POST", configMapsPath, configMap("x", ""))
	h.must(422, "POST", configMapsPath, configMap("y", ""))
}

// TestPOL_06_TypesAreChecked finds a misspelt field in an expression, and no fault with the rest. As in
// Kubernetes, the fields of a variable that is an object are not known.
func TestPOL_06_TypesAreChecked(t *testing.T) {
	h := servePolicies(t, memory.New())
	next := h.watch(policiesPath + "?watch=1")
	h.must(201, "POST", policiesPath, aboutConfigMaps("good", "object.metadata.labels['a'] == '' || object.data.x == ''", ""))
	h.must(201, "POST", policiesPath, aboutConfigMaps("bad", "object.dta == null", ""))
	h.must(201, "POST", policiesPath, aboutConfigMaps("worse", "variables.meta.nme == ''", `,"variables":[{"name":"meta","expression":"object.metadata"},{"name":"x","expression":"object.y"}]`))
	status := map[string]any{}
	for len(status) < 3 {
		event := next()
		if name, _ := at(event, "object", "metadata", "name").(string); at(event, "object", "status", "observedGeneration") != nil {
			status[name] = at(event, "object", "status")
		}
	}
	require.Equal(t, map[string]any{"observedGeneration": 1.0, "typeChecking": map[string]any{}}, status["good"])
	warnings, _ := at(status["bad"], "typeChecking", "expressionWarnings").([]any)
	require.Len(t, warnings, 1)
	require.Equal(t, "spec.validations[0].expression", at(warnings[0], "fieldRef"))
	require.Equal(t, "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'dta'\n | object.dta == null\n | ......^\n", at(warnings[0], "warning"))
	require.Equal(t, map[string]any{"observedGeneration": 1.0, "typeChecking": map[string]any{}}, status["worse"])
}

// TestPOL_06_StatusesAreChecked refuses a status that says nothing, and leaves other writes alone.
func TestPOL_06_StatusesAreChecked(t *testing.T) {
	h := servePolicies(t, memory.New())
	merge := []string{"Content-Type", "application/merge-patch+json"}
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "true", ""))
	refused := h.must(422, "PATCH", policiesPath+"/p/status", `{"status":{"typeChecking":{"expressionWarnings":[{"fieldRef":" ","warning":""}]},"conditions":[
		{"type":"Ready","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"Done","message":""},
		{"type":"Odd one","status":"Maybe","observedGeneration":-1,"lastTransitionTime":null,"reason":"no, not","message":"`+strings.Repeat("x", 1<<15+1)+`"},
		{"type":"Bare","status":"False","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"","message":""}]}}`, merge...)
	var fields []string
	for _, c := range at(refused, "details", "causes").([]any) {
		fields = append(fields, at(c, "field").(string))
	}
	require.ElementsMatch(t, []string{
		"status.typeChecking.expressionWarnings[0].warning", "status.typeChecking.expressionWarnings[0].fieldRef", "status.conditions[1].type",
		"status.conditions[1].status", "status.conditions[1].observedGeneration", "status.conditions[1].lastTransitionTime", "status.conditions[1].reason",
		"status.conditions[1].message", "status.conditions[2].reason",
	}, fields)
	h.must(200, "PATCH", policiesPath+"/p/status", `{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"Done","message":""}]}}`, merge...)
	h.must(200, "PATCH", policiesPath+"/p", `{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"x"}]}}`, merge...)
}

// What was found about a policy is not written to another one of its name, and that one is checked,
// too.
func TestPOL_06_PoliciesOfOneName(t *testing.T) {
	h := servePolicies(t, memory.New())
	next := h.watch(policiesPath + "?watch=1")
	for range 20 {
		h.must(201, "POST", policiesPath, aboutConfigMaps("p", "object.dta == null", ""))
		h.must(200, "DELETE", policiesPath+"/p", "")
	}
	made := h.must(201, "POST", policiesPath, aboutConfigMaps("p", "true", ""))
	for {
		event := next()
		require.NotNil(t, event)
		uid := at(event, "object", "metadata", "uid")
		found := at(event, "object", "status", "typeChecking", "expressionWarnings")
		require.False(t, found != nil && uid == at(made, "metadata", "uid"))
		if uid == at(made, "metadata", "uid") && at(event, "object", "status", "observedGeneration") != nil {
			return
		}
	}
}

// A policy of a manifest may deny the status of a policy. Those after it are checked nevertheless.
func TestPOL_06_ADeniedStatusKeepsNobodyUnchecked(t *testing.T) {
	m := policy.Manifests{
		Policies: []*policy.ValidatingAdmissionPolicy{{Spec: policy.ValidatingAdmissionPolicySpec{
			MatchConstraints: &match.Resources{ResourceRules: []match.NamedRule{{ResourceNames: []string{"a"}, RuleWithOperations: match.RuleWithOperations{
				Operations: []string{"UPDATE"},
				Rule:       match.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
			}}}},
			Validations: []policy.Validation{{Expression: "false"}},
		}}},
		Bindings: []*policy.ValidatingAdmissionPolicyBinding{{Spec: policy.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "frozen", ValidationActions: []string{policy.Deny},
		}}},
	}
	m.Policies[0].Name, m.Bindings[0].Name = "frozen", "frozen"
	static, err := policy.Static(policy.Options{}, m)
	require.NoError(t, err)
	h := servePolicies(t, memory.New(), kindwright.Admit(static))
	next := h.watch(policiesPath + "?watch=1")
	h.must(201, "POST", policiesPath, aboutConfigMaps("a", "true", ""))
	h.must(201, "POST", policiesPath, aboutConfigMaps("b", "true", ""))
	for {
		event := next()
		require.NotNil(t, event)
		if at(event, "object", "status", "observedGeneration") != nil {
			require.Equal(t, "b", at(event, "object", "metadata", "name"))
			return
		}
	}
}

// TestPOL_03_Actions warns and annotates instead of refusing.
func TestPOL_03_Actions(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.must(201, "POST", policiesPath, aboutConfigMaps("mild", "false", ""))
	h.must(201, "POST", policyBindingsPath, inForce("mild", `["Warn","Audit"]`, ""))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "POST", configMapsPath, configMap("x", "")))
	require.Equal(t, 201, w.Code)
	require.Equal(t, []string{`299 - "Validation failed for ValidatingAdmissionPolicy 'mild' with binding 'mild': failed expression: false"`}, w.Header()["Warning"])
}

// TestPOL_01_03_WhatPoliciesRecord looks at the record of a write that one policy annotates through
// two bindings. Values that differ are joined; what is null or blank is left out, and what is long
// is cut.
func TestPOL_01_03_WhatPoliciesRecord(t *testing.T) {
	sink := &kept{}
	h := servePolicies(t, memory.New(), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}, sink))
	h.must(201, "POST", policiesPath, aboutConfigMaps("noted", "object.metadata.name == 'good'", `,"paramKind":{"apiVersion":"v1","kind":"Namespace"},"auditAnnotations":[
		{"key":"where","valueExpression":"' in ' + params.metadata.name"},{"key":"who","valueExpression":"request.userInfo.username"},
		{"key":"null","valueExpression":"null"},{"key":"blank","valueExpression":"' '"},
		{"key":"long","valueExpression":"'xxxxxxxxxx'.replace('x', 'xxxxxxxxxxxxxxxxxxxx').replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')"}]`))
	for _, name := range []string{"default", "kube-system"} {
		h.must(201, "POST", policyBindingsPath, fmt.Sprintf(`{"metadata":{"name":"in-%[1]s"},"spec":{"policyName":"noted","validationActions":["Audit"],
			"paramRef":{"name":%[1]q,"parameterNotFoundAction":"Deny"}}}`, name))
	}
	h.must(201, "POST", configMapsPath, configMap("good", ""))
	notes := sink.last().Annotations
	require.Equal(t, "in default, in kube-system", notes["noted/where"])
	require.Equal(t, "admin", notes["noted/who"])
	require.Equal(t, strings.Repeat("x", 10<<10), notes["noted/long"])
	require.NotContains(t, notes, "noted/null")
	require.NotContains(t, notes, "noted/blank")
	require.NotContains(t, notes, "validation.policy.admission.k8s.io/validation_failure")
	h.must(201, "POST", configMapsPath, configMap("bad", ""))
	require.JSONEq(t, `[{"message":"failed expression: object.metadata.name == 'good'","policy":"noted","binding":"in-default","expressionIndex":0,"validationActions":["Audit"]}]`,
		sink.last().Annotations["validation.policy.admission.k8s.io/validation_failure"])
}

// TestPOL_04_DecisionsAreKept asks the authorizer once for what the policies of a write ask.
func TestPOL_04_DecisionsAreKept(t *testing.T) {
	var asked atomic.Int64
	h := servePolicies(t, memory.New(), kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "frob" {
			asked.Add(1)
			return authz.NoOpinion, "because", nil
		}
		return authz.Allow, "", nil
	})))
	const question = "authorizer.group('').resource('pods').check('frob').reason() == 'because' && !authorizer.requestResource.check('frob').allowed()"
	for _, name := range []string{"a", "b"} {
		h.deny(name, question, `,"matchConditions":[{"name":"c","expression":"`+question+`"}]`)
	}
	for writes := range int64(2) {
		h.must(201, "POST", configMapsPath, configMap(fmt.Sprintf("x%d", writes), ""), "X-User", "ann", "X-Groups", "")
		require.Equal(t, 2*(writes+1), asked.Load(), "two questions for each write")
	}
}

// TestPOL_01_FailurePolicy fails in an expression, in a variable, in a match condition, in a conversion of
// types and in the budget.
func TestPOL_01_07_FailurePolicy(t *testing.T) {
	h := servePolicies(t, memory.New())
	const slow = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, " +
		"[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))"
	for i, c := range []struct{ expression, more, want string }{
		{"object.spec.x == 1", "", "expression 'object.spec.x == 1' resulted in error: no such key: spec"},
		{"variables.v == 1", `,"variables":[{"name":"v","expression":"object.spec.x"}]`, `composited variable "v" fails to evaluate: no such key: spec`},
		{"true", `,"matchConditions":[{"name":"c","expression":"object.spec.x == 1"}]`, "expression 'object.spec.x == 1' resulted in error: no such key: spec"},
		{slow, "", "operation cancelled: actual cost limit exceeded"},
		{"params.x == 1", `,"paramKind":{"apiVersion":"example.dev/v1","kind":"Nothing"}`, "failed to configure policy: failed to find resource referenced by paramKind: 'example.dev/v1, Kind=Nothing'"},
	} {
		for _, ignore := range []bool{false, true} {
			name, more, code := fmt.Sprintf("p%d", i), c.more, 422
			if ignore {
				more, code = more+`,"failurePolicy":"Ignore"`, 201
			}
			h.must(201, "POST", policiesPath, aboutConfigMaps(name, c.expression, more))
			h.must(201, "POST", policyBindingsPath, inForce(name, `["Deny"]`, ""))
			out := h.must(code, "POST", configMapsPath, configMap("x", ""))
			if ignore {
				h.must(200, "DELETE", policyBindingsPath+"/"+name, "")
				h.must(200, "DELETE", configMapsPath+"/x", "")
			} else {
				require.Contains(t, out["message"], c.want)
				h.must(200, "DELETE", policyBindingsPath+"/"+name, "")
			}
			h.must(200, "DELETE", policiesPath+"/"+name, "")
		}
	}
}

// TestPOL_07_EachBindingHasABudget evaluates expressions that cost nine tenths of a million each.
// Ten million are for one binding, whatever others cost.
func TestPOL_07_EachBindingHasABudget(t *testing.T) {
	h := servePolicies(t, memory.New())
	one := `{"expression":"!object.data.a.contains('` + strings.Repeat("y", 100) + `')"}`
	costly := func(validations int, more string) {
		p := aboutConfigMaps("p", "x", more)
		h.must(201, "POST", policiesPath, strings.Replace(p, `{"expression":"x"}`, strings.Repeat(one+",", validations-1)+one, 1))
		for _, name := range []string{"p", "q"} {
			h.must(201, "POST", policyBindingsPath, strings.Replace(inForce("p", `["Deny"]`, ""), "p", name, 1))
		}
	}
	large := configMap("x", `"a":"`+strings.Repeat("x", 900_000)+`"`)
	for _, c := range []struct {
		validations int
		more        string
		code        int
	}{{8, "", 201}, {12, "", 422}, {12, `,"failurePolicy":"Ignore"`, 201}} {
		costly(c.validations, c.more)
		out := h.must(c.code, "POST", configMapsPath+"?dryRun=All", large)
		if c.code == 422 {
			require.Contains(t, out["message"], "validation failed due to running out of cost budget, no further validation rules will be run")
		}
		for _, path := range []string{policyBindingsPath + "/p", policyBindingsPath + "/q", policiesPath + "/p"} {
			h.must(200, "DELETE", path, "")
		}
	}
}

// TestPOL_01_MatchConditionsAndExemptions leaves out what a condition excludes, and the kinds of policies.
func TestPOL_01_MatchConditionsAndExemptions(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.must(201, "POST", policiesPath, `{"metadata":{"name":"nothing"},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}],
		"excludeResourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["secrets"]}]},
		"matchConditions":[{"name":"robots","expression":"request.userInfo.username != 'robot'"}],
		"validations":[{"expression":"false"}]}}`)
	h.must(201, "POST", policyBindingsPath, inForce("nothing", `["Deny"]`, ""))
	h.must(422, "POST", configMapsPath, configMap("x", ""))
	h.must(201, "POST", configMapsPath, configMap("x", ""), "X-User", "robot")
	h.must(201, "POST", strings.Replace(configMapsPath, "configmaps", "secrets", 1), `{"metadata":{"name":"s"}}`)
	h.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`)
	h.must(200, "DELETE", policiesPath+"/nothing", "")
	h.must(200, "DELETE", configMapsPath+"/x", "")
}

// TestPOL_01_02_03_BadPoliciesAreRefused names each field that is wrong.
func TestPOL_01_02_03_BadPoliciesAreRefused(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.refused("POST", policiesPath, `{"metadata":{"name":"p"},"spec":{}}`, "spec.matchConstraints", "spec.validations", "spec.auditAnnotations")
	h.refused("POST", policiesPath, `{"metadata":{"name":"p"},"spec":{"failurePolicy":"Maybe","paramKind":{"apiVersion":"a/b/c","kind":"-"},
		"matchConstraints":{"matchPolicy":"Near","resourceRules":[{"operations":["*","CREATE","READ"],"apiGroups":["*","a"],"apiVersions":[""],"resources":["*/*","pods"],"scope":"Some","resourceNames":["a","a"]}]},
		"matchConditions":[{"name":"c","expression":"1"},{"name":"d","expression":"true"}],
		"variables":[{"name":"if","expression":"variables.later"},{"name":"later","expression":"1"}],
		"validations":[{"expression":" "},{"expression":"object.x","message":"a\nb","reason":"Because","messageExpression":"1"}],
		"auditAnnotations":[{"key":"a b","valueExpression":"1"}]}}`,
		"spec.failurePolicy", "spec.paramKind.apiVersion", "spec.paramKind.kind", "spec.matchConstraints.matchPolicy",
		"spec.matchConstraints.resourceRules[0].operations", "spec.matchConstraints.resourceRules[0].operations[2]",
		"spec.matchConstraints.resourceRules[0].apiGroups", "spec.matchConstraints.resourceRules[0].apiVersions[0]",
		"spec.matchConstraints.resourceRules[0].resources", "spec.matchConstraints.resourceRules[0].scope",
		"spec.matchConstraints.resourceRules[0].resourceNames[1]", "spec.matchConditions[0].expression",
		"spec.variables[0].name", "spec.variables[0].expression", "spec.validations[0].expression",
		"spec.validations[1].expression", "spec.validations[1].message", "spec.validations[1].reason", "spec.validations[1].messageExpression",
		"spec.auditAnnotations[0].key", "spec.auditAnnotations[0].valueExpression")
	h.refused("POST", policyBindingsPath, `{"metadata":{"name":"b"},"spec":{"policyName":"A","paramRef":{"parameterNotFoundAction":"Wait"},"validationActions":["Deny","Warn","Shout"]}}`,
		"spec.policyName", "spec.paramRef", "spec.paramRef.parameterNotFoundAction", "spec.validationActions[2]", "spec.validationActions")
	h.refused("POST", policyBindingsPath, inForce("b", `["Deny"]`, `,"paramRef":{"name":"n"}`), "spec.paramRef.parameterNotFoundAction")
	h.must(201, "POST", policiesPath+"?dryRun=All", strings.ReplaceAll(aboutConfigMaps("v", "true", ""), `"resources":`, `"resourceNames":[""],"resources":`))
	out := h.must(422, "POST", policiesPath, aboutConfigMaps("v", "variables.a", ""))
	require.Contains(t, out["message"], "undeclared reference to 'variables'", "as in kube-apiserver, a policy without variables has none")
	out = h.must(422, "POST", policiesPath, aboutConfigMaps("v", "variables.a", `,"variables":[{"name":"a","expression":"true"}],"matchConditions":[{"name":"c","expression":"variables.a"}]`))
	require.Contains(t, out["message"], "undeclared reference to 'variables'", "conditions do not see them")
	h.refused("POST", mutatingBindingsPath, `{"metadata":{"name":"b"},"spec":{"policyName":"a","paramRef":{"name":"n"}}}`, "spec.paramRef.parameterNotFoundAction")
}

// writesPolicies lets everybody write policies, and reader read secrets.
func writesPolicies() authz.Authorizer {
	return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Group == "admissionregistration.k8s.io" || a.User.Name == "reader" && a.Resource == "secrets" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
}

// TestPOL_03_NobodyReadsByAPolicy refuses policies and bindings of users who cannot read the parameters.
func TestPOL_03_NobodyReadsByAPolicy(t *testing.T) {
	h := servePolicies(t, memory.New(), kindwright.Authorize(writesPolicies()))
	reads := aboutConfigMaps("p", "params.data.x == ''", `,"paramKind":{"apiVersion":"v1","kind":"Secret"}`)
	binding := inForce("p", `["Deny"]`, `,"paramRef":{"name":"s","namespace":"default","parameterNotFoundAction":"Deny"}`)
	out := h.must(422, "POST", policiesPath, reads, as("thief")...)
	require.Contains(t, out["message"], `spec.paramKind: Forbidden: user thief must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`)
	h.must(422, "POST", policyBindingsPath, binding, as("thief")...)
	h.must(201, "POST", policiesPath, reads, as("reader")...)
	out = h.must(422, "POST", policyBindingsPath, binding, as("thief")...)
	require.Contains(t, out["message"], `spec.paramRef: Forbidden: user thief does not have "get" permission on the object referenced by paramRef`)
	h.must(201, "POST", policyBindingsPath, binding, as("reader")...)
	h.must(200, "PATCH", policyBindingsPath+"/p", `{"metadata":{"labels":{"a":"b"}}}`, patched("thief")...)
}

// TestPOL_01_StaticPoliciesGuardPolicies keeps a policy of the API from being deleted.
func TestPOL_01_StaticPoliciesGuardPolicies(t *testing.T) {
	m, err := policy.ReadManifests(fstest.MapFS{"keep.yaml": {Data: []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ["admissionregistration.k8s.io"], apiVersions: ["*"], operations: ["DELETE"], resources: ["*"]}
  validations:
  - {expression: "request.userInfo.username == 'root'", message: "only root deletes", reason: Forbidden}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep.static.k8s.io}
spec: {policyName: keep.static.k8s.io, validationActions: [Deny]}
`)}})
	require.NoError(t, err)
	static, err := policy.Static(policy.Options{}, m)
	require.NoError(t, err)
	h := servePolicies(t, memory.New(), kindwright.Admit(static))
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "true", ""))
	out := h.must(403, "DELETE", policiesPath+"/p", "")
	require.Equal(t, `validatingadmissionpolicies.admissionregistration.k8s.io "p" is forbidden: ValidatingAdmissionPolicy 'keep.static.k8s.io' with binding 'keep.static.k8s.io' denied request: only root deletes`, out["message"])
	h.must(200, "DELETE", policiesPath+"/p", "", "X-User", "root")
}

// TestPOL_07_ChecksAreCounted has the metrics of kube-apiserver: one for each consequence of an expression.
func TestPOL_07_ChecksAreCounted(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.must(201, "POST", policiesPath, aboutConfigMaps("strict", "object.data.a == 'b'", ""))
	h.must(201, "POST", policyBindingsPath, inForce("strict", `["Deny","Audit"]`, ""))
	h.must(422, "POST", configMapsPath, configMap("x", `"a":"c"`))
	h.must(201, "POST", configMapsPath, configMap("x", `"a":"b"`))
	h.must(201, "POST", policiesPath, aboutConfigMaps("lenient", "object.data.none == 'b'", `,"failurePolicy":"Ignore"`))
	h.must(201, "POST", policyBindingsPath, inForce("lenient", `["Warn"]`, ""))
	h.change("labels", merges(`Object{metadata: Object.metadata{labels: {"by": "policy"}}}`), "")
	h.must(201, "POST", configMapsPath, configMap("y", `"a":"b"`))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "GET", "/metrics", ""))
	for _, line := range []string{
		`apiserver_validating_admission_policy_check_total{policy="strict",policy_binding="strict",error_type="invalid_error",enforcement_action="deny"} 1`,
		`apiserver_validating_admission_policy_check_total{policy="strict",policy_binding="strict",error_type="invalid_error",enforcement_action="audit"} 1`,
		`apiserver_validating_admission_policy_check_total{policy="lenient",policy_binding="lenient",error_type="invalid_error",enforcement_action="allow"} 1`,
		`apiserver_validating_admission_policy_check_duration_seconds_count{policy="strict",policy_binding="strict",error_type="invalid_error",enforcement_action="deny"} 1`,
		`apiserver_mutating_admission_policy_check_total{policy="labels",policy_binding="labels",error_type="no_error"} 1`,
	} {
		require.Contains(t, w.Body.String(), line+"\n")
	}
}
