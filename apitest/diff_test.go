package apitest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
)

func TestADifferenceIsShownWithItsPath(t *testing.T) {
	const object = `
metadata: {name: a, namespace: default, labels: {app: shop, example.com/tier: "1"}}
spec:
  size: 3
  parts: [{name: x, count: 1}, {name: z1}]
`
	for _, c := range []struct{ name, want, got, diff string }{
		{"equal", object, `{"spec":{"parts":[{"count":1,"name":"x"},{"name":"z1"}],"size":3},"metadata":{"name":"a","namespace":"default","labels":{"app":"shop","example.com/tier":"1"}}}`, ""},
		{"a value", "spec: {size: 4}", "spec: {size: 3}", "  spec.size: want 4, got 3\n"},
		{"its type", `spec: {size: "3"}`, "spec: {size: 3}", "  spec.size: want \"3\", got 3\n"},
		{"missing", "spec: {size: 4}\nstatus: {phase: Ready}", "spec: {size: 4}", "  status: want {\"phase\":\"Ready\"}, got nothing\n"},
		{"not wanted", "spec: {}", "spec: {size: null}", "  spec.size: want nothing, got null\n"},
		{"in a list", "spec: {parts: [{name: x}, {name: z1}]}", "spec: {parts: [{name: z}, {name: z1}, 3]}", "  spec.parts[0].name: want \"x\", got \"z\"\n  spec.parts[2]: want nothing, got 3\n"},
		{"a key with dots", "metadata: {labels: {example.com/tier: a}}", "metadata: {labels: {example.com/tier: b}}", "  metadata.labels[example.com/tier]: want \"a\", got \"b\"\n"},
		{"all", "3", "4", "  all of it: want 3, got 4\n"},
		{"bookkeeping", "metadata: {name: a}", "metadata: {name: a, uid: u, resourceVersion: '7', generation: 2}", ""},
		{"wanted bookkeeping", "metadata: {name: a, generation: 1}", "metadata: {name: a, uid: u, generation: 2}", "  metadata.generation: want 1, got 2\n"},
		{"unreadable", "{", "", "  want is not a valid object: yaml: line 1: did not find expected node content\n"},
		{
			"long", "spec: {}", "spec: {text: 'this is a text that is longer than what has room in a line', more: {a: 1, b: 2, c: 3}}",
			"  spec.more: want nothing, got {\"a\":1,\"b\":2,\"c\":3}\n  spec.text: want nothing, got \"this is a text that is longer than what has room in a line\"\n",
		},
		{
			"longer", "a: 1", "a: {text: 'this is a text that is longer than what has room in a line', more: {a: 1, b: 2, c: 3}}",
			"  a: want 1, got \n        more:\n          a: 1\n          b: 2\n          c: 3\n        text: this is a text that is longer than what has room in a line\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.diff, apitest.Diff(c.want, c.got)) })
	}
}

func TestEqualComparesObjectsOfAServer(t *testing.T) {
	srv := apitest.New(t, Widgets)
	w, err := client.For(srv.Client(), Widgets).Create(t.Context(), widget("a"))
	require.NoError(t, err)
	require.True(t, apitest.Equal(t, "{apiVersion: shop.example.com/v1, kind: Widget, metadata: {name: a, namespace: default}}", w))
	w.Status.Phase = "Ready"
	s := &scope{}
	require.False(t, apitest.Equal(s, widget("b"), w))
	require.Contains(t, s.end(), "apitest: the object is not as it should be:\n  apiVersion: want nothing, got \"shop.example.com/v1\"\n")
	require.Contains(t, s.end(), "  metadata.name: want \"b\", got \"a\"\n  status: want nothing, got {\"phase\":\"Ready\"}\n")
}
