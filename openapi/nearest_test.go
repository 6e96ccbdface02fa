package openapi_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

// The addresses of Gateway API: what is wrong is said of the branch for the type of the address.
func TestValidate_TheNearestBranchSaysWhatIsWrong(t *testing.T) {
	ip := &openapi.Schema{Enum: []any{"IPAddress"}}
	s := field(t, openapi.Schema{
		Type: openapi.Object, Properties: []openapi.Property{
			{Name: "type", Schema: &openapi.Schema{Type: openapi.String}}, {Name: "value", Schema: &openapi.Schema{Type: openapi.String}},
		},
		OneOf: []*openapi.Schema{
			{Properties: []openapi.Property{{Name: "type", Schema: &openapi.Schema{Not: ip}}}},
			{Properties: []openapi.Property{
				{Name: "type", Schema: ip},
				{Name: "value", Schema: &openapi.Schema{AnyOf: []*openapi.Schema{{Format: "ipv4"}, {Format: "ipv6"}}}},
			}},
		},
	})
	require.Empty(t, s.Validate(tree(t, `{"v":{"type":"IPAddress","value":"1.2.3.4"}}`)))
	require.Equal(t, []string{
		`v: Invalid value: {"type":"IPAddress","value":"1.2.3.4:80"}: v in body must validate one and only one schema (oneOf)`,
		`v.value: Invalid value: "1.2.3.4:80": v.value in body must validate at least one schema (anyOf)`,
		`v.value: Invalid value: "1.2.3.4:80": v.value in body must be of type ipv4: "1.2.3.4:80"`,
	}, texts(s.Validate(tree(t, `{"v":{"type":"IPAddress","value":"1.2.3.4:80"}}`))))
}

// Branches in branches are judged many times. That is bounded as all work of a validation is.
func TestValidate_NestedBranchesAreExplainedOnce(t *testing.T) {
	s := openapi.Schema{Type: openapi.String, MinLength: number(9)}
	for range 20 {
		inner := s
		s = openapi.Schema{AnyOf: []*openapi.Schema{&inner, {Type: openapi.String, MinLength: number(8)}}}
	}
	s.Type = openapi.String
	errs := field(t, s).Validate(tree(t, `{"v":"short"}`))
	require.Equal(t, []string{
		`v: Invalid value: "short": v in body must validate at least one schema (anyOf)`,
		`v: Invalid value: "short": v in body should be at least 9 chars long`,
	}, texts(errs))
}

// A branch with a format of texts does not hold for a number, and one with another format holds for all. A
// format that nobody checks makes no branch the nearest.
func TestValidate_FormatsOfBranches(t *testing.T) {
	branches := func(of openapi.Schema, branches ...string) *openapi.Schema {
		document := map[string]any{"oneOf": []any{}}
		for _, b := range branches {
			document["oneOf"] = append(document["oneOf"].([]any), tree(t, b))
		}
		maps.Copy(document, tree(t, `{"x-kubernetes-preserve-unknown-fields":true}`))
		if of.Type != "" {
			document = map[string]any{"type": string(of.Type), "oneOf": document["oneOf"]}
		}
		s, problems := openapi.FromTree(map[string]any{"type": "object", "properties": map[string]any{"v": document}})
		require.Empty(t, problems)
		return s
	}
	for name, c := range map[string]struct {
		schema *openapi.Schema
		value  string
		want   []string
	}{
		"a number is no address":   {branches(openapi.Schema{}, `{"format":"email"}`, `{"maximum":5}`), `{"v":3}`, nil},
		"nor is an object":         {branches(openapi.Schema{}, `{"format":"email"}`, `{"maxProperties":5}`), `{"v":{}}`, nil},
		"a list may be one":        {branches(openapi.Schema{}, `{"format":"email"}`, `{"minItems":5}`), `{"v":[]}`, nil},
		"int32 is for no text":     {branches(openapi.Schema{}, `{"format":"int32"}`, `{"maximum":1}`), `{"v":3}`, nil},
		"every text is a password": {branches(openapi.Schema{}, `{"format":"password"}`, `{"maximum":5}`), `{"v":3}`, nil},
		"an unknown format is no reason": {
			branches(openapi.Schema{Type: openapi.String}, `{"maxLength":1}`, `{"format":"int32","enum":["b"]}`), `{"v":"abc"}`, []string{
				`v: Invalid value: "abc": v in body must validate one and only one schema (oneOf)`,
				`v: Too long: may not be more than 1 character`,
			},
		},
	} {
		got := texts(c.schema.Validate(tree(t, c.value)))
		require.Len(t, got, len(c.want), name)
		if len(c.want) > 0 {
			require.Equal(t, c.want, got, name)
		}
	}
}
