package crd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

func TestInstallWaitsUntilTheKindsAreServed(t *testing.T) {
	srv := start(t, crd.Kinds())
	files := fstest.MapFS{"shirts.yaml": {Data: []byte(shirts)}, "readme.md": {Data: []byte("not YAML")}}
	const objects = "/apis/shop.example.com/v1/namespaces/default/shirts"
	for i := range 30 {
		color := fmt.Sprintf("color%d", i)
		files["shirts.yaml"].Data = []byte(strings.Replace(shirts, "white", color, 1))
		require.NoError(t, crd.Install(t.Context(), srv.API, files))
		code, answer := call(t, srv, "POST", objects, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"generateName":"a"},"spec":{}}`)
		require.Equal(t, 201, code, "%v", answer)
		require.Equal(t, map[string]any{"color": color}, answer["spec"], "what is served is what was installed last")
		require.NoError(t, crd.Install(t.Context(), srv.API, files), "the same again")
	}
}

func TestInstallReportsNamesThatBelongToOthers(t *testing.T) {
	srv := start(t, crd.Kinds())
	files := fstest.MapFS{
		"a.yaml": {Data: []byte(shirts)},
		"b.yaml": {Data: []byte(strings.NewReplacer("shirts", "blouses", `"sh"`, `"bl"`).Replace(shirts))},
	}
	err := crd.Install(t.Context(), srv.API, files)
	require.ErrorContains(t, err, `b.yaml, document 1: the names are not accepted: `)
	require.ErrorContains(t, err, `"ShirtList" is already in use`)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, crd.Install(ctx, srv.API, files))
	require.ErrorContains(t, crd.Install(t.Context(), apitest.New(t).API, files), "see crd.Kinds")
}

// Real definitions of operators are installed together.
func TestInstallTakesDefinitionsOfOperators(t *testing.T) {
	folders, err := filepath.Glob("../../examples/*/crd")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.NoError(t, crd.Install(t.Context(), start(t, crd.Kinds()).API, os.DirFS(folder)))
	}
}
