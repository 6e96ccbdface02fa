package admission_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func mutator(f func(*admission.Request) (map[string]any, error)) admission.Mutator {
	return admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) { return f(r) })
}

func TestADM_24_MutatorsSeeWhatTheOneBeforeReturned(t *testing.T) {
	add := func(name string) admission.Plugin {
		return admission.Plugin{Name: name, Mutator: mutator(func(r *admission.Request) (map[string]any, error) {
			return map[string]any{"seen": r.Object["seen"].(string) + name}, nil
		})}
	}
	c, err := admission.NewChain(add("a"), add("b"))
	require.NoError(t, err)
	r := &admission.Request{Object: map[string]any{"seen": ""}}
	out, err := c.Mutate(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "ab", out["seen"])
	require.Empty(t, r.Object["seen"], "the caller's request keeps its own object")
}

func TestTheFirstErrorEndsTheChain(t *testing.T) {
	refused := errors.New("no")
	calls := 0
	c, err := admission.NewChain(
		admission.Plugin{Name: "a", Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { return refused })},
		admission.Plugin{Name: "b", Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { calls++; return nil })},
	)
	require.NoError(t, err)
	err = c.Validate(t.Context(), &admission.Request{})
	require.ErrorIs(t, err, refused)
	require.ErrorContains(t, err, `admission plugin "a"`, "the log should tell whose error it is")
	require.Zero(t, calls)
}

func TestX12_APanicOrNoAnswerIsARefusal(t *testing.T) {
	for name, p := range map[string]admission.Plugin{
		"mutator panics":   {Name: "p", Mutator: mutator(func(*admission.Request) (map[string]any, error) { panic("boom") })},
		"mutator is empty": {Name: "p", Mutator: mutator(func(*admission.Request) (map[string]any, error) { return nil, nil })},
		"validator panics": {Name: "p", Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { panic("boom") })},
	} {
		c, err := admission.NewChain(p)
		require.NoError(t, err)
		r := &admission.Request{Object: map[string]any{"a": "b"}}
		_, err = c.Mutate(t.Context(), r)
		if err == nil {
			err = c.Validate(t.Context(), r)
		}
		require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err), name)
		require.NotContains(t, err.Error(), "boom", name)
	}
}

func TestBadChainsAreRefused(t *testing.T) {
	ok := admission.Plugin{Name: "a", Mutator: mutator(func(r *admission.Request) (map[string]any, error) { return r.Object, nil })}
	for name, plugins := range map[string][]admission.Plugin{
		"no name":  {{Mutator: ok.Mutator}},
		"no sides": {{Name: "x"}},
		"twice":    {ok, ok},
	} {
		_, err := admission.NewChain(plugins...)
		require.Error(t, err, name)
	}
	var none *admission.Chain
	require.True(t, none.Empty())
}
