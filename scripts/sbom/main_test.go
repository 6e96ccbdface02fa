package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test is itself a program with modules.
func TestTheModulesOfAProgramAreListed(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var first, second bytes.Buffer
	require.NoError(t, run([]string{self}, &first))
	require.NoError(t, run([]string{self}, &second))
	require.Equal(t, first.String(), second.String())

	var got bill
	require.NoError(t, json.Unmarshal(first.Bytes(), &got))
	require.Equal(t, "CycloneDX", got.Format)
	names := map[string]component{}
	for _, c := range got.Components {
		require.NotEmpty(t, c.Version, c.Name)
		names[c.Name] = c
	}
	require.Contains(t, names, "std")
	module := names["github.com/go-json-experiment/json"]
	require.Equal(t, "pkg:golang/github.com/go-json-experiment/json@"+module.Version, module.URL)
	require.Equal(t, "go:sum", module.Properties[0].Name)
}

func TestOtherFilesAreRefused(t *testing.T) {
	require.ErrorContains(t, run(nil, nil), "usage: sbom PROGRAM")
	require.Error(t, run([]string{"main.go"}, nil))
}
