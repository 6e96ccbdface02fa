package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

type gauge struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            gaugeSpec `json:"spec"`
}

type gaugeSpec struct {
	_    struct{} `rule:"self.min <= self.max" message:"min must not be above max"`
	Min  int32    `json:"min"`
	Max  int32    `json:"max" maximum:"1000"`
	Unit string   `json:"unit,omitempty" rule:"self == oldSelf" message:"unit cannot be changed" maxLength:"10"`
}

func gauges() registry.Kind[gauge] {
	return registry.Kind[gauge]{Group: "example.dev", Version: "v1", Plural: "gauges", Names: registry.Names{Kind: "Gauge"}, Rules: registry.Rules[gauge]{
		Expressions: []openapi.Rule{{Rule: "self.metadata.name.startsWith('g')", MessageExpression: "'no g in ' + self.metadata.name"}},
	}}
}

func told(t *testing.T, err error) []string {
	t.Helper()
	var failed *status.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, meta.ReasonInvalid, failed.Status().Reason)
	var out []string
	for _, c := range failed.Status().Details.Causes {
		out = append(out, c.Field+": "+c.Message)
	}
	return out
}

// The same rules on a Go struct and on its schema document give the same causes.
func TestCEL_01_RulesOfGoKindsAndDocuments(t *testing.T) {
	document := described(t, `{"type":"object","required":["min","max"],"properties":{"min":{"type":"integer"},"max":{"type":"integer","maximum":1000},
		"unit":{"type":"string","maxLength":10,"x-kubernetes-validations":[{"rule":"self == oldSelf","message":"unit cannot be changed"}]}},
		"x-kubernetes-validations":[{"rule":"self.min <= self.max","message":"min must not be above max"}]}`)
	whole := *document.Schema
	whole.Rules = gauges().Rules.Expressions
	document.Schema, document.Plural, document.Names = &whole, "gauges", registry.Names{Kind: "Gauge"}
	made, err := gauges().Resource()
	require.NoError(t, err)
	for name, r := range map[string]*registry.Resource{"go": made, "document": document} {
		t.Run(name, func(t *testing.T) {
			e := start(t, memory.New(), nil)
			require.NoError(t, e.Install(t.Context(), r))
			at := registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "gauges"}, Namespace: "a"}
			_, err := e.Create(t.Context(), at, []byte(`{"metadata":{"name":"x"},"spec":{"min":2,"max":1}}`), registry.WriteOptions{})
			require.Equal(t, []string{
				"<nil>: Invalid value: no g in x",
				"spec: Invalid value: min must not be above max",
			}, told(t, err))
			_, err = e.Create(t.Context(), at, []byte(`{"metadata":{"name":"g"},"spec":{"min":2,"max":1,"unit":"01234567890"}}`), registry.WriteOptions{})
			require.Equal(t, []string{
				"spec.unit: Too long: may not be more than 10 characters",
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
			}, told(t, err))
			_, err = e.Create(t.Context(), at, []byte(`{"metadata":{"name":"g"},"spec":{"min":2,"max":true}}`), registry.WriteOptions{})
			require.Equal(t, "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
				told(t, err)[1], "a value of the wrong type")
			_, err = e.Create(t.Context(), at, []byte(`{"metadata":{"name":"g"},"spec":{"min":2,"max":1001}}`), registry.WriteOptions{})
			require.Equal(t, []string{"spec.max: Invalid value: 1001: spec.max in body should be less than or equal to 1000"}, told(t, err))

			_, err = e.Create(t.Context(), at, []byte(`{"metadata":{"name":"g"},"spec":{"min":1,"max":2,"unit":"kg"}}`), registry.WriteOptions{})
			require.NoError(t, err)
			at.Name = "g"
			_, err = e.Update(t.Context(), at, []byte(`{"metadata":{"name":"g"},"spec":{"min":1,"max":2,"unit":"lb"}}`), registry.WriteOptions{})
			require.Equal(t, []string{`spec.unit: Invalid value: "lb": unit cannot be changed`}, told(t, err))
		})
	}
}

func TestCRD_14_RulesOfTodayWarnAboutYesterday(t *testing.T) {
	before := described(t, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`)
	after := described(t, `{"type":"object","properties":{"a":{"type":"string","x-kubernetes-validations":[{"rule":"self != 'x'"}]},"b":{"type":"string"}}}`)
	e := fill(t, memory.New(), before, after, `{"a":"x","b":"1"}`)
	ctx, warnings := collected(t.Context())
	at := inA
	at.Name = "x"
	_, err := e.Update(ctx, at, []byte(`{"metadata":{"name":"x"},"spec":{"a":"x","b":"2"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{`spec.a: Invalid value: "x": failed rule: self != 'x'`}, warnings())
	_, err = e.Create(t.Context(), inA, []byte(`{"metadata":{"name":"y"},"spec":{"a":"x"}}`), registry.WriteOptions{})
	require.Equal(t, []string{`spec.a: Invalid value: "x": failed rule: self != 'x'`}, told(t, err))
}

func TestBadRulesFailTheInstallation(t *testing.T) {
	kind := gauges()
	kind.Rules.Expressions = []openapi.Rule{{Rule: "self.spec.limit > 0"}}
	r, err := kind.Resource()
	require.NoError(t, err)
	err = start(t, memory.New(), nil).Install(t.Context(), r)
	require.ErrorContains(t, err, "kind Gauge (example.dev/v1): rules: x-kubernetes-validations[0].rule")
	require.ErrorContains(t, err, "undefined field 'limit'")
}

type dial struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec dialSpec `json:"spec"`
}

type dialSpec struct {
	Turn int32 `json:"turn" rule:"self > 5" message:"turn it further"`
}

// The only rule of a kind may be at a field that has no other rule and no bounds.
func TestCEL_01_TheRuleOfOneField(t *testing.T) {
	dials := registry.Kind[dial]{Group: "example.dev", Version: "v1", Plural: "dials", Names: registry.Names{Kind: "Dial"}}
	e := start(t, memory.New(), nil)
	made, err := dials.Resource()
	require.NoError(t, err)
	require.NoError(t, e.Install(t.Context(), made))
	at := registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "dials"}, Namespace: "a"}
	_, err = e.Create(t.Context(), at, []byte(`{"metadata":{"name":"x"},"spec":{"turn":5}}`), registry.WriteOptions{})
	require.Equal(t, []string{"spec.turn: Invalid value: 5: turn it further"}, told(t, err))
	_, err = e.Create(t.Context(), at, []byte(`{"metadata":{"name":"x"},"spec":{"turn":6}}`), registry.WriteOptions{})
	require.NoError(t, err)
}
