package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

// of is a document of another server with kites, whose definitions are given.
func of(definitions string) string {
	return `{"swagger":"2.0","info":{"title":"other","version":"1"},"parameters":{"pretty":{"name":"pretty","in":"query","type":"string","uniqueItems":true}},
	"paths":{"/healthz":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Unwanted"}}}}},
	"/apis/kites.dev/v10/kites":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Unwanted"}}}}},
	"/apis/kites.dev/v1/kites":{"post":{"operationId":"createKite","tags":["kites"],"consumes":["*/*"],"x-kubernetes-action":"post",
		"parameters":[{"$ref":"#/parameters/pretty"},{"name":"body","in":"body","required":true,"schema":{"$ref":"#/definitions/Kite"}}],
		"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Kite"}}}},
		"parameters":[{"name":"namespace","in":"path","required":true,"type":"string","uniqueItems":true}]}},
	"definitions":{"Unwanted":{"type":"object"},` + definitions + `}}`
}

const kite = `"Kite":{"type":"object","required":["tail"],"properties":{"tail":{"$ref":"#/definitions/Tail"},"next":{"$ref":"#/definitions/Kite"}},"x-kubernetes-group-version-kind":[{"group":"kites.dev","kind":"Kite","version":"v1"}]}`

func part(t testing.TB, definitions string) *openapi.SwaggerPart {
	t.Helper()
	p, err := openapi.ParseSwaggerPart([]byte(of(definitions)), "/apis/kites.dev/v1")
	require.NoError(t, err)
	return p
}

// merged is the document of servers with parts.
func merged(t testing.TB, parts ...*openapi.SwaggerPart) map[string]any {
	t.Helper()
	s := swagger(t)
	s.Others = parts
	data, err := s.JSON()
	require.NoError(t, err)
	all := tree(t, string(data))
	definitions := all["definitions"].(map[string]any)
	for _, text := range strings.Split(string(data), `"$ref":"`)[1:] {
		ref, _, _ := strings.Cut(text, `"`)
		name, ok := strings.CutPrefix(ref, "#/definitions/")
		require.True(t, ok, ref)
		require.Contains(t, definitions, name)
	}
	return all
}

func TestOAPI_01_PartsOfOtherServers(t *testing.T) {
	all := merged(t, part(t, kite+`,"Tail":{"type":"string"}`))
	paths, definitions := all["paths"].(map[string]any), all["definitions"].(map[string]any)
	require.Contains(t, paths, "/apis/kites.dev/v1/kites")
	require.NotContains(t, paths, "/apis/kites.dev/v10/kites", "it begins alike and is another version")
	require.NotContains(t, paths, "/healthz")
	require.Contains(t, definitions, "Kite")
	require.NotContains(t, definitions, "Unwanted", "nothing refers to it")
	text := fmt.Sprint(paths["/apis/kites.dev/v1/kites"])
	require.Contains(t, text, "pretty", "parameters by reference are written out")
	require.NotContains(t, text, "#/parameters")
}

// A definition with the name of another one gets a new one, and so does what refers to it.
func TestOAPI_01_DefinitionsThatClashAreRenamed(t *testing.T) {
	first, same := part(t, kite+`,"Tail":{"type":"string"}`), part(t, kite+`,"Tail":{"type":"string"}`)
	definitions := merged(t, first, same)["definitions"].(map[string]any)
	require.NotContains(t, definitions, "Kite_v2", "equal definitions are shared")

	other := part(t, kite+`,"Tail":{"type":"integer"}`)
	definitions = merged(t, first, other)["definitions"].(map[string]any)
	require.Equal(t, "string", definitions["Tail"].(map[string]any)["type"])
	require.Equal(t, "integer", definitions["Tail_v2"].(map[string]any)["type"])
	require.Contains(t, fmt.Sprint(definitions["Kite_v2"]), "#/definitions/Tail_v2")
	require.Contains(t, fmt.Sprint(definitions["Kite_v2"]), "#/definitions/Kite_v2")
	require.NotContains(t, fmt.Sprint(definitions["Kite"]), "_v2")

	// A name of this server stays with its definition, and one that looks like a new name is not taken.
	own := merged(t)["definitions"].(map[string]any)
	const listMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
	require.Contains(t, own, listMeta)
	third := part(t, strings.ReplaceAll(kite, "Tail", listMeta)+`,"`+listMeta+`":{"type":"integer"},"`+listMeta+`_v2":{"type":"boolean"}`)
	definitions = merged(t, third)["definitions"].(map[string]any)
	require.Equal(t, own[listMeta], definitions[listMeta])
	require.Equal(t, "integer", definitions[listMeta+"_v2"].(map[string]any)["type"])

	// A chain of definitions ends, however long it is.
	chain := func(end string) *openapi.SwaggerPart {
		text := `"Kite":{"$ref":"#/definitions/D0"}`
		for i := range 100 {
			text += fmt.Sprintf(`,"D%d":{"items":{"$ref":"#/definitions/D%d"}}`, i, i+1)
		}
		return part(t, text+`,"D100":{"type":"`+end+`"}`)
	}
	definitions = merged(t, chain("string"), chain("integer"))["definitions"].(map[string]any)
	require.Contains(t, definitions, "D0_v2")
	require.Equal(t, "integer", definitions["D100_v2"].(map[string]any)["type"])
}

// What another server says wrongly is left out, and does not make the document of all unreadable.
func TestOAPI_01_NonsenseOfOtherServersIsLeftOut(t *testing.T) {
	for _, text := range []string{
		`"Kite":5`,
		`"Kite":{"type":5,"properties":[],"items":"x","allOf":{},"enum":7,"required":[1],"maxLength":-1,"minimum":"a","format":{},"oneOf":[5],"$ref":"http://169.254.169.254/"}`,
		`"Kite":{"$ref":"#/definitions/Missing"}`,
		`"Kite":{"additionalProperties":7,"properties":{"a":5,"$ref":{"type":"string"},"default":{"type":"string"}}}`,
	} {
		all := merged(t, part(t, text))
		definition := fmt.Sprint(all["definitions"].(map[string]any)["Kite"])
		for _, bad := range []string{"169.254", "oneOf", "maxLength", "required", "minimum", "Missing"} {
			require.NotContains(t, definition, bad)
		}
	}
	for _, document := range []string{``, `[]`, `<html>`, `{"swagger":"3.0"}`, `{}`, `null`, `{"swagger":"2.0","swagger":"2.0"}`} {
		_, err := openapi.ParseSwaggerPart([]byte(document), "/apis/kites.dev/v1")
		require.Error(t, err, document)
	}
	for _, document := range []string{`{"swagger":"2.0"}`, `{"swagger":"2.0","paths":[],"definitions":5}`, `{"swagger":"2.0","paths":{"/apis/kites.dev/v1":7,"/apis/kites.dev/v1/a":{"get":7}}}`} {
		_, err := openapi.ParseSwaggerPart([]byte(document), "/apis/kites.dev/v1")
		require.NoError(t, err, document)
	}
	many := make([]string, 6000)
	for i := range many {
		many[i] = fmt.Sprintf(`"D%d":{"$ref":"#/definitions/D%d"}`, i, i+1)
	}
	_, err := openapi.ParseSwaggerPart([]byte(of(`"Kite":{"$ref":"#/definitions/D0"},`+strings.Join(many, ",")+`,"D6000":{}`)), "/apis/kites.dev/v1")
	require.ErrorContains(t, err, "too many")
}

// A document refers to a parameter with two words, and each place gets what the parameter says. So a
// document of 100 KB was a tree of a gigabyte.
func TestOAPI_WhatIsReferredToIsCountedEachTime(t *testing.T) {
	var properties []string
	for i := range 3000 {
		properties = append(properties, fmt.Sprintf(`"p%d":{}`, i))
	}
	for name, parameter := range map[string]string{
		"schema": `{"name":"a","in":"body","schema":{"properties":{` + strings.Join(properties, ",") + `}}}`,
		"text":   `{"name":"a","in":"query","description":"` + strings.Repeat("a", 60_000) + `"}`,
		"enum":   `{"name":"a","in":"body","schema":{"enum":[` + strings.Repeat("0,", 20_000) + `0]}}`,
	} {
		references := strings.Repeat(`{"$ref":"#/parameters/a"},`, 2500)
		_, err := openapi.ParseSwaggerPart([]byte(`{"swagger":"2.0","parameters":{"a":`+parameter+`},"paths":{"/apis/kites.dev/v1/kites":{"get":{"parameters":[`+
			references[:len(references)-1]+`]}}}}`), "/apis/kites.dev/v1")
		require.ErrorContains(t, err, "too much", name)
	}
	require.Positive(t, part(t, kite).Size())
	require.Zero(t, (*openapi.SwaggerPart)(nil).Size())
}
