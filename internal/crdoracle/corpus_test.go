package crdoracle

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

const objectsPerDefinition = 20

// Definitions that others wrote are accepted, and objects of their kinds are handled alike.
//
// Source: CRD-07.
func TestCorpus(t *testing.T) {
	if *corpus == "" {
		return
	}
	files, err := filepath.Glob(filepath.Join(*corpus, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var differences report
	accepted, schemas := 0, 0
	for i, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text, err := yaml.YAMLToJSON(data)
		require.NoError(t, err)
		c, err := readDefinition(text)
		if err != nil {
			continue // Go's decoder refuses it, as it refuses a request
		}
		if problems := validation.ValidateCustomResourceDefinition(context.Background(), c); len(problems) > 0 {
			continue
		}
		accepted++
		for _, v := range schemasOf(t, text) {
			schemas++
			compareKind(t, &differences, newGenerator(*seed, uint64(i)), filepath.Base(file), v)
		}
	}
	t.Logf("%d definitions, %d accepted, with %d schemas", len(files), accepted, schemas)
	differences.require(t)
}

// schemasOf returns the schema documents of a definition.
func schemasOf(t *testing.T, definition []byte) (out []map[string]any) {
	t.Helper()
	var c struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	require.NoError(t, json.Unmarshal(definition, &c))
	for _, v := range c.Spec.Versions {
		if v.Schema.OpenAPIV3Schema != nil {
			out = append(out, v.Schema.OpenAPIV3Schema)
		}
	}
	return out
}

// compareKind compares objects under one schema of a definition that Kubernetes accepts.
func compareKind(t *testing.T, differences *report, g generator, name string, document map[string]any) {
	t.Helper()
	text, err := json.Marshal(document)
	require.NoError(t, err)
	ours, problems, err := newKindwright(text)
	require.NoError(t, err)
	for _, c := range problems {
		differences.add("definition refused: "+shape(c.message), "%s: %s", name, c)
	}
	if len(problems) > 0 {
		return
	}
	props, err := propsOf(text)
	require.NoError(t, err)
	theirs, err := kubernetesOf(props)
	require.NoError(t, err)
	if document["properties"] == nil {
		return
	}
	for range objectsPerDefinition {
		compareObjects(t, differences, g, document, theirs, ours)
	}
}

func propsOf(document []byte) (*apiextensions.JSONSchemaProps, error) {
	c, err := definition(document)
	if err != nil {
		return nil, err
	}
	return c.Spec.Validation.OpenAPIV3Schema, nil
}
