package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModulesOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "modules.txt")
	require.NoError(t, os.WriteFile(file, []byte("# some\n\nexample.com/a@v1.0.0 # why\nexample.com/b/v2@v2.1.0\n"), 0o600))
	modules, err := modulesOf(file)
	require.NoError(t, err)
	require.Equal(t, []string{"example.com/a@v1.0.0", "example.com/b/v2@v2.1.0"}, modules)
	for _, bad := range []string{"example.com/a", "@v1.0.0", "example.com/a@"} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		_, err := modulesOf(file)
		require.ErrorContains(t, err, bad)
	}
	list, err := modulesOf(filepath.Join("..", "..", "..", "scripts", "crd-modules.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, list)
}

// A definition that is written once is not counted again, whatever its comments are.
func TestWrite(t *testing.T) {
	text := func(comment, group string) []byte {
		return []byte(comment + "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
			"metadata:\n  name: lamps.example.com\nspec:\n  group: " + group + "\n")
	}
	to := t.TempDir()
	for _, c := range []struct {
		text []byte
		new  int
	}{
		{text("", "example.com"), 1},
		{text("# again\n", "example.com"), 0},
		{text("", "other.example.com"), 1},
		{append(text("", "third.example.com"), "\n---\nkind: ConfigMap\nmetadata:\n  name: a\n"...), 1},
		{[]byte("kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata:\n  name: ../a\n"), 0},
		{[]byte("{{ if .Values.crds }}\nkind: CustomResourceDefinition\n{{ end }}"), 0},
	} {
		n, err := write(to, c.text)
		require.NoError(t, err)
		require.Equal(t, c.new, n, "%s", c.text)
	}
	files, err := os.ReadDir(to)
	require.NoError(t, err)
	require.Len(t, files, 3)
}
