package crd_test

import (
	"io"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

// ruled is the schema of shirts with a rule for the spec.
func ruled(rules ...any) map[string]any {
	spec := object(map[string]any{
		"color": map[string]any{"type": "string"}, "size": map[string]any{"type": "integer"},
		"tags": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
	})
	spec["x-kubernetes-validations"] = rules
	return object(map[string]any{"spec": spec})
}

func rule(expression string, more ...any) map[string]any {
	out := map[string]any{"rule": expression}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

func TestCRD_12_RulesApplyToObjects(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, ruled(
		rule("self.color != 'red' || self.size < 3", "message", "red shirts are small", "fieldPath", ".size"),
		rule("self.size >= oldSelf.size", "messageExpression", "'was ' + oldSelf.color", "reason", "FieldValueForbidden"),
	))}}))
	const path = "/apis/shop.example.com/v1/namespaces/default/shirts"
	shirt := func(color string, size string, more string) string {
		return `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"` + more + `},"spec":{"color":"` + color + `","size":` + size + `}}`
	}
	code, answer := call(t, srv, "POST", path, shirt("red", "5", ""))
	require.Equal(t, 422, code)
	require.Equal(t, `Shirt.shop.example.com "a" is invalid: spec.size: Invalid value: red shirts are small`, answer["message"])
	code, answer = call(t, srv, "POST", path, shirt("red", "2", ""))
	require.Equal(t, 201, code, "%v", answer)
	more := `,"resourceVersion":"` + answer["metadata"].(map[string]any)["resourceVersion"].(string) + `"`
	code, answer = call(t, srv, "PUT", path+"/a", shirt("blue", "1", more))
	require.Equal(t, 422, code)
	require.Equal(t, []string{"spec: Forbidden: was red"}, causes(answer))
}

// The same rule may be there twice: kube-apiserver does not compare the rules of a list.
func TestCRD_12_RulesMayRepeat(t *testing.T) {
	srv := start(t, crd.Kinds())
	twice := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{
		"type":                     "object",
		"x-kubernetes-validations": []any{rule("true"), rule("true")},
	}}}
	one := version("v1", true, twice)
	code, answer := call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{"spec/versions": []any{one}}))
	require.Equal(t, 201, code, answer)
}

func TestCRD_12_13_BadRulesAreRefused(t *testing.T) {
	const at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]."
	const advice = " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	srv := start(t, crd.Kinds())
	for _, c := range []struct {
		rule map[string]any
		want []string
	}{
		{rule("self.colour == 'x'"), []string{
			at + `rule: Invalid value: {"Rule":"self.colour == 'x'","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: ` +
				"compilation failed: ERROR: <input>:1:5: undefined field 'colour'\n | self.colour == 'x'\n | ....^",
		}},
		{rule("self.tags.all(a, self.tags.all(b, a == b))"), []string{
			at + "rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x" + advice,
			at + "rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
			"spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x" + advice,
		}},
		{rule("self.color.matches('^[a-z]+$')"), []string{at + "rule: Forbidden: estimated rule cost exceeds budget by factor of 2.5x" + advice}},
	} {
		code, answer := call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, ruled(c.rule))}}))
		require.Equal(t, 422, code)
		require.Equal(t, c.want, causes(answer))
	}

	// The last one is only too expensive by the prices of the documentation.
	srv = apitest.Config{Options: []kindwright.Option{kindwright.Kubernetes{ExpressionPrices: true}}}.New(t, crd.Kinds())
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, ruled(rule("self.color.matches('^[a-z]+$')")))}}))
}

func TestCEL_24_25_NewExpressionsUseTheLibrariesOfTheReleaseBefore(t *testing.T) {
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Kubernetes{EmulatedVersion: "1.34"}}}.New(t, crd.Kinds())
	for expression, code := range map[string]int{"isSemver('1.2.3')": 201, "[1].sort() == [1]": 422} {
		got, answer := call(t, srv, "POST", definitions+"?dryRun=All", changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, ruled(rule(expression)))}}))
		require.Equal(t, code, got, "%s: %v", expression, answer)
	}
}

// The metrics tell how long rules take to be compiled, and to be evaluated for each object.
func TestCEL_RulesAreTimed(t *testing.T) {
	// A compiled schema that nobody serves yet is kept until the next collection of garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	srv := start(t, crd.Kinds())
	counted := func(family string) (n int) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/metrics", nil)
		require.NoError(t, err)
		response, err := srv.Client().Do(r)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		found := regexp.MustCompile(`(?m)^` + family + `_count (\d+)$`).FindSubmatch(text)
		require.NotNil(t, found, family)
		require.Contains(t, string(text), family+`_bucket{le="0.005"} `)
		n, err = strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return n
	}
	const compiled, evaluated = "apiserver_cel_compilation_duration_seconds", "apiserver_cel_evaluation_duration_seconds"
	before := counted(compiled)
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, ruled(rule("self.size < 3")))}}))
	require.Equal(t, before+1, counted(compiled), "the engine serves what the request has compiled")
	before = counted(evaluated)
	for i, size := range []string{"1", "2", "3"} {
		code, answer := call(t, srv, "POST", "/apis/shop.example.com/v1/namespaces/default/shirts",
			`{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a`+size+`"},"spec":{"color":"red","size":`+size+`}}`)
		require.Equal(t, []int{201, 201, 422}[i], code, "%v", answer)
	}
	require.Equal(t, before+3, counted(evaluated))
}

// A rule below items of what is no list any more fails, as in Kubernetes. The list itself does not: it has
// not changed.
func TestCRD_14_RulesBelowItemsOfNoListFail(t *testing.T) {
	spec := func(typ string) map[string]any {
		items := object(map[string]any{"replicas": map[string]any{"type": "integer"}})
		items["x-kubernetes-validations"] = []any{rule("self.replicas <= 10")}
		return object(map[string]any{"spec": object(map[string]any{"backend": map[string]any{"type": typ, "maxItems": 100, "items": items}})})
	}
	srv := start(t, crd.Kinds())
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, spec("array"))}}))
	const path = "/apis/shop.example.com/v1/namespaces/default/shirts"
	code, answer := call(t, srv, "POST", path, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"},"spec":{"backend":[{"replicas":8}]}}`)
	require.Equal(t, 201, code, "%v", answer)
	code, answer = replace(t, srv, definitions+"/shirts.shop.example.com", func(now tree) {
		now["spec"].(tree)["versions"] = []any{version("v1", true, spec("object"))}
	})
	require.Equal(t, 200, code, "%v", answer)
	code, answer = replace(t, srv, path+"/a", func(now tree) { now["metadata"].(tree)["labels"] = tree{"key": "value"} })
	require.Equal(t, 422, code, "%v", answer)
	require.Contains(t, answer["message"], `spec.backend[0]: Invalid value: "object": rule compiler initialization error: failed to convert to declType for CEL validation rules`)
	code, answer = call(t, srv, "POST", path, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"b"},"spec":{"backend":[{"replicas":8}]}}`)
	require.Equal(t, 422, code, "%v", answer)
	require.Contains(t, answer["message"], `Invalid value: "array": spec.backend in body must be of type object: "array"`)
}

// Source: CRD-12. The causes are those of kube-apiserver 1.36.
func TestCRD_12_DefaultsFulfilTheRulesOfTheirSchema(t *testing.T) {
	const at = "spec.validation.openAPIV3Schema.properties[spec]"
	text := func(more ...any) tree { return rule("self == 'y'", more...) }
	ruledOf := func(schema tree, rules ...any) tree {
		schema["x-kubernetes-validations"] = rules
		return schema
	}
	withDefault := func(schema tree, value any) tree {
		schema["default"] = value
		return schema
	}
	ofType := func(name string) tree { return tree{"type": name} }
	a := func(schema tree) tree { return object(tree{"a": schema}) }
	number := func(rules ...any) tree { return a(ruledOf(withDefault(ofType("integer"), 5), rules...)) }
	list := withDefault(tree{"type": "array", "maxItems": 3, "items": ofType("string")}, []any{"a"})
	embedded := tree{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
	resource := tree{"apiVersion": "v1", "kind": "K", "metadata": tree{"name": "n"}}
	many := make([]any, 1000)
	for i := range many {
		many[i] = "x"
	}
	srv := start(t, crd.Kinds())
	for name, c := range map[string]struct {
		spec tree
		want []string
	}{
		"a scalar": {
			a(ruledOf(withDefault(ofType("string"), "x"), text())),
			[]string{at + `.properties[a].default: Invalid value: "x": failed rule: self == 'y'`},
		},
		"a reason": {
			number(rule("self > 7", "message", "too small", "reason", "FieldValueForbidden")),
			[]string{at + ".properties[a].default: Forbidden: too small"},
		},
		"a path": {
			ruledOf(withDefault(a(ofType("integer")), tree{"a": 1}), rule("self.a > 3", "fieldPath", ".a")),
			[]string{at + ".default.a: Invalid value: failed rule: self.a > 3"},
		},
		"a rule below": {
			withDefault(a(ruledOf(ofType("string"), text())), tree{"a": "x"}),
			[]string{at + `.default.a: Invalid value: "x": failed rule: self == 'y'`},
		},
		"a transition": {number(rule("self > oldSelf")), []string{at + ".properties[a].default: Invalid value: 5: failed rule: self > oldSelf"}},
		"a new value": {
			number(rule("oldSelf.hasValue()", "optionalOldSelf", true)),
			[]string{at + ".properties[a].default: Invalid value: 5: failed rule: oldSelf.hasValue()"},
		},
		"in items": {
			a(tree{"type": "array", "items": a(ruledOf(withDefault(ofType("string"), "x"), text()))}),
			[]string{at + `.properties[a].items.properties[a].default: Invalid value: "x": failed rule: self == 'y'`},
		},
		"a failure": {
			a(ruledOf(list, rule("self[2] == 'y'"))),
			[]string{at + `.properties[a].default: Invalid value: "array": index out of bounds: 2 evaluating rule: self[2] == 'y'`},
		},
		"an old value that no rule asks for": {
			number(rule("self > 1", "optionalOldSelf", false)),
			[]string{at + ".properties[a].x-kubernetes-validations[0].optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule"},
		},
		"an old value that is always there": {number(rule("self == 5 || self > oldSelf", "optionalOldSelf", false)), nil},
		"two rules": {number(rule("self > 7"), rule("self > 8")), []string{
			at + ".properties[a].default: Invalid value: 5: failed rule: self > 7",
			at + ".properties[a].default: Invalid value: 5: failed rule: self > 8",
		}},
		"a default in a default": {
			withDefault(a(ruledOf(withDefault(ofType("string"), "x"), text())), tree{}),
			[]string{at + `.properties[a].default: Invalid value: "x": failed rule: self == 'y'`},
		},
		"a default as it is written": {ruledOf(withDefault(a(withDefault(ofType("string"), "x")), tree{}), rule("!has(self.a)")), nil},
		"an embedded object": {
			a(ruledOf(withDefault(embedded, resource), rule("self.metadata.name == 'm'"))),
			[]string{at + ".properties[a].default: Invalid value: failed rule: self.metadata.name == 'm'"},
		},
		"around the default":    {ruledOf(a(withDefault(ofType("string"), "x")), rule("self.a == 'y'")), nil},
		"what fulfils the rule": {a(ruledOf(withDefault(ofType("string"), "y"), text())), nil},
	} {
		schema := object(tree{"spec": c.spec})
		code, answer := call(t, srv, "POST", definitions+"?dryRun=All", changed(t, shirts, tree{"spec/versions": []any{version("v1", true, schema)}}))
		require.Equal(t, c.want, causes(answer), name)
		require.Equal(t, c.want == nil, code == http.StatusCreated, name)
	}
	// A short document does not get a long answer.
	items := tree{"type": "array", "maxItems": 1000, "items": ruledOf(tree{"type": "string", "maxLength": 9}, text())}
	schema := object(tree{"spec": a(withDefault(items, many))})
	code, answer := call(t, srv, "POST", definitions, changed(t, shirts, tree{"spec/versions": []any{version("v1", true, schema)}}))
	require.Equal(t, 422, code)
	require.Len(t, causes(answer), 10)
}

// Expressions know no type for a node that says nothing about its values. Rules below it are accepted, and
// never run.
//
// Source: CRD-12. The causes are those of kube-apiserver 1.36.
func TestCRD_12_RulesOfUntypedNodesAreRefused(t *testing.T) {
	const problem = ".x-kubernetes-validations: Internal error: internal error: failed to construct type information" +
		" for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
	const spec = "spec.validation.openAPIV3Schema.properties[spec]"
	anything := func(more ...any) tree {
		out := tree{"x-kubernetes-preserve-unknown-fields": true}
		for i := 0; i < len(more); i += 2 {
			out[more[i].(string)] = more[i+1]
		}
		return out
	}
	number := tree{"type": "integer"}
	ruledNumber := tree{"type": "integer", "x-kubernetes-validations": []any{rule("self > 1")}}
	badNumber := tree{"type": "integer", "x-kubernetes-validations": []any{rule("self.nope")}}
	rules := []any{rule("true"), rule("self.nope ==")}
	srv := start(t, crd.Kinds())
	for name, c := range map[string]struct {
		spec tree
		want string
	}{
		"a field":         {anything("x-kubernetes-validations", rules), spec + problem},
		"a field below":   {object(tree{"a": anything("x-kubernetes-validations", rules)}), spec + ".properties[a]" + problem},
		"with properties": {anything("properties", tree{"b": number}, "x-kubernetes-validations", rules), spec + problem},
		"rules below":     {anything("properties", tree{"b": ruledNumber}), ""},
		"bad rules below": {anything("properties", tree{"b": badNumber}), "compilation failed"},
		"int or string":   {tree{"x-kubernetes-int-or-string": true, "x-kubernetes-validations": []any{rule("true")}}, ""},
	} {
		schema := object(tree{"spec": c.spec})
		code, answer := call(t, srv, "POST", definitions+"?dryRun=All", changed(t, shirts, tree{"spec/versions": []any{version("v1", true, schema)}}))
		if c.want == "" {
			require.Equal(t, http.StatusCreated, code, name)
			continue
		}
		require.Equal(t, http.StatusUnprocessableEntity, code, name)
		require.Len(t, causes(answer), 1, name)
		require.Contains(t, causes(answer)[0], c.want, name)
	}
}

// What else is wrong with a definition does not hide what is wrong with its rules. The rules of a schema are
// compiled unless that schema, or one below it, has another problem; none are as long as a default is wrong.
func TestCRD_12_RulesAreJudgedBesideOtherProblems(t *testing.T) {
	const at = "spec.validation.openAPIV3Schema.properties[spec].properties"
	srv := start(t, crd.Kinds())
	text := func(more map[string]any, rules ...any) map[string]any {
		more["type"], more["maxLength"], more["x-kubernetes-validations"] = "string", 3, rules
		return more
	}
	unique := map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{"type": "string"}}
	const refused = "[unique].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
	const malformed = "[b].x-kubernetes-validations[0].rule: Required value: rule is not specified"
	const mistyped = `[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.x","Message":"","MessageExpression":"","Reason":null,` +
		`"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection` +
		"\n | self.x\n | ....^"
	for name, c := range map[string]struct {
		spec map[string]any
		want []string
	}{
		"beside a malformed rule": {
			map[string]any{"a": text(map[string]any{}, rule("self.x")), "b": text(map[string]any{}, rule(" "))},
			[]string{malformed, mistyped},
		},
		"beside a keyword":   {map[string]any{"a": text(map[string]any{}, rule("self.x")), "unique": unique}, []string{refused, mistyped}},
		"in the same schema": {map[string]any{"b": text(map[string]any{}, rule(" "), rule("self.x"))}, []string{malformed}},
		"a default beside a malformed rule": {
			map[string]any{"a": text(map[string]any{"default": "x"}, rule("self == 'y'")), "b": text(map[string]any{}, rule(" "))},
			[]string{malformed, "[a].default: Invalid value: \"x\": failed rule: self == 'y'"},
		},
		"a default with a malformed rule": {
			map[string]any{"b": text(map[string]any{"default": "x"}, rule(" "), rule("self == 'y'"))},
			[]string{malformed, "[b].default: Invalid value: \"x\": failed rule: self == 'y'"},
		},
		"a default whose rule has a reason that there is not": {
			map[string]any{"a": text(map[string]any{"default": "x"}, rule("self == 'y'", "reason", "Other"))},
			[]string{
				`[a].x-kubernetes-validations[0].reason: Unsupported value: "Other": supported values: ` +
					`"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`,
				"[a].default: Invalid value: \"x\": failed rule: self == 'y'",
			},
		},
		"a default whose rule does not compile": {
			map[string]any{"a": text(map[string]any{"default": "x"}, rule("self.x"))},
			[]string{"[a].default: Invalid value: \"string\": rule compile error: compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection\n | self.x\n | ....^"},
		},
		"no rules beside a bad default": {
			map[string]any{"a": text(map[string]any{}, rule("self.x")), "c": map[string]any{"type": "integer", "default": 0, "minimum": 1}},
			[]string{"[c].default: Invalid value: 0:  in body should be greater than or equal to 1"},
		},
		"one default beside another": {
			map[string]any{"a": text(map[string]any{"default": "x"}, rule("self == 'y'")), "c": map[string]any{"type": "integer", "default": 0, "minimum": 1}},
			[]string{"[c].default: Invalid value: 0:  in body should be greater than or equal to 1", "[a].default: Invalid value: \"x\": failed rule: self == 'y'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			one := version("v1", true, object(map[string]any{"spec": object(c.spec)}))
			code, answer := call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{"spec/versions": []any{one}}))
			require.Equal(t, 422, code, answer)
			got := causes(answer)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], at, "")
			}
			require.ElementsMatch(t, c.want, got)
			for _, one := range answer["details"].(map[string]any)["causes"].([]any) {
				require.NotEqual(t, "Other", one.(map[string]any)["reason"])
			}
		})
	}
}
