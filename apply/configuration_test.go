package apply_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

func decoded(t *testing.T, document string) map[string]any {
	t.Helper()
	v, err := json.DecodeTree([]byte(document), json.TreeOptions{})
	require.NoError(t, err)
	return v.(map[string]any)
}

func TestPOL_05_Merge(t *testing.T) {
	s, problems := openapi.FromTree(decoded(t, `{"type":"object","properties":{
		"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
		"spec":{"type":"object","properties":{
			"replicas":{"type":"integer"},"none":{"type":"string","nullable":true},"args":{"type":"array","items":{"type":"string"}},
			"labels":{"type":"object","additionalProperties":{"type":"string"}},
			"selector":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}},
			"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
			"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"env":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
				"properties":{"name":{"type":"string"},"value":{"type":"string"},"args":{"type":"array","items":{"type":"string"}}}}}}}}}`))
	require.Empty(t, problems)
	fields, err := apply.New([]apply.Version{{APIVersion: "g.example.com/v1", Schema: s}}, nil)
	require.NoError(t, err)
	const head = `"apiVersion":"g.example.com/v1","kind":"K","metadata":{"name":"n","managedFields":[{"manager":"m"}]}`
	for _, c := range []struct{ name, object, part, want, problem string }{
		{name: "a field", object: `{"replicas":1,"args":["a"]}`, part: `{"replicas":2}`, want: `{"replicas":2,"args":["a"]}`},
		{name: "an item is added", object: `{"env":[{"name":"a","value":"1"}]}`, part: `{"env":[{"name":"b"}]}`, want: `{"env":[{"name":"a","value":"1"},{"name":"b"}]}`},
		{name: "an item is changed", object: `{"env":[{"name":"a","value":"1"},{"name":"b"}]}`, part: `{"env":[{"name":"b","value":"2"}]}`, want: `{"env":[{"name":"a","value":"1"},{"name":"b","value":"2"}]}`},
		{name: "a map", object: `{"labels":{"a":"1"}}`, part: `{"labels":{"b":"2"}}`, want: `{"labels":{"a":"1","b":"2"}}`},
		{name: "a set", object: `{"set":["a"]}`, part: `{"set":["a","b"]}`, want: `{"set":["a","b"]}`},
		{name: "what no schema describes", object: `{}`, part: `{"any":{"x":1}}`, want: `{"any":{"x":1}}`},
		{name: "duplicates stay", object: `{"env":[{"name":"a","value":"1"},{"name":"a","value":"2"}]}`, part: `{"replicas":2}`, want: `{"env":[{"name":"a","value":"1"},{"name":"a","value":"2"}],"replicas":2}`},
		{name: "an atomic map", part: `{"selector":{"a":"b"}}`, problem: "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector"},
		{name: "an atomic list in an item", part: `{"env":[{"name":"a","args":["b"]}]}`, problem: "may not mutate atomic arrays, maps or structs: .spec.env[0].args"},
		{name: "an unknown field", part: `{"replicasx":1}`, problem: "failed to convert patch object to typed object: .spec.replicasx: field not declared in schema"},
		{name: "unknown fields", part: `{"a":1,"env":[{"name":"a","b":1}]}`, problem: "failed to convert patch object to typed object: errors:\n  .spec.a: field not declared in schema\n  .spec.env[0].b: field not declared in schema"},
		{name: "another type", part: `{"replicas":"1"}`, problem: "failed to convert patch object to typed object: .spec.replicas: expected numeric"},
		{name: "null", part: `{"replicas":null}`, problem: "failed to convert patch object to typed object: .spec.replicas: expected numeric, got null"},
		{name: "null in a map", part: `{"labels":{"a":null}}`, problem: ".spec.labels.a: expected string, got null"},
		{name: "null in a list", part: `{"set":[null]}`, problem: ".spec.set[0]: expected string, got null"},
		{name: "null where it may be", object: `{"none":"a"}`, part: `{"none":null}`, want: `{"none":null}`},
		{name: "null without schema", object: `{}`, part: `{"any":{"x":null}}`, want: `{"any":{"x":null}}`},
		{name: "an item without key", part: `{"env":[{"value":"a"}]}`, problem: "name"},
	} {
		if c.object == "" {
			c.object = `{}`
		}
		object, before := decoded(t, `{`+head+`,"spec":`+c.object+`}`), decoded(t, `{`+head+`,"spec":`+c.object+`}`)
		got, err := fields.Merge(object, decoded(t, `{"spec":`+c.part+`}`))
		require.Equal(t, before, object, c.name)
		if c.problem != "" {
			require.ErrorContains(t, err, c.problem, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, decoded(t, `{`+head+`,"spec":`+c.want+`}`), got, c.name)
	}
	_, err = fields.Merge(map[string]any{"apiVersion": "g.example.com/v2"}, map[string]any{})
	require.ErrorContains(t, errors.Unwrap(err), "not served in version")
}
