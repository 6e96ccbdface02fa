package crdoracle

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	server "github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

var mutations = flag.Int("mutations", 4, "number of changed copies of each definition of the corpus")

// plain is a definition that has a value for each field.
const plain = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"things.example.com","labels":{"a":"b"},"annotations":{"api-approved.kubernetes.io":"unapproved, a test"}},
"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList","shortNames":["th"],"categories":["all"]},
"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"a","name":"b","path":"/c","port":443}}}},
"versions":[{"name":"v1","served":true,"storage":true,"deprecated":true,"deprecationWarning":"no",
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n","labelSelectorPath":".status.s"}},
"additionalPrinterColumns":[{"name":"N","type":"integer","format":"int32","description":"d","priority":1,"jsonPath":".spec.n"}],
"selectableFields":[{"jsonPath":".spec.t"}],
"schema":{"openAPIV3Schema":{"type":"object","description":"d","properties":{
"spec":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":0,"default":1},"t":{"type":"string","maxLength":9,"enum":["a","b"],"default":"a"},
"l":{"type":"array","maxItems":3,"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string","maxLength":3},"v":{"x-kubernetes-int-or-string":true}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]},
"m":{"type":"object","additionalProperties":{"type":"string","format":"date-time","nullable":true}},
"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
"x-kubernetes-validations":[{"rule":"self.n >= 0","message":"m","reason":"FieldValueInvalid","fieldPath":".n"}]},
"status":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}}}}}}},
{"name":"v2","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// nullProperty matches a property whose schema is null: an empty schema to Kubernetes, and no property to us, as null is
// for every map of structs.
var nullProperty = regexp.MustCompile(`"properties":\{("[^"]*":null|[^{}]*,"[^"]*":null|.*\},"[^"]*":null)`)

// judge answers whether a definition is accepted, and otherwise why not. It is not stored.
type judge struct{ srv *apitest.Server }

func (j judge) problems(t *testing.T, method, target string, definition []byte) (code int, message string, causes []cause) {
	t.Helper()
	code, data := j.ask(t, method, target+"?dryRun=All", definition)
	var status struct {
		Message string
		Details struct {
			Causes []struct{ Reason, Message, Field string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &status), "%s", data)
	for _, c := range status.Details.Causes {
		causes = append(causes, cause{c.Reason, c.Field, c.Message})
	}
	return code, status.Message, causes
}

// ask sends a request below the definitions.
func (j judge) ask(t *testing.T, method, target string, body []byte) (code int, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, j.srv.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions"+target, bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := j.srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	answer, err = io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, answer
}

// Whole definitions are accepted or refused alike, and the same fields are named: those of the corpus, and changed
// copies of them.
//
// Source: CRD-01 to CRD-07.
func TestDefinitions(t *testing.T) {
	srv, texts := newJudge(t), definitionTexts(t)
	var differences report
	accepted, refused := 0, 0
	count := func(ok bool) {
		if ok {
			accepted++
		} else {
			refused++
		}
	}
	for _, text := range texts {
		count(compareDefinition(t, &differences, srv, text))
	}
	t.Logf("%d definitions, %d accepted, %d refused", len(texts), accepted, refused)
	accepted, refused = 0, 0
	for i, text := range slices.Concat(texts, slices.Repeat([][]byte{[]byte(plain)}, 200)) {
		g := newGenerator(*seed, uint64(i))
		for range *mutations {
			var tree map[string]any
			require.NoError(t, json.Unmarshal(text, &tree))
			for range 1 + g.IntN(3) {
				g.spoil(tree)
			}
			changed, err := json.Marshal(tree)
			require.NoError(t, err)
			count(compareDefinition(t, &differences, srv, changed))
		}
	}
	t.Logf("changed copies: %d accepted, %d refused", accepted, refused)
	differences.require(t)
}

func newJudge(t *testing.T) judge {
	t.Helper()
	return judge{apitest.Config{Options: []server.Option{server.Kubernetes{ExpressionPrices: true}}}.New(t, crd.Kinds())}
}

// definitionTexts returns the definitions of the corpus.
func definitionTexts(t *testing.T) (texts [][]byte) {
	t.Helper()
	if *corpus == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(*corpus, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text, err := yaml.YAMLToJSON(data)
		require.NoError(t, err)
		texts = append(texts, text)
	}
	return texts
}

// Changes of stored definitions are accepted or refused alike, and the same fields are named.
//
// Source: CRD-05, CRD-06, CRD-23.
func TestDefinitionUpdates(t *testing.T) {
	srv := newJudge(t)
	var differences report
	accepted, refused := 0, 0
	for i, text := range append(definitionTexts(t), slices.Repeat([][]byte{[]byte(plain)}, 20)...) {
		if c, err := newDefinition(text); err != nil || c.Name == "" {
			continue
		}
		code, answer := srv.ask(t, http.MethodPost, "", text)
		if code != http.StatusCreated {
			continue // TestDefinitions compares why
		}
		var tree map[string]any
		require.NoError(t, json.Unmarshal(answer, &tree))
		target := "/" + tree["metadata"].(map[string]any)["name"].(string)
		require.Eventually(t, func() bool {
			code, answer = srv.ask(t, http.MethodGet, target, nil)
			return code == http.StatusOK && bytes.Contains(answer, []byte(`"type":"Established"`)) // both conditions come at once
		}, time.Minute, time.Millisecond, "%s", target)
		g := newGenerator(*seed, uint64(i))
		for range *mutations {
			if compareUpdatedDefinition(t, &differences, srv, g, target, answer) {
				accepted++
			} else {
				refused++
			}
		}
		code, answer = srv.ask(t, http.MethodDelete, target, nil)
		require.Equal(t, http.StatusOK, code, "%s", answer)
		require.Eventually(t, func() bool {
			code, _ := srv.ask(t, http.MethodGet, target, nil)
			return code == http.StatusNotFound
		}, time.Minute, time.Millisecond)
	}
	t.Logf("updates: %d accepted, %d refused", accepted, refused)
	differences.require(t)
}

// compareUpdatedDefinition changes a stored definition, and reports whether Kubernetes accepts that.
func compareUpdatedDefinition(t *testing.T, differences *report, srv judge, g generator, target string, stored []byte) bool {
	t.Helper()
	var tree map[string]any
	require.NoError(t, json.Unmarshal(stored, &tree))
	metadata := tree["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	kept := maps.Clone(metadata)
	for range 1 + g.IntN(3) {
		g.spoil(tree)
	}
	for _, name := range []string{"name", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		tree["metadata"].(map[string]any)[name] = kept[name] // the server judges these for every kind
	}
	text, err := json.Marshal(tree)
	require.NoError(t, err)
	code, message, ours := srv.problems(t, http.MethodPut, target, text)

	old, err := readDefinition(stored)
	require.NoError(t, err)
	next, err := readDefinition(text)
	if err != nil {
		if code == http.StatusOK {
			differences.add("decoded", "%v: %s", err, head(text))
		}
		return false
	}
	next.Status = *old.Status.DeepCopy()
	for _, v := range next.Spec.Versions {
		if v.Storage {
			if !apiextensions.IsStoredVersion(next, v.Name) {
				next.Status.StoredVersions = append(next.Status.StoredVersions, v.Name)
			}
			break
		}
	}
	theirs, panicked := validated(func() field.ErrorList {
		return validation.ValidateCustomResourceDefinitionUpdate(context.Background(), next, old)
	})
	if panicked {
		return false
	}
	compareAnswers(differences, code, message, ours, theirs, text)
	return len(theirs) == 0
}

// compareDefinition reports whether Kubernetes accepts a definition.
func compareDefinition(t *testing.T, differences *report, srv judge, text []byte) bool {
	t.Helper()
	code, message, ours := srv.problems(t, http.MethodPost, "", text)
	c, err := newDefinition(text)
	if err != nil {
		if code == http.StatusCreated {
			differences.add("decoded", "%v: %s", err, head(text))
		}
		return false
	}
	theirs, panicked := validated(func() field.ErrorList { return validation.ValidateCustomResourceDefinition(context.Background(), c) })
	if panicked {
		return false // it panics where selectableFields stand beside a schema that is missing
	}
	compareAnswers(differences, code, message, ours, theirs, text)
	return len(theirs) == 0
}

// compareAnswers compares what both sides say about a definition: whether they accept it, and which fields they name.
func compareAnswers(differences *report, code int, message string, ours, theirs []cause, text []byte) {
	if nullProperty.Match(text) {
		return
	}
	ok := code < http.StatusBadRequest
	if ok != (len(theirs) == 0) {
		differences.add("accepted or not", "%d %s; theirs %v: %s", code, message, theirs, head(text))
		return
	}
	want, got := fieldsOf(theirs), fieldsOf(ours)
	if !ok && !slices.Equal(want, got) {
		differences.add("fields "+strings.Join(without(want, got), " ")+" | "+strings.Join(without(got, want), " "), "%v in place of %v: %s", ours, theirs, head(text))
	}
}

// newDefinition reads a definition without the status of the document, which a new one does not have.
func newDefinition(text []byte) (*apiextensions.CustomResourceDefinition, error) {
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	delete(tree, "status")
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return readDefinition(text)
}

// validated returns what Kubernetes has against a definition.
func validated(validate func() field.ErrorList) (problems []cause, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return kubernetesCauses(validate()), false
}

// fieldsOf returns the fields that causes name, each once.
func fieldsOf(causes []cause) []string {
	fields := map[string]bool{}
	for _, c := range causes {
		fields[bracketed.ReplaceAllString(c.field, ".$1")] = true
	}
	return slices.Sorted(maps.Keys(fields))
}

func without(all, others []string) (out []string) {
	for _, s := range all {
		if !slices.Contains(others, s) {
			out = append(out, s)
		}
	}
	return out
}

func head(text []byte) []byte { return text[:min(len(text), 1500)] }

// spoil changes one value somewhere below an object: takes it out, puts another value or that of another field in its
// place, or repeats an item of a list.
func (g generator) spoil(tree map[string]any) {
	spec, ok := tree["spec"].(map[string]any)
	if !ok || g.chance(5) {
		spec, ok = tree["metadata"].(map[string]any)
	}
	if !ok {
		return
	}
	var at any = spec
	for range 2 + g.IntN(12) {
		next := g.memberOf(at)
		switch next.(type) {
		case map[string]any, []any:
			at = next
		}
	}
	switch at := at.(type) {
	case map[string]any:
		name := pick(g, append(slices.Sorted(maps.Keys(at)), "name")...)
		switch g.IntN(4) {
		case 0:
			delete(at, name)
		case 1:
			at[g.keyword()] = g.oddValue()
		default:
			at[name] = g.oddValue()
		}
	case []any:
		i := g.IntN(len(at))
		if v := pick(g, at[g.IntN(len(at))], g.oddValue()); v != nil { // an item of null is empty to Kubernetes, and refused by us
			at[i] = v
		}
	}
}

// memberOf returns a member of an object or an item of a list, if there is one that is not empty.
func (g generator) memberOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			return notEmpty(v[pick(g, slices.Sorted(maps.Keys(v))...)])
		}
	case []any:
		if len(v) > 0 {
			return notEmpty(v[g.IntN(len(v))])
		}
	}
	return nil
}

func notEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

func (g generator) keyword() string {
	return pick(g, "type", "format", "default", "nullable", "items", "properties", "additionalProperties", "required", "enum", "pattern", "maxLength",
		"minimum", "maximum", "exclusiveMinimum", "multipleOf", "uniqueItems", "maxItems", "minProperties", "allOf", "anyOf", "oneOf", "not", "$ref", "title",
		"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-type",
		"x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations", "deprecated", "deprecationWarning", "selectableFields",
		"preserveUnknownFields", "conversion", "scope", "names", "group", "versions", "jsonPath", "priority", "subresources", "schema")
}

func (g generator) oddValue() any {
	return pick[any](g, "", "a", "A", "v1", "v2", "object", "array", "string", "integer", "number", "boolean", "null", "map", "set", "atomic", "granular", ".spec.n", ".spec.x[0]", "spec", ".metadata.name",
		"Cluster", "Namespaced", "None", "Webhook", "date", "date-time", "int-or-string", "ipv4", "example.com", "a.b.k8s.io", "things", "Thing", strings.Repeat("a", 70), "[a-", "^a$",
		true, false, int64(0), int64(1), int64(-1), 1.5, nil, []any{}, []any{"a"}, []any{"v1"}, []any{"a", "a"}, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "object"},
		map[string]any{"a": map[string]any{"type": "string"}}, []any{map[string]any{"rule": "self =="}}, []any{map[string]any{"jsonPath": ".spec.t"}}, []any{map[string]any{}})
}
