package crd_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// gauge has rules for values of all forms.
type gauge struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            gaugeSpec `json:"spec"`
	Status          struct {
		Value int32 `json:"value,omitempty" rule:"self >= 0"`
	} `json:"status,omitzero"`
}

type gaugeSpec struct {
	_      struct{}          `rule:"self.min <= self.max" message:"min must not be above max"`
	Min    int32             `json:"min"`
	Max    int32             `json:"max"`
	Unit   string            `json:"unit,omitempty" maxLength:"10" rule:"self == oldSelf" message:"unit cannot be changed"`
	Ports  []gaugePort       `json:"ports,omitempty" list:"map,key=name" maxItems:"20"`
	Tags   []string          `json:"tags,omitempty" list:"set" maxItems:"10" rule:"self.all(t, t.size() < 5)"`
	Limits map[string]string `json:"limits,omitempty" maxProperties:"10" rule:"self.all(k, isQuantity(self[k]))"`
	Until  *meta.Time        `json:"until,omitempty" rule:"self > timestamp('2020-01-01T00:00:00Z')"`
	Wait   *meta.Duration    `json:"wait,omitempty" rule:"self < duration('1h')"`
	Blob   []byte            `json:"blob,omitempty" maxLength:"100" rule:"size(self) < 4"`
}

type gaugePort struct {
	_        struct{} `rule:"self.protocol != 'udp' || self.number > 1000" message:"udp ports are above 1000"`
	Name     string   `json:"name" maxLength:"20"`
	Number   int32    `json:"number" rule:"self == oldSelf || self % 2 == 0" message:"new numbers are even"`
	Protocol string   `json:"protocol,omitempty" default:"tcp" maxLength:"10"`
}

var gauges = registry.Kind[gauge]{
	Group: "lab.example.com", Version: "v1", Plural: "gauges", Names: registry.Names{Kind: "Gauge"},
	Rules: registry.Rules[gauge]{Expressions: []openapi.Rule{
		{Rule: "self.metadata.name.startsWith('g') || self.metadata.?generateName.orValue('') != ''", Message: "names begin with g", Reason: "FieldValueForbidden"},
		{Rule: "self.spec.max <= 100", MessageExpression: "'max is %d'.format([self.spec.max])", FieldPath: ".spec.max"},
		{Rule: "oldSelf.hasValue() || self.spec.min == 0", OptionalOldSelf: true, Message: "starts with 0"},
		{Rule: "!has(self.status) || !has(self.status.value) || self.status.value <= self.spec.max", Message: "value above max"},
	}},
}

// The same rules on a struct and on its definition give the same causes: on new objects, on what replaces others, and on a
// status, which the rules of the whole object judge too.
func TestCRD_12_CEL_01_RulesOfAStructAndOfItsDefinition(t *testing.T) {
	text, err := crd.From(gauges)
	require.NoError(t, err)
	inGo, defined := start(t, gauges), start(t, crd.Kinds())
	require.NoError(t, crd.Install(t.Context(), defined.API, fstest.MapFS{"gauges.yaml": {Data: text}}))

	const path = "/apis/lab.example.com/v1/namespaces/default/gauges"
	create := func(metadata, spec string) []string {
		return []string{"POST", path, `{"apiVersion":"lab.example.com/v1","kind":"Gauge","metadata":{` + metadata + `},"spec":{` + spec + `}}`}
	}
	patch := func(below, body string) []string { return []string{"PATCH", path + "/g" + below, body} }
	const name = `"name":"g2"`
	for _, c := range []struct {
		does []string
		want []string // nil: the write is accepted
	}{
		{create(`"name":"g"`, `"min":0,"max":10,"unit":"m","ports":[{"name":"a","number":3},{"name":"b","number":4}]`), nil},
		{create(`"generateName":"x-"`, `"min":0,"max":10`), nil},
		{create(`"name":"x"`, `"min":0,"max":10`), []string{"<nil>: Forbidden: names begin with g"}},
		{create(name, `"min":0,"max":-10`), []string{"spec: Invalid value: min must not be above max"}},
		{create(name, `"min":0,"max":1000`), []string{"spec.max: Invalid value: max is 1000"}},
		{create(name, `"min":1,"max":10`), []string{"<nil>: Invalid value: starts with 0"}},
		{create(name, `"min":0,"max":9,"ports":[{"name":"a","number":3,"protocol":"udp"}]`), []string{"spec.ports[0]: Invalid value: udp ports are above 1000"}},
		{create(name, `"min":0,"max":9,"tags":["abcdef"]`), []string{"spec.tags: Invalid value: failed rule: self.all(t, t.size() < 5)"}},
		{create(name, `"min":0,"max":9,"limits":{"a.b":"xx"}`), []string{"spec.limits: Invalid value: failed rule: self.all(k, isQuantity(self[k]))"}},
		{create(name, `"min":0,"max":9,"until":"2010-01-01T00:00:00Z"`), []string{`spec.until: Invalid value: "2010-01-01T00:00:00Z": failed rule: self > timestamp('2020-01-01T00:00:00Z')`}},
		{create(name, `"min":0,"max":9,"wait":"2h0m0s"`), []string{`spec.wait: Invalid value: "2h0m0s": failed rule: self < duration('1h')`}},
		{create(name, `"min":0,"max":9,"blob":"AAAAAAAA"`), []string{`spec.blob: Invalid value: "AAAAAAAA": failed rule: size(self) < 4`}},
		{create(name, `"max":1000`), []string{
			"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
			"spec.min: Required value",
		}},
		{patch("", `{"spec":{"unit":"s"}}`), []string{`spec.unit: Invalid value: "s": unit cannot be changed`}},
		{patch("", `{"spec":{"unit":null}}`), nil},
		{patch("", `{"spec":{"ports":[{"name":"b","number":7},{"name":"a","number":3}]}}`), []string{"spec.ports[0].number: Invalid value: 7: new numbers are even"}},
		{patch("", `{"spec":{"ports":[{"name":"c","number":7},{"name":"a","number":3}]}}`), nil},
		{patch("/status", `{"status":{"value":50}}`), []string{"<nil>: Invalid value: value above max"}},
		{patch("/status", `{"status":{"value":-1}}`), []string{"status.value: Invalid value: -1: failed rule: self >= 0"}},
		{patch("/status", `{"status":{"value":5}}`), nil},
		{patch("", `{"spec":{"max":3}}`), []string{"<nil>: Invalid value: value above max"}},
	} {
		for _, srv := range []*apitest.Server{inGo, defined} {
			contentType := map[string]string{"POST": "application/json", "PATCH": "application/merge-patch+json"}[c.does[0]]
			code, answer := sent(t, srv, c.does[0], c.does[1], contentType, c.does[2])
			if c.want == nil {
				require.Less(t, code, 300, "%v: %v", c.does, answer)
				continue
			}
			require.Equal(t, 422, code, "%v: %v", c.does, answer)
			require.ElementsMatch(t, c.want, causes(answer), "%v", c.does)
		}
	}
}
