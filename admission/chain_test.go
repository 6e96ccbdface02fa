package admission_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func mutator(f func(*admission.Request) (map[string]any, error)) admission.Mutator {
	return admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) { return f(r) })
}

func TestADM_24_MutatorsSeeThePreviousResult(t *testing.T) {
	add := func(name string) admission.Plugin {
		return admission.Plugin{Name: name, Mutator: mutator(func(r *admission.Request) (map[string]any, error) {
			return map[string]any{"seen": r.Object["seen"].(string) + name}, nil
		})}
	}
	c, err := admission.NewChain(add("a"), add("b"))
	require.NoError(t, err)
	r := &admission.Request{Object: map[string]any{"seen": ""}}
	out, changed, err := c.Mutate(t.Context(), r)
	require.True(t, changed)
	require.NoError(t, err)
	require.Equal(t, "ab", out["seen"])
	require.Empty(t, r.Object["seen"], "the caller's request must not change")
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
	require.ErrorContains(t, err, `admission plugin "a"`, "the log names the plugin")
	require.Zero(t, calls)
}

func TestX12_APanicOrAMissingResultRejects(t *testing.T) {
	for name, p := range map[string]admission.Plugin{
		"mutator panics":   {Name: "p", Mutator: mutator(func(*admission.Request) (map[string]any, error) { panic("boom") })},
		"mutator is empty": {Name: "p", Mutator: mutator(func(*admission.Request) (map[string]any, error) { return nil, nil })},
		"validator panics": {Name: "p", Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { panic("boom") })},
	} {
		c, err := admission.NewChain(p)
		require.NoError(t, err)
		r := &admission.Request{Object: map[string]any{"a": "b"}}
		_, _, err = c.Mutate(t.Context(), r)
		if err == nil {
			err = c.Validate(t.Context(), r)
		}
		require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err), name)
		require.NotContains(t, err.Error(), "boom", name)
	}
}

type plug struct{}

func (*plug) Mutate(_ context.Context, r *admission.Request) (map[string]any, error) {
	return r.Object, nil
}
func (*plug) Validate(context.Context, *admission.Request) error { return nil }

func TestInvalidChainsAreRejected(t *testing.T) {
	ok := admission.Plugin{Name: "a", Mutator: &plug{}}
	for want, plugins := range map[string][]admission.Plugin{
		"plugin 1 has no name":    {ok, {Mutator: ok.Mutator}},
		`"x" neither mutates nor`: {{Name: "x"}},
		`"a" is given twice`:      {ok, ok},
		`"a" is given before "c", which its field After names`: {
			{Name: "a", Mutator: ok.Mutator, After: []string{"b", "c"}}, {Name: "d", Mutator: ok.Mutator}, {Name: "c", Mutator: ok.Mutator},
		},
		"mutator is a nil *admission":   {{Name: "x", Mutator: (*plug)(nil), Validator: &plug{}}},
		"validator is a nil *admission": {{Name: "x", Mutator: &plug{}, Validator: (*plug)(nil)}},
		"a nil admission.MutatorFunc":   {{Name: "x", Mutator: admission.MutatorFunc(nil)}},
		"a nil admission.ValidatorFunc": {{Name: "x", Validator: admission.ValidatorFunc(nil)}},
		`unknown operation "create"`:    {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Operations: []admission.Operation{"create"}}}}},
		`names the resource "pods/"`:    {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Resources: []string{"pods/"}}}}},
		`names the resource "/status"`:  {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Resources: []string{"/status"}}}}},
		`names the resource "Pod"`:      {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Resources: []string{"Pod"}}}}},
		`names the resource "**"`:       {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Resources: []string{"**"}}}}},
		`names the group "apps/v1"`:     {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Groups: []string{"apps/v1"}}}}},
		`names the resource "a/b/c"`:    {{Name: "x", Mutator: ok.Mutator, Rules: []admission.Rule{{Resources: []string{"a/b/c"}}}}},
	} {
		_, err := admission.NewChain(plugins...)
		require.ErrorContains(t, err, want)
	}
	var none *admission.Chain
	require.False(t, none.Mutates(admission.Target{}))
	require.False(t, none.Validates(admission.Target{}))
	require.NoError(t, none.Validate(t.Context(), &admission.Request{}))
	_, changed, err := none.Mutate(t.Context(), &admission.Request{})
	require.NoError(t, err)
	require.False(t, changed)
}

func TestADM_24_RulesSelectWrites(t *testing.T) {
	pods := meta.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments := meta.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	write := func(op admission.Operation, of meta.GroupVersionResource, sub string) admission.Target {
		return admission.Target{Operation: op, Resource: of, Subresource: sub, Namespace: "a"}
	}
	for _, c := range []struct {
		rule admission.Rule
		yes  []admission.Target
		no   []admission.Target
	}{
		{
			rule: admission.Rule{},
			yes:  []admission.Target{write("CREATE", pods, ""), write("CONNECT", pods, "exec"), write("DELETE", deployments, "")},
			no:   []admission.Target{write("READ", pods, "")},
		},
		{
			rule: admission.Rule{Operations: []admission.Operation{"DELETE"}, Groups: []string{""}, Resources: []string{"pods"}},
			yes:  []admission.Target{write("DELETE", pods, "")},
			no:   []admission.Target{write("UPDATE", pods, ""), write("DELETE", pods, "status"), write("DELETE", deployments, "")},
		},
		{
			rule: admission.Rule{Groups: []string{"*"}, Resources: []string{"*"}},
			yes:  []admission.Target{write("CREATE", pods, ""), write("CREATE", deployments, "")},
			no:   []admission.Target{write("UPDATE", pods, "status")},
		},
		{
			rule: admission.Rule{Resources: []string{"pods/*", "*/scale"}},
			yes:  []admission.Target{write("CONNECT", pods, "exec"), write("UPDATE", deployments, "scale")},
			no:   []admission.Target{write("CREATE", pods, ""), write("UPDATE", deployments, "status")},
		},
		{
			rule: admission.Rule{Groups: []string{"apps"}, Resources: []string{"*/*"}},
			yes:  []admission.Target{write("UPDATE", deployments, ""), write("UPDATE", deployments, "status")},
			no:   []admission.Target{write("CREATE", pods, "")},
		},
	} {
		chain, err := admission.NewChain(admission.Plugin{Name: "p", Rules: []admission.Rule{c.rule}, Validator: &plug{}})
		require.NoError(t, err)
		for _, target := range c.yes {
			require.True(t, chain.Validates(target), "%v %v", c.rule, target)
			require.False(t, chain.Mutates(target), "it does not mutate")
		}
		for _, target := range c.no {
			require.False(t, chain.Validates(target), "%v %v", c.rule, target)
		}
	}
}

// A plugin sees only the writes that its rules select and its function accepts.
func TestPluginsAreCalledForWhatTheyHandle(t *testing.T) {
	var calls []string
	record := func(name string) admission.Plugin {
		return admission.Plugin{
			Name: name,
			Mutator: mutator(func(r *admission.Request) (map[string]any, error) {
				calls = append(calls, name+" mutates")
				return r.Object, nil
			}),
			Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { calls = append(calls, name+" validates"); return nil }),
		}
	}
	all, deletions, inB := record("all"), record("deletions"), record("in b")
	deletions.Rules = []admission.Rule{{Operations: []admission.Operation{admission.Delete}}}
	inB.Handles = func(target admission.Target) bool { return target.Namespace == "b" }
	c, err := admission.NewChain(all, deletions, inB)
	require.NoError(t, err)
	pass := func(r *admission.Request) []string {
		calls = nil
		_, changed, err := c.Mutate(t.Context(), r)
		require.NoError(t, err)
		require.False(t, changed)
		require.NoError(t, c.Validate(t.Context(), r))
		return calls
	}
	require.Equal(t, []string{"all mutates", "all validates"}, pass(&admission.Request{Operation: admission.Create, Namespace: "a"}))
	require.Equal(t, []string{"all mutates", "deletions mutates", "in b mutates", "all validates", "deletions validates", "in b validates"},
		pass(&admission.Request{Operation: admission.Delete, Namespace: "b"}))
}

// selective is a plugin that is about objects of one name.
type selective struct {
	admission.Validator

	name string
}

func (s selective) Concerns(r *admission.Request) bool {
	if s.name == "panic" {
		panic("boom")
	}
	return r.Name == s.name
}

// A plugin that does not say which requests it is about has to see the objects of all that it handles.
func TestConcerns(t *testing.T) {
	allow := admission.ValidatorFunc(func(context.Context, *admission.Request) error { return nil })
	deletions := []admission.Rule{{Operations: []admission.Operation{admission.Delete}}}
	for _, c := range []struct {
		plugins []admission.Plugin
		want    bool
	}{
		{nil, false},
		{[]admission.Plugin{{Name: "one", Validator: selective{allow, "a"}}}, true},
		{[]admission.Plugin{{Name: "other", Validator: selective{allow, "b"}}}, false},
		{[]admission.Plugin{{Name: "other", Validator: selective{allow, "b"}}, {Name: "all", Validator: allow}}, true},
		{[]admission.Plugin{{Name: "deletions", Validator: allow, Rules: deletions}}, false},
		{[]admission.Plugin{{Name: "p", Validator: selective{allow, "panic"}}}, true},
		{[]admission.Plugin{{Name: "m", Mutator: &plug{}, Validator: selective{allow, "b"}}}, true},
	} {
		chain, err := admission.NewChain(c.plugins...)
		require.NoError(t, err)
		require.Equal(t, c.want, chain.Concerns(&admission.Request{Operation: admission.Update, Name: "a"}), "%+v", c.plugins)
	}
	require.False(t, (*admission.Chain)(nil).Concerns(&admission.Request{}))
}

// X12: a plugin that panics in Handles also rejects the write.
func TestX12_APanicInHandlesRejects(t *testing.T) {
	c, err := admission.NewChain(admission.Plugin{Name: "p", Handles: func(admission.Target) bool { panic("boom") }, Mutator: &plug{}, Validator: &plug{}})
	require.NoError(t, err)
	r := &admission.Request{Operation: admission.Create, Object: map[string]any{}}
	require.True(t, c.Mutates(r.Target()))
	require.True(t, c.Validates(r.Target()))
	_, _, err = c.Mutate(t.Context(), r)
	require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err))
	require.Equal(t, meta.ReasonInternalError, status.ReasonOf(c.Validate(t.Context(), r)))
}

// A deletion has no object, and a mutator cannot add one.
func TestMutatorsCannotChangeADeletion(t *testing.T) {
	c, err := admission.NewChain(admission.Plugin{Name: "p", Mutator: mutator(func(*admission.Request) (map[string]any, error) { return map[string]any{"made": "up"}, nil })})
	require.NoError(t, err)
	_, _, err = c.Mutate(t.Context(), &admission.Request{Operation: admission.Delete, OldObject: map[string]any{"a": "b"}})
	require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err))
	require.ErrorContains(t, errors.Unwrap(err), "returned an object for a write that has none")
}

// A plugin that returns after the request has ended rejects the write, whatever it returns.
func TestAPluginThatOutlivesTheRequestRejects(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := admission.NewChain(admission.Plugin{Name: "slow", Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { cancel(); return nil })})
	require.NoError(t, err)
	require.ErrorIs(t, c.Validate(ctx, &admission.Request{}), context.Canceled)
}

// A checked chain finds plugins that change their input. An unchecked chain trusts them.
func TestCheckedChainsFindPluginsThatChangeTheirInput(t *testing.T) {
	spoil := func(r *admission.Request) { r.Object["spoilt"] = true }
	spoilOld := func(r *admission.Request) { r.OldObject["metadata"].(map[string]any)["name"] = "evil" }
	for name, p := range map[string]admission.Plugin{
		"mutator, new":          {Mutator: mutator(func(r *admission.Request) (map[string]any, error) { spoil(r); return r.Object, nil })},
		"mutator, old":          {Mutator: mutator(func(r *admission.Request) (map[string]any, error) { spoilOld(r); return map[string]any{"a": "c"}, nil })},
		"mutator that refuses":  {Mutator: mutator(func(r *admission.Request) (map[string]any, error) { spoil(r); return nil, errors.New("no") })},
		"validator, new":        {Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error { spoil(r); return nil })},
		"validator, old":        {Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error { spoilOld(r); return nil })},
		"validator that panics": {Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error { spoil(r); panic("boom") })},
	} {
		p.Name = "spoiler"
		c, err := admission.NewChain(p)
		require.NoError(t, err)
		pass := func(c *admission.Chain) error {
			r := &admission.Request{Object: map[string]any{"a": "b"}, OldObject: map[string]any{"metadata": map[string]any{"name": "a"}}}
			if _, _, err := c.Mutate(t.Context(), r); err != nil {
				return err
			}
			return c.Validate(t.Context(), r)
		}
		err = pass(c.Checked())
		require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err), name)
		if name != "validator that panics" {
			require.ErrorContains(t, errors.Unwrap(err), `"spoiler" changed an object`, name)
		}
	}
	honest, err := admission.NewChain(admission.Plugin{Name: "honest", Mutator: mutator(func(r *admission.Request) (map[string]any, error) {
		return admission.Patched(r, admission.Set("c", "a"))
	})})
	require.NoError(t, err)
	got, changed, err := honest.Checked().Mutate(t.Context(), &admission.Request{Object: map[string]any{"a": "b"}})
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, map[string]any{"a": "c"}, got)
}

func TestRequestsKnowLabels(t *testing.T) {
	labelled := func(value any) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"k": value, "odd": int64(1)}}}
	}
	r := &admission.Request{Object: labelled("new"), OldObject: labelled("old"), Namespace: "a", Resource: meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
	now, before := r.Labels()
	require.Equal(t, meta.LabelSet{{Key: "k", Value: "new"}}, now)
	require.Equal(t, meta.LabelSet{{Key: "k", Value: "old"}}, before)
	of := func() meta.LabelSet {
		set, err := r.NamespaceLabels(t.Context())
		require.NoError(t, err)
		return set
	}
	require.Equal(t, now, of(), "a Namespace has its own labels")
	r.Object = nil
	require.Equal(t, before, of())
	r.Namespace = ""
	require.Nil(t, of())
	r.Namespace, r.Resource.Resource = "a", "pods"
	_, err := r.NamespaceLabels(t.Context())
	require.ErrorContains(t, err, "has no server")
	_, err = r.Convert(t.Context(), r.OldObject, meta.GroupVersionKind{Version: "v2", Kind: "Pod"})
	require.ErrorContains(t, err, "has no server")
}

// BenchmarkIdlePlugin measures what a plugin costs a write that it does not handle, in both passes.
func BenchmarkIdlePlugin(b *testing.B) {
	c, err := admission.NewChain(admission.Plugin{Name: "idle", Mutator: &plug{}, Validator: &plug{}, Rules: []admission.Rule{
		{Operations: []admission.Operation{admission.Create, admission.Update}, Groups: []string{"apps"}, Resources: []string{"deployments", "deployments/scale"}},
	}})
	require.NoError(b, err)
	target := admission.Target{Operation: admission.Create, Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "widgets"}, Namespace: "a"}
	b.ReportAllocs()
	for b.Loop() {
		if c.Mutates(target) || c.Validates(target) {
			b.Fatal("it handles the write")
		}
	}
}

func TestObserversSeeThePluginsThatHandleAWrite(t *testing.T) {
	refuse := admission.ValidatorFunc(func(context.Context, *admission.Request) error { return errors.New("no") })
	keep := admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) { return r.Object, nil })
	never := func(admission.Target) bool { return false }
	plain, err := admission.NewChain(
		admission.Plugin{Name: "keep", Mutator: keep}, admission.Plugin{Name: "refuse", Validator: refuse},
		admission.Plugin{Name: "idle", Mutator: keep, Validator: refuse, Handles: never})
	require.NoError(t, err)
	var heard []admission.Timing
	chain := plain.Timed(func(o admission.Timing) {
		require.GreaterOrEqual(t, o.Took, time.Duration(0))
		o.Took = 0
		heard = append(heard, o)
	})
	r := &admission.Request{Operation: admission.Create, Object: map[string]any{}}
	_, _, err = chain.Mutate(t.Context(), r)
	require.NoError(t, err)
	require.Error(t, chain.Validate(t.Context(), r))
	require.Equal(t, []admission.Timing{
		{Plugin: "keep", Operation: admission.Create},
		{Operation: admission.Create},
		{Plugin: "refuse", Validating: true, Operation: admission.Create, Rejected: true},
		{Validating: true, Operation: admission.Create, Rejected: true},
	}, heard)
	require.Nil(t, (*admission.Chain)(nil).Timed(nil))
}

// An object whose name is yet to be generated has the name in errors that kube-apiserver gives it.
func TestERR_17_RefusalsNameObjectsWithoutAName(t *testing.T) {
	pods := meta.GroupVersionResource{Version: "v1", Resource: "pods"}
	for _, c := range []struct {
		metadata map[string]any
		want     string
	}{
		{want: "a-", metadata: map[string]any{"generateName": "a-"}},
		{want: "a", metadata: map[string]any{"generateName": "b-", "name": "a"}},
		{want: "Unknown", metadata: map[string]any{}},
		{want: "Unknown"},
	} {
		r := &admission.Request{Resource: pods, Object: map[string]any{"metadata": c.metadata}}
		require.EqualError(t, admission.Denied(r, "no"), `pods "`+c.want+`" is forbidden: no`)
		r.Name = "n"
		require.EqualError(t, admission.Denied(r, "no"), `pods "n" is forbidden: no`)
	}
	require.EqualError(t, admission.Denied(&admission.Request{Resource: pods}, "no"), `pods "Unknown" is forbidden: no`)
}
