package cel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
)

// transfer is an input of expressions.
type transfer struct {
	User   string         `json:"user"`
	Amount int64          `json:"amount"`
	At     time.Time      `json:"at"`
	From   account        `json:"from"`
	Claims map[string]any `json:"claims,omitempty"`
	Tags   []string       `json:"tags,omitempty"`
}

type account struct {
	Owner  string           `json:"owner"`
	Limits map[string]int64 `json:"limits,omitempty"`
}

func ExampleExpression() {
	rule, err := cel.NewExpression[transfer]("user == from.owner && amount <= from.limits['day'] || claims.?admin.orValue(false)", cel.Bool())
	if err != nil {
		panic(err)
	}
	input := transfer{User: "alice", Amount: 50, From: account{Owner: "alice", Limits: map[string]int64{"day": 100}}, Claims: map[string]any{}}
	fmt.Println(rule.Holds(context.Background(), input))
	input.Amount = 500
	fmt.Println(rule.Holds(context.Background(), input))
	input.Claims["admin"] = true
	fmt.Println(rule.Holds(context.Background(), input))
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
}

// TestC6_HiddenFields asks for what JSON does not show.
func TestC6_HiddenFields(t *testing.T) {
	type guarded struct {
		User     string `json:"user"`
		Password string `json:"-"`
		Untagged string
		internal string
	}
	for _, text := range []string{
		"Password", "password", "internal", "untagged", "self.Password", "user.Password", "dyn(user).Password", "this.Password",
	} {
		x, err := cel.NewExpression[guarded](text, cel.Dyn())
		if err != nil {
			continue
		}
		got, err := x.Evaluate(t.Context(), guarded{User: "alice", Password: "m4rker", internal: "m4rker"})
		require.Error(t, err, "%s is %v", text, got)
		require.NotContains(t, err.Error(), "m4rker")
	}
}

func TestCEL_01_ExpressionsAboutGoTypes(t *testing.T) {
	input := transfer{
		User: "alice", Amount: 7, At: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), From: account{Owner: "bob"},
		Claims: map[string]any{"groups": []any{"a"}}, Tags: []string{"x", "y"},
	}
	for text, want := range map[string]any{
		"amount + 1":                                    int64(8),
		"at.getFullYear()":                              int64(2020),
		"at + duration('1h')":                           "2020-01-02T04:04:05Z",
		"tags.exists(t, t == 'y')":                      true,
		"'a' in claims.groups":                          true,
		"from.?limits.hasValue()":                       false,
		"{'a': tags, 'b': [user]}":                      map[string]any{"a": []any{"x", "y"}, "b": []any{"alice"}},
		"quantity('1Gi').isGreaterThan(quantity('1k'))": true,
	} {
		x, err := cel.NewExpression[transfer](text)
		require.NoError(t, err, text)
		require.Equal(t, text, x.String())
		got, err := x.Evaluate(t.Context(), input)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"nope":       "undeclared reference to 'nope'",
		"from.nope":  "undefined field 'nope'",
		"user + 1":   "found no matching overload",
		"amount + 1": "must evaluate to bool but got int",
	} {
		_, err := cel.NewExpression[transfer](text, cel.Bool())
		require.ErrorContains(t, err, want, text)
	}
	x, err := cel.NewExpression[transfer]("claims.nope.deeper", cel.Dyn())
	require.NoError(t, err)
	_, err = x.Evaluate(t.Context(), input)
	require.ErrorContains(t, err, "no such key: nope")
	_, err = cel.NewExpression[int]("1 == 1")
	require.ErrorContains(t, err, "not a struct")

	input.Tags = strings.Split(strings.Repeat("t", 300), "")
	x, err = cel.NewExpression[transfer]("tags.all(a, tags.all(b, tags.all(c, a == b && b == c)))", cel.Bool())
	require.NoError(t, err)
	_, err = x.Holds(t.Context(), input)
	require.ErrorIs(t, err, cel.ErrBudget)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	_, err = x.Holds(ctx, input)
	require.ErrorIs(t, err, gone)
}

// An input that cannot be written as JSON is a mistake when the expression is made, not for each evaluation.
func TestCEL_01_InputsThatCannotBeWritten(t *testing.T) {
	type asked struct {
		User    string           `json:"user"`
		Request authz.Attributes `json:"request"`
	}
	_, err := cel.NewExpression[asked]("user == 'alice'", cel.Bool())
	require.ErrorContains(t, err, "expressions about cel_test.asked: ")
	require.ErrorContains(t, err, "request.Labels")

	byPointer, err := cel.NewExpression[*transfer]("true", cel.Bool())
	require.NoError(t, err)
	holds, err := byPointer.Holds(t.Context(), &transfer{})
	require.NoError(t, err)
	require.True(t, holds)

	var none cel.Expression[transfer]
	_, err = none.Holds(t.Context(), transfer{})
	require.ErrorContains(t, err, "not made by NewExpression")
	_, err = (*cel.Expression[transfer])(nil).Evaluate(t.Context(), transfer{})
	require.ErrorContains(t, err, "not made by NewExpression")
	require.Empty(t, none.String())
}
