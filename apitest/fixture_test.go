package apitest_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func files(texts map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range texts {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

var shop = map[string]string{
	"a/part.yml": `# a comment and nothing else
---
apiVersion: shop.example.com/v1
kind: Widget
metadata:
  name: leg
  namespace: team
  uid: 00000000-0000-0000-0000-000000000000
  resourceVersion: "17"
  ownerReferences:
  - {apiVersion: shop.example.com/v1, kind: Widget, name: chair}
---

`,
	"b.yaml": `apiVersion: v1
kind: List
items:
- {apiVersion: shop.example.com/v1, kind: Widget, metadata: {name: chair, namespace: team}, spec: {size: 3}, status: {phase: Ready}}
- {apiVersion: shop.example.com/v1, kind: Widget, metadata: {name: alone}}
`,
	"c.json":    `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`,
	"readme.md": "no object",
}

func TestLoadCreatesWhatIsInFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		srv.Load(files(shop))
		c := client.For(srv.Client(), Widgets)
		chair, err := c.Get(t.Context(), meta.Key{Namespace: "team", Name: "chair"})
		require.NoError(t, err)
		apitest.Equal(t, "{apiVersion: shop.example.com/v1, kind: Widget, metadata: {name: chair, namespace: team}, spec: {size: 3}, status: {phase: Ready}}", chair)
		leg, err := c.Get(t.Context(), meta.Key{Namespace: "team", Name: "leg"})
		require.NoError(t, err)
		require.Equal(t, chair.UID, leg.OwnerReferences[0].UID)
		_, err = c.Get(t.Context(), meta.Key{Namespace: "default", Name: "alone"})
		require.NoError(t, err)

		dump := srv.Dump()
		require.Contains(t, dump, "kind: Widget\nmetadata:\n  creationTimestamp: \"2000-01-01T00:00:00Z\"\n")
		require.NotContains(t, dump, "managedFields")
		require.Equal(t, 3, strings.Count(dump, "kind: Widget\nmetadata"))
		again := apitest.New(t, Widgets)
		again.Load(files(map[string]string{"dump.yaml": dump}))
		synctest.Wait()
		leg, err = client.For(again.Client(), Widgets).Get(t.Context(), leg.Key())
		require.NoError(t, err, "its owner is there")
		require.NoError(t, client.For(again.Client(), Widgets).Delete(t.Context(), chair.Key()))
		synctest.Wait()
		_, err = client.For(again.Client(), Widgets).Get(t.Context(), leg.Key())
		require.True(t, status.IsNotFound(err), "GC-01: and was its owner")
	})
}

func TestLoadSaysWhatIsWrongAndWhere(t *testing.T) {
	const head = "apiVersion: shop.example.com/v1\nkind: Widget\n"
	for _, c := range []struct{ text, want string }{
		{head + "metadata: {name: a}\n---\n" + head + "metadata: {name: a}\n", `a.yaml, document 2: widgets.shop.example.com "a" already exists`},
		{head + "metadata: {name: a}\nspec: {sise: 1}\n", `unknown field "spec.sise"`},
		{"apiVersion: v1\nkind: Pod\n", `a.yaml, document 1: kind "Pod" of apiVersion "v1" is not served`},
		{"- 1", "it is not an object"},
		{head, "the object has no metadata"},
		{"a: [", "a.yaml, document 1: yaml: "},
		{head + "metadata: {name: a, namespace: nowhere}", `namespaces "nowhere" not found`},
		{head + "metadata: {name: a, ownerReferences: [{apiVersion: shop.example.com/v1, kind: Widget, name: b}]}", `an owner: widgets.shop.example.com "b" not found`},
		{head + "metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Pod, name: b}]}", `an owner: kind "Pod"`},
	} {
		problems := within(t, func(s *scope) { apitest.New(s, Widgets).Load(files(map[string]string{"a.yaml": c.text})) })
		require.Contains(t, problems, "apitest: Load: ")
		require.Contains(t, problems, c.want)
	}
	require.Contains(t, within(t, func(s *scope) { apitest.New(s, Widgets).Load(files(nil)) }), "Load: the files have no object")
	require.Contains(t, within(t, func(s *scope) { apitest.New(s, Widgets).Load(nil) }), "Load: the file system is nil; give os.DirFS")
	problems := within(t, func(s *scope) { apitest.New(s, Widgets).Load(files(shop), "*.yaml", "*.toml") })
	require.Contains(t, problems, `"*.toml": no such file`)
}
