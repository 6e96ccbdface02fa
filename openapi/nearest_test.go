package openapi_test

import (
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
