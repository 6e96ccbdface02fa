package cel_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
)

// manyRules returns a schema with 20 rules like those of public definitions, and an object of 4 KiB.
func manyRules(t testing.TB) (*openapi.Schema, map[string]any) {
	bounded := func() *openapi.Schema { return &openapi.Schema{Type: openapi.String, MaxLength: ptr[int64](256)} }
	route := with(object("name", bounded(), "path", bounded(), "weight", &openapi.Schema{Type: openapi.Integer}),
		must("self.weight >= 0"), openapi.Rule{Rule: "!has(self.path) || self.path.startsWith('/')", Message: "path must start with a slash"})
	routes := list(openapi.ListMap, route, "name")
	routes.MaxItems = ptr[int64](16)
	spec := object("replicas", &openapi.Schema{Type: openapi.Integer}, "min", &openapi.Schema{Type: openapi.Integer}, "max", &openapi.Schema{Type: openapi.Integer},
		"class", bounded(), "host", bounded(), "routes", routes, "notes", mapOf(bounded()))
	spec.Properties[6].Schema.MaxProperties = ptr[int64](32)
	with(spec, must("self.min <= self.max"), must("self.replicas >= self.min && self.replicas <= self.max"), must("self.class == oldSelf.class"),
		must("self.host.size() > 0"), must("!has(self.notes) || self.notes.size() < 100"), must("self.routes.size() > 0"), must("self.class in ['a', 'b', 'c']"),
		must("self.host.matches('^[a-z0-9.-]+$')"), must("has(self.max) ? self.max < 1000 : true"), must("self.host != 'localhost' || self.class == 'a'"))
	object := map[string]any{
		"replicas": int64(3), "min": int64(1), "max": int64(5), "class": "a", "host": "www.example.com", "notes": m{},
	}
	var items []any
	for i := range 5 {
		items = append(items, m{"name": fmt.Sprint("route", i), "path": "/" + strings.Repeat("p", 200), "weight": int64(i)})
	}
	object["routes"] = items
	for i := range 12 {
		object["notes"].(m)[fmt.Sprint("note", i)] = strings.Repeat("n", 200)
	}
	return kind(t, spec), tree(object)
}

var definition = flag.String("definition", "", "a definition of custom resources, in YAML, whose rules are compiled")

// versionsOf returns the schemas of a definition in a file, or one with 20 rules without a file.
func versionsOf(b *testing.B, file string) (out []*openapi.Schema) {
	if file == "" {
		schema, _ := manyRules(b)
		return []*openapi.Schema{schema}
	}
	document, err := os.ReadFile(file)
	require.NoError(b, err)
	text, err := yaml.ToJSON(document, 32<<20)
	require.NoError(b, err)
	v, err := json.DecodeTree(text, json.TreeOptions{})
	require.NoError(b, err)
	for _, version := range v.(m)["spec"].(m)["versions"].([]any) {
		schema, problems := openapi.FromTree(version.(m)["schema"].(m)["openAPIV3Schema"].(m))
		require.Empty(b, problems)
		out = append(out, schema)
	}
	return out
}

// BenchmarkCompileDefinition compiles the rules of all versions of a definition, with Kubernetes' prices.
func BenchmarkCompileDefinition(b *testing.B) {
	schemas := versionsOf(b, *definition)
	b.ReportAllocs()
	for b.Loop() {
		compiled := new(cel.Compiled)
		for _, schema := range schemas {
			_, problems := cel.CompileRules(schema, cel.RuleOptions{Prices: cel.KubernetesPrices(), Compiled: compiled})
			require.Empty(b, problems)
		}
	}
}

func BenchmarkCompileRules(b *testing.B) {
	schema, _ := manyRules(b)
	b.ReportAllocs()
	for b.Loop() {
		_, problems := cel.CompileRules(schema, cel.RuleOptions{})
		require.Empty(b, problems)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/12, "µs/rule")
}

// BenchmarkValidateRules evaluates 20 rules: ten once, and two for each of five items.
func BenchmarkValidateRules(b *testing.B) {
	schema, object := manyRules(b)
	rules, problems := cel.CompileRules(schema, cel.RuleOptions{Compiled: new(cel.Compiled)})
	require.Empty(b, problems)
	var sum time.Duration
	timed, problems := cel.CompileRules(schema, cel.RuleOptions{Compiled: cel.NewCompiled(cel.Timing{Evaluated: func(took time.Duration) { sum += took }})})
	require.Empty(b, problems)
	b.Run("timed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if problems := timed.Validate(b.Context(), object, object, true, nil); len(problems) > 0 {
				b.Fatal(problems)
			}
		}
	})
	for name, sound := range map[string]bool{"bounded": true, "counted": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if problems := rules.Validate(b.Context(), object, object, sound, nil); len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
}
