package cel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
)

// pod is what the expressions of these tests see.
var pod = map[string]any{
	"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "labels": map[string]any{"k8s.io/a~b": "x"}},
	"spec": map[string]any{"replicas": int64(2), "containers": []any{map[string]any{"name": "c", "image": "i"}}},
}

func admission(t *testing.T) *cel.Admission {
	a, err := cel.NewAdmission(cel.AdmissionOptions{Params: true, Stored: true})
	require.NoError(t, err)
	return a
}

// value compiles an expression and evaluates it.
func value(t *testing.T, a *cel.Admission, text string, v cel.AdmissionInput, results ...cel.Type) (any, error) {
	t.Helper()
	x, err := a.Compile(text, true, results...)
	if err != nil {
		return nil, err
	}
	return a.Run(v, cel.BindingCostLimit).Evaluate(t.Context(), x)
}

// The namespace of an object has no version and no kind, in an expression that looks for them either.
func TestPOL_04_NamespacesHaveNoKind(t *testing.T) {
	v := cel.AdmissionInput{Object: pod, Namespace: func(context.Context) (map[string]any, error) {
		return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns"}}, nil
	}}
	a := admission(t)
	for text, want := range map[string]any{
		"has(dyn(namespaceObject).apiVersion)":  false,
		"has(dyn(namespaceObject).kind)":        false,
		"dyn(namespaceObject).metadata.name":    "ns",
		"dyn(object).metadata.?nope.orValue(1)": int64(1),
	} {
		got, err := value(t, a, text, v)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	none := cel.AdmissionInput{Object: pod}
	got, err := value(t, a, "namespaceObject == null", none)
	require.NoError(t, err)
	require.Equal(t, true, got)
}

func TestPOL_04_Variables(t *testing.T) {
	v := cel.AdmissionInput{
		Object: pod,
		Request: func() map[string]any {
			return map[string]any{"operation": "CREATE", "namespace": "ns", "userInfo": map[string]any{"groups": []any{"g"}}}
		},
		Namespace: func(context.Context) (map[string]any, error) {
			return map[string]any{"metadata": map[string]any{"name": "ns", "labels": map[string]any{"env": "prod"}}}, nil
		},
		Params: map[string]any{"max": int64(3)},
	}
	a := admission(t)
	require.ErrorContains(t, admission(t).Define("first", "variables.second"), "undefined field 'second'", "there is none yet")
	require.NoError(t, a.Define("n", "object.spec.replicas"))
	require.NoError(t, a.Define("twice", "variables.n * 2"))
	require.NoError(t, a.Define("broken", "variables.n / 0"))
	require.ErrorContains(t, a.Define("wrong", "nope"), "undeclared reference to 'nope'")
	for text, want := range map[string]any{
		"object.spec.replicas <= params.max":                       true,
		"oldObject == null":                                        true,
		"request.operation == 'CREATE' && !has(request.dryRun)":    true,
		"request.namespace":                                        "ns",
		"'g' in request.userInfo.groups":                           true,
		"namespaceObject.metadata.labels['env']":                   "prod",
		"variables.twice + variables.twice":                        int64(8),
		"has(object.metadata.labels) && !has(object.metadata.uid)": true,
		"object.spec.?nope.orValue('d')":                           "d",
	} {
		got, err := value(t, a, text, v)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"variables.broken":            `expression 'variables.broken' resulted in error: composited variable "broken" fails to evaluate: division by zero`,
		"variables.wrong":             `composited variable "wrong" fails to compile: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope'`,
		"object.nope":                 "expression 'object.nope' resulted in error: no such key: nope",
		"request.nope":                "undefined field 'nope'",
		"variables.later":             "undefined field 'later'",
		"authorizer.path('/').nope()": "undeclared reference to 'nope'",
		"Object{}":                    "undeclared reference to 'Object'",
		"jsonpatch.escapeKey('a')":    "undeclared reference to 'jsonpatch'",
	} {
		_, err := value(t, a, text, v)
		require.ErrorContains(t, err, want, text)
	}
	_, err := value(t, a, "1", v, cel.Bool())
	require.EqualError(t, err, "must evaluate to bool but got int")
	_, err = value(t, a, "object.spec.flag", v, cel.Bool())
	require.EqualError(t, err, "must evaluate to bool but got dyn")
	_, err = value(t, a, "1", v, cel.String(), cel.Null())
	require.EqualError(t, err, "must evaluate to one of [string null_type] but got int")

	plain, err := cel.NewAdmission(cel.AdmissionOptions{})
	require.NoError(t, err)
	_, err = value(t, plain, "params == null", v)
	require.ErrorContains(t, err, "undeclared reference to 'params'")
}

func TestCEL_09_27_Authorizer(t *testing.T) {
	var asked []authz.Attributes
	v := cel.AdmissionInput{
		About: authz.Attributes{User: authn.User{Name: "alice"}, ResourceRequest: true, Resource: "pods", Namespace: "ns", Name: "p"},
		Ask: func(a authz.Attributes) (authz.Decision, string, error) {
			asked = append(asked, a)
			switch {
			case a.Verb == "fail":
				return authz.Allow, "", errors.New("out of order")
			case a.Verb == "get" || a.User.Name == "system:serviceaccount:ns:sa":
				return authz.Allow, "because", nil
			}
			return authz.NoOpinion, "", nil
		},
	}
	a := admission(t)
	for _, c := range []struct {
		text, fields, labels string
		want                 any
		about                authz.Attributes
	}{
		{text: "authorizer.path('/healthz').check('get').allowed()", want: true, about: authz.Attributes{Path: "/healthz", Verb: "get"}},
		{
			text: "authorizer.group('apps').resource('deployments').subresource('scale').namespace('ns').name('n').check('update').allowed()", want: false,
			about: authz.Attributes{ResourceRequest: true, Group: "apps", Version: "*", Resource: "deployments", Subresource: "scale", Namespace: "ns", Name: "n", Verb: "update"},
		},
		{
			text: "authorizer.requestResource.check('get').reason()", want: "because",
			about: authz.Attributes{ResourceRequest: true, Version: "*", Resource: "pods", Namespace: "ns", Name: "p", Verb: "get"},
		},
		{text: "authorizer.path('/x').check('fail').allowed()", want: false, about: authz.Attributes{Path: "/x", Verb: "fail"}},
		{text: "authorizer.path('/x').check('fail').errored()", want: true, about: authz.Attributes{Path: "/x", Verb: "fail"}},
		{text: "authorizer.path('/x').check('fail').error()", want: "out of order", about: authz.Attributes{Path: "/x", Verb: "fail"}},
		{text: "authorizer.path('/x').check('get').error()", want: "", about: authz.Attributes{Path: "/x", Verb: "get"}},
		{
			text: "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('list').allowed()", want: true,
			about: authz.Attributes{
				ResourceRequest: true, Version: "*", Resource: "pods", Verb: "list",
				User: authn.User{Name: "system:serviceaccount:ns:sa", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns"}},
			},
		},
		{
			text: "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=n').labelSelector('a in (b, c),d').check('list').allowed()", want: false,
			fields: "spec.nodeName=n", labels: "a in (b,c),d",
			about: authz.Attributes{ResourceRequest: true, Version: "*", Resource: "pods", Verb: "list"},
		},
		{
			text: "authorizer.group('').resource('pods').labelSelector('!!').check('list').allowed()", want: false,
			about: authz.Attributes{ResourceRequest: true, Version: "*", Resource: "pods", Verb: "list"},
		},
	} {
		asked = nil
		got, err := value(t, a, c.text, v)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
		require.Len(t, asked, 1)
		if c.about.User.Name == "" {
			c.about.User = v.About.User
		}
		require.Equal(t, c.fields, asked[0].Fields.String())
		require.Equal(t, c.labels, asked[0].Labels.String())
		asked[0].Fields, asked[0].Labels = c.about.Fields, c.about.Labels
		require.Equal(t, c.about, asked[0], c.text)
	}
	for text, want := range map[string]string{
		"authorizer.path(' ')":                                    "path must not be empty",
		"authorizer.group('').resource('')":                       "resource must not be empty",
		"authorizer.serviceAccount('a', 'B_')":                    "Invalid service account name",
		"authorizer.serviceAccount('a.b', 'c')":                   "Invalid service account namespace",
		"authorizer == authorizer":                                "no such overload",
		"[1, 2, 3].map(i, authorizer.path('/').check('get'))[0]":  "cost limit exceeded",
		"authorizer.group('').check('get')":                       "found no matching overload for 'check'",
		"authorizer.group('').resource('a').check('get') == true": "found no matching overload for '_==_'",
	} {
		_, err := value(t, a, text, v)
		require.ErrorContains(t, err, want, text)
	}
	const selects = "authorizer.group('').resource('pods').labelSelector('a').check('list').allowed()"
	old, err := cel.NewAdmission(cel.AdmissionOptions{Release: "1.31"})
	require.NoError(t, err)
	_, err = old.Compile(selects, true, cel.Bool())
	require.ErrorContains(t, err, "undeclared reference to 'labelSelector'", "CEL-25")
	old, err = cel.NewAdmission(cel.AdmissionOptions{Release: "1.31", Known: func(text string) bool { return text == selects }})
	require.NoError(t, err)
	_, err = old.Compile(selects, true, cel.Bool())
	require.NoError(t, err, "CEL-24")
	_, err = old.Compile("authorizer.path('/').check('get').allowed()", false, cel.Bool())
	require.ErrorContains(t, err, "undeclared reference to 'authorizer'")
}

func TestPOL_05_CEL_27_WhatMutationsMake(t *testing.T) {
	a := admission(t)
	v := cel.AdmissionInput{Object: pod}
	for text, want := range map[string]any{
		"Object{}": map[string]any{},
		"Object{spec: Object.spec{replicas: object.spec.replicas + 1}}":                                                         map[string]any{"spec": map[string]any{"replicas": int64(3)}},
		"Object{metadata: Object.metadata{labels: {'a': 'b'}}}":                                                                 map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}},
		"Object{spec: Object.spec{containers: [Object.spec.containers{name: 'x'}]}}":                                            map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x"}}}},
		"Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, tty: true})}}": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "tty": true}}}},
		"Object{?spec: optional.none()}":                                                                                        map[string]any{},
		"Object{?spec: optional.ofNonZeroValue(Object.spec{?replicas: Object{}.?replicas})}":                                    map[string]any{},
		"Object{at: timestamp('2020-01-02T03:04:05Z'), by: b'abc', wait: duration('90s'), n: null}":                             map[string]any{"at": "2020-01-02T03:04:05Z", "by": "YWJj", "wait": "90s", "n": nil},
		"Object{n: Object{list: [1, 2, 3]}.list.sum()}":                                                                         map[string]any{"n": int64(6)},
		"Object{same: Object{a: 1} == Object{a: 1}, other: Object{a: 1} == Object{a: 2}, has: has(Object{a: 1}.b)}":             map[string]any{"same": true, "other": false, "has": false},
	} {
		got, err := value(t, a, text, v, cel.Configuration())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string][]cel.Patch{
		"[JSONPatch{op: 'remove', path: '/spec/replicas'}]":                                                     {{Op: "remove", Path: "/spec/replicas"}},
		"[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('k8s.io/a~b'), value: 'y'}]":     {{Op: "add", Path: "/metadata/labels/k8s.io~1a~0b", Value: "y", HasValue: true}},
		"[JSONPatch{op: 'move', from: '/a', path: '/b'}, JSONPatch{op: 'test', path: '/c', value: null}]":       {{Op: "move", From: "/a", Path: "/b"}, {Op: "test", Path: "/c", HasValue: true}},
		"[JSONPatch{op: 'add', path: '/spec', value: Object.spec{a: Object.spec.a{b: [1]}}}]":                   {{Op: "add", Path: "/spec", Value: map[string]any{"a": map[string]any{"b": []any{int64(1)}}}, HasValue: true}},
		"true ? [JSONPatch{op: 'add', path: '/n', value: 3}] : [JSONPatch{op: 'remove', path: '/n'}]":           {{Op: "add", Path: "/n", Value: int64(3), HasValue: true}},
		"object.spec.containers.map(c, JSONPatch{op: 'test', path: '/x', value: c.name}).filter(p, p.op != '')": {{Op: "test", Path: "/x", Value: "c", HasValue: true}},
	} {
		got, err := value(t, a, text, v, cel.Patches())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"Object{spec: Object.specx{a: 1}}":               `type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field name path from root Object type`,
		"Object{spec: [dyn(Object.a{}), dyn(Object{})]}": `unexpected type name "Object.a", expected "Object.spec"`,
		"Object{spec: {'a': Object.a{}}}":                `unexpected type name "Object.a", expected "Object.spec"`,
		"'teapot'":                                       "must evaluate to Object but got string",
		"Object.spec{}":                                  "must evaluate to Object but got Object.spec",
		"Invalid{}":                                      "undeclared reference to 'Invalid'",
		"Object{a: {1: 'x'}}":                            "the result has a key of the type int",
	} {
		_, err := value(t, a, text, v, cel.Configuration())
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		"[]":                                      "must evaluate to list(JSONPatch) but got list(dyn)",
		"[JSONPatch{op: 1, path: '/a'}]":          "expected type of field 'op' is 'string' but provided type is 'int'",
		"[JSONPatch{op: dyn(1), path: '/a'}]":     "unexpected type int64 for JSONPatchType 'op' field",
		"[JSONPatch{oops: 'a'}]":                  "undefined field 'oops'",
		"[JSONPatch{op: 'add', path: Invalid{}}]": "undeclared reference to 'Invalid'",
		"[JSONPatch{op: 'add', path: '/a', value: Object.a{b: Object.c{}}}]": `type mismatch: unexpected type name "Object.c", expected "Object.a.b"`,
	} {
		_, err := value(t, a, text, v, cel.Patches())
		require.ErrorContains(t, err, want, text)
	}
}

// Variables are computed once, and what they cost counts.
func TestPOL_07_Budget(t *testing.T) {
	a := admission(t)
	require.NoError(t, a.Define("slow", "authorizer.path('/').check('get').allowed()"))
	asked := 0
	v := cel.AdmissionInput{Ask: func(authz.Attributes) (authz.Decision, string, error) {
		asked++
		return authz.Allow, "", nil
	}}
	check, err := a.Compile("variables.slow && variables.slow", true, cel.Bool())
	require.NoError(t, err)
	run := a.Run(v, 400_000)
	for range 3 {
		ok, err := run.Evaluate(t.Context(), check)
		require.NoError(t, err)
		require.Equal(t, true, ok)
	}
	require.Equal(t, 1, asked)

	_, err = a.Run(v, 300_000).Evaluate(t.Context(), check)
	require.ErrorIs(t, err, cel.ErrBudget)
	require.EqualError(t, err, "validation failed due to running out of cost budget, no further validation rules will be run")
	absorbed, err := a.Compile("variables.slow || true", true, cel.Bool())
	require.NoError(t, err)
	_, err = a.Run(v, 300_000).Evaluate(t.Context(), absorbed)
	require.ErrorIs(t, err, cel.ErrBudget, "an expression cannot hide that the budget is spent")

	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	_, err = run.Evaluate(ctx, check)
	require.ErrorIs(t, err, gone)
}

// What is no optional value is its own alternative, as in Kubernetes: public policies rely on it. The
// alternative is evaluated only if it is needed, and errors stay errors.
func TestCEL_11_OptionalsOfValuesThatAreNone(t *testing.T) {
	a := admission(t)
	require.NoError(t, a.Define("containers", "object.spec.containers + object.spec.?initContainers.orValue([])"))
	for text, want := range map[string]any{
		"variables.containers.all(c, c.image.orValue('none') == 'i')":        true,
		"object.spec.containers.orValue([]).size() == 1":                     true,
		"dyn(object.spec.replicas.or(optional.of(1))) == dyn(2)":             true,
		"object.spec.?replicas.orValue(1 / 0) == 2":                          true,
		"object.spec.?none.orValue(7) == 7":                                  true,
		"object.spec.?none.or(optional.of(8)).value() == 8":                  true,
		"object.spec.?replicas.or(optional.of(8)).value() == 2":              true,
		"object.spec.?none.or(object.spec.?replicas).orValue(3) == 2":        true,
		"[1].map(i, object.spec.?none.orValue(i)) == [1]":                    true,
		"object.spec.containers.map(c, c.?ports.orValue([1])) == [dyn([1])]": true,
	} {
		got, err := value(t, a, text, cel.AdmissionInput{Object: pod})
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"object.spec.none.orValue(1) == 1", "object.spec.?none.orValue(1 / 0) == 1", "'a'.orValue('b') == 'a'"} {
		_, err := value(t, a, text, cel.AdmissionInput{Object: pod})
		require.Error(t, err, text)
	}
	e, err := cel.NewEnvironment(cel.Claims())
	require.NoError(t, err)
	p, err := e.Compile("claims.groups.orValue([]).size() == 1", cel.Bool())
	require.NoError(t, err)
	holds, err := p.Holds(t.Context(), cel.Values{"claims": map[string]any{"groups": []any{"a"}}})
	require.NoError(t, err)
	require.True(t, holds)
}

// An evaluation ends within a few rounds of its loops when its request does, whatever it would still cost. The rounds
// are counted by their cost: time would depend on the machine.
func TestCEL_22_AnEvaluationEndsWithItsRequest(t *testing.T) {
	const rounds, last = 20_000, 3_000
	list := make([]any, rounds)
	for i := range list {
		list[i] = int64(i)
	}
	object := map[string]any{"list": list, "pair": []any{int64(0), int64(1)}}
	for _, text := range []string{
		"object.list.all(i, i != 3000 || request.name == 'x')",
		"object.list.all(i, object.pair.all(k, i != 3000 || k != 0 || request.name == 'x'))",
		"object.list.filter(i, i != 3000 || request.name == 'x').size() == 20000",
		"object.list.transformList(k, v, v != 3000 || request.name == 'x', v).size() == 20000",
	} {
		gone := errors.New("the client has gone")
		evaluate := func(leaves bool) (string, uint64) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			_, result, cost := cel.AskAdmission(ctx, admission(t), cel.AdmissionInput{Object: object, Request: func() map[string]any {
				if leaves {
					cancel(gone)
				}
				return map[string]any{"name": "x"}
			}}, text)
			return result, cost
		}
		result, whole := evaluate(false)
		require.Equal(t, "bool true", result, text)
		result, part := evaluate(true)
		require.Contains(t, result, "failed: operation interrupted", text)
		require.Greater(t, part, whole*last/rounds*9/10, "%s: it went on until the request ended", text)
		require.Less(t, part, whole*(last+10)/rounds, "%s: and not much further", text)
	}
}
