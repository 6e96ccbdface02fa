package cel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

func TestWithoutAContextNothingIsEvaluated(t *testing.T) {
	var none context.Context
	const says = "the context is nil: pass the one of the request, or context.Background()"
	e, err := cel.NewEnvironment(cel.Claims())
	require.NoError(t, err)
	p, err := e.Compile("claims.a == 'b'", cel.Bool())
	require.NoError(t, err)
	_, err = p.Evaluate(none, cel.Values{"claims": map[string]any{}})
	require.ErrorContains(t, err, says)
	_, err = p.Holds(none, cel.Values{"claims": map[string]any{}})
	require.ErrorContains(t, err, says)
	type input struct {
		A string `json:"a"`
	}
	x, err := cel.NewExpression[input]("a == ''", cel.Bool())
	require.NoError(t, err)
	_, err = x.Holds(none, input{})
	require.ErrorContains(t, err, says)

	schema, err := openapi.New(&openapi.Schema{Type: "object", Rules: []openapi.Rule{{Rule: "true"}}})
	require.NoError(t, err)
	rules, problems := cel.CompileRules(schema, cel.RuleOptions{})
	require.Empty(t, problems)
	for _, problems := range [][]status.FieldError{
		rules.Validate(none, map[string]any{}, nil, true, nil), rules.ValidateDefaults(none, map[string]any{"default": map[string]any{}}, nil),
	} {
		require.Len(t, problems, 1)
		require.Equal(t, says, problems[0].Detail)
	}
}
