package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// Panel has fields of every type that expressions tell apart, and names that are none in the language.
type Panel struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec PanelSpec `json:"spec,omitzero"`
}

// PanelSpec is the desired state of a panel.
type PanelSpec struct {
	Dash      string            `json:"a-b,omitempty"`
	Dot       string            `json:"a.b,omitempty"`
	Slash     string            `json:"a/b,omitempty"`
	Two       string            `json:"a__b,omitempty"`
	Word      string            `json:"in,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Space     string            `json:"a b,omitempty"`
	Yes       bool              `json:"yes,omitempty"`
	Count     int64             `json:"count,omitempty"`
	Share     float64           `json:"share,omitempty"`
	Bytes     []byte            `json:"bytes,omitempty"`
	At        meta.Time         `json:"at,omitzero"`
	Wait      meta.Duration     `json:"wait,omitzero"`
	Port      NumberOrName      `json:"port,omitzero"`
	Inner     PanelInner        `json:"inner,omitzero"`
	Labels    map[string]string `json:"labels,omitempty"`
	Text      string            `json:"text,omitempty" maxLength:"20000"`
	Items     []int64           `json:"items,omitempty" maxItems:"1000"`
}

// PanelInner is an object in an object.
type PanelInner struct {
	X string `json:"x,omitempty"`
}

// NumberOrName is a number or a text.
type NumberOrName struct{ text string }

// OpenAPISchemaType says that it is written as a text in forms that know no unions.
func (NumberOrName) OpenAPISchemaType() []string { return []string{"string"} }

// OpenAPISchemaFormat says what it is.
func (NumberOrName) OpenAPISchemaFormat() string { return "int-or-string" }

// OpenAPIV3OneOfTypes says what it can be.
func (NumberOrName) OpenAPIV3OneOfTypes() []string { return []string{"integer", "string"} }

// MarshalJSON writes what was read.
func (n NumberOrName) MarshalJSON() ([]byte, error) { return []byte(n.text), nil }

// UnmarshalJSON reads a number or a text.
func (n *NumberOrName) UnmarshalJSON(text []byte) error { n.text = string(text); return nil }

func panels(rules ...openapi.Rule) registry.Kind[Panel] {
	return registry.Kind[Panel]{Group: group, Version: "v1", Plural: "panels", Rules: registry.Rules[Panel]{Expressions: rules}}
}

const panelPath = "/apis/shop.example.com/v1/namespaces/default/panels"

// panelRules say what the fields of one panel are. Each tells its requirement.
var panelRules = []openapi.Rule{
	{Rule: "self.spec.a__dash__b == '1'", Message: "CEL-13: a-b"},
	{Rule: "self.spec.a__dot__b == '1'", Message: "CEL-13: a.b"},
	{Rule: "self.spec.a__slash__b == '1'", Message: "CEL-13: a/b"},
	{Rule: "self.spec.a__underscores__b == '1'", Message: "CEL-13: a__b"},
	{Rule: "self.spec.__in__ == '1'", Message: "CEL-13: a word of the language"},
	{Rule: "self.spec.__namespace__ == '1'", Message: "CEL-13: a word that is reserved"},
	{Rule: "self.spec.inner.x == '1' && has(self.spec.inner.x)", Message: "CEL-14"},
	{Rule: "'k' in self.spec.labels && self.spec.labels['k'] == '1' && self.spec.labels.all(k, k == 'k')", Message: "CEL-15"},
	{Rule: "self.spec.yes", Message: "CEL-17: boolean"},
	{Rule: "self.spec.count == 9007199254740993 && type(self.spec.count) == int", Message: "CEL-17: integer"},
	{Rule: "self.spec.share / 2.0 == 0.25 && type(self.spec.share) == double", Message: "CEL-17: number"},
	{Rule: "self.spec.text.startsWith('x')", Message: "CEL-17: string"},
	{Rule: "self.spec.bytes == b'ab'", Message: "CEL-18: byte"},
	{Rule: "self.spec.at.getFullYear() == 2020", Message: "CEL-18: date-time"},
	{Rule: "self.spec.wait == duration('90s')", Message: "CEL-18: duration"},
	{Rule: "type(self.spec.port) == int ? self.spec.port == 80 : self.spec.port == 'http'", Message: "CEL-19"},
	{Rule: "self.spec.yes == oldSelf.spec.yes", Message: "CEL-03: oldSelf"},
}

func TestCEL_02_03_12_13_14_15_17_18_19_RulesSeeWhatIsSent(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const good = `{"metadata":{"name":%q},"spec":{"a-b":"1","a.b":"1","a/b":"1","a__b":"1","in":"1","namespace":"1","inner":{"x":"1"},"labels":{"k":"1"},
			"yes":true,"count":9007199254740993,"share":0.5,"text":"x","bytes":"YWI=","at":"2020-01-02T03:04:05Z","wait":"1m30s","port":%s}}`
		s.create(panelPath, fmt.Sprintf(good, "a", "80"))
		s.create(panelPath, fmt.Sprintf(good, "b", `"http"`))
		bad := s.do("POST", panelPath, `{"metadata":{"name":"c"},"spec":{"a-b":"2","a.b":"2","a/b":"2","a__b":"2","in":"2","namespace":"2","inner":{"x":"2"},"labels":{"l":"1"},
			"yes":false,"count":9007199254740992,"share":0.25,"text":"y","bytes":"YWM=","at":"2021-01-02T03:04:05Z","wait":"1m31s","port":"80"}}`).refused(422, "Invalid", "")
		var told []string
		causes, _ := bad.at("details", "causes").([]any)
		for _, c := range causes {
			text, _ := at(c, "message").(string)
			told = append(told, strings.TrimPrefix(text, "Invalid value: "))
		}
		var want []string
		for _, r := range panelRules[:len(panelRules)-1] { // a create has no old object
			want = append(want, r.Message)
		}
		require.Equal(t, want, told)
		s.do("PATCH", panelPath+"/a", `{"spec":{"yes":false}}`, "Content-Type", mergeType).refused(422, "Invalid", "CEL-03: oldSelf")
	}, kindwright.Serve(panels(panelRules...)))
	for rule, want := range map[string]string{
		"true; false":                    "Syntax error", // CEL-02
		"self.spec.yes self.spec.yes":    "Syntax error",
		"self.spec.count":                "must evaluate to a bool",
		"other":                          "undeclared reference to 'other'", // CEL-03
		"object.spec.yes":                "undeclared reference to 'object'",
		"self.spec.a b == '1'":           "Syntax error", // CEL-12
		"self.spec.`a b` == '1'":         "undefined field 'a b'",
		"self.spec.a__space__b == '1'":   "undefined field 'a__space__b'",
		"self.spec.a__b == '1'":          "undefined field 'a__b'", // CEL-13
		"self.spec.in == '1'":            "Syntax error",
		"self.spec.nothing == '1'":       "undefined field 'nothing'", // CEL-14
		"self.spec.inner['x'] == '1'":    "no matching overload",
		"self.spec.labels.k == 1":        "no matching overload", // CEL-15
		"self.spec.count == '1'":         "no matching overload", // CEL-17
		"self.spec.bytes == 'ab'":        "no matching overload", // CEL-18
		"self.spec.at == '2020'":         "no matching overload",
		"self.spec.wait.startsWith('9')": "no matching overload",
	} {
		_, err := kindwright.New(memory.New(), kindwright.Serve(panels(openapi.Rule{Rule: rule})))
		require.ErrorContains(t, err, "rules: x-kubernetes-validations[0].rule", rule)
		require.ErrorContains(t, err, want, rule)
	}
}

// An object has a budget for all its rules together, beside that of each evaluation.
func TestCEL_22_23_26_BudgetsOfRules(t *testing.T) {
	search := openapi.Rule{Rule: "self.spec.items.all(i, !self.spec.text.contains('aaaaaaaaaa'))"} // a tenth of the length for each item
	text := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"name":"p%d"},"spec":{"text":%q,"items":[0%s]}}`, n, strings.Repeat("x", n), strings.Repeat(",0", 999))
	}
	onEach(t, func(_ *testing.T, s *server) {
		s.create(panelPath, text(5_000))
		s.do("POST", panelPath, text(9_500)).refused(422, "Invalid", "running out of cost budget, no further validation rules will be run")
		s.do("POST", panelPath, text(12_000)).refused(422, "Invalid", "actual cost limit exceeded")
	}, kindwright.Serve(panels(slices.Repeat([]openapi.Rule{search}, 12)...)))
	onEach(t, func(_ *testing.T, s *server) {
		s.create(panelPath, text(9_500))
	}, kindwright.Serve(panels(search)))
	long := openapi.Rule{Rule: "false", Message: "short", MessageExpression: "self.spec.text"}
	onEach(t, func(t *testing.T, s *server) {
		require.Contains(t, s.do("POST", panelPath, text(5_120)).is(422).text("message"), strings.Repeat("x", 5_120))
		require.Contains(t, s.do("POST", panelPath, text(5_121)).refused(422, "Invalid", "short").text("message"), "short")
	}, kindwright.Serve(panels(long)))

	require.Equal(t, []int{1_000_000, 10_000_000, 10_000_000, 100_000_000, 5120, 10_000_000, 2_500_000}, []int{
		cel.RuleCostLimit, cel.ObjectCostLimit, cel.EstimatedRuleCostLimit, cel.EstimatedSchemaCostLimit, cel.MaxMessageBytes,
		cel.BindingCostLimit, cel.MatchConditionsCostLimit,
	})
}
