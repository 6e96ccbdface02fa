package kube

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneIn is the part of all mutations that is compared. The name of a mutation decides.
const oneIn = 3

// mutations returns objects with one field changed, by what was changed.
func mutations(object map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	var walk func(value any, path []any)
	walk = func(value any, path []any) {
		for name, v := range mutants(value) {
			what := spelled(path) + " " + name
			h := fnv.New32a()
			_, _ = h.Write([]byte(what))
			if h.Sum32()%oneIn == 0 {
				out[what] = changed(object, path, v)
			}
		}
		switch value := value.(type) {
		case map[string]any:
			for name, v := range value {
				walk(v, append(slices.Clip(path), "."+name))
			}
		case []any:
			for i, v := range value {
				walk(v, append(slices.Clip(path), i))
			}
		}
	}
	for name, v := range object {
		if name != "apiVersion" && name != "kind" {
			walk(v, []any{"." + name})
		}
	}
	return out
}

// spelled returns a path as in errors.
func spelled(path []any) string {
	var b strings.Builder
	for _, step := range path {
		if i, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
		} else {
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

// gone is the value of a field that is removed.
type gone struct{}

// mutants returns other values for a field.
func mutants(value any) map[string]any {
	out := map[string]any{"removed": gone{}}
	switch value := value.(type) {
	case string:
		for _, s := range []string{"", "A_b", "-x", "a/b", ".", "..", "a b", "é", "1", "-1", "/../x", "*", "example.com/a:b", "0.5", "10000000000Gi", "0"} {
			out[fmt.Sprintf("is %q", s)] = s
		}
		out["is long"] = strings.Repeat("x", 260)
	case bool:
		out["is not"] = !value
	case float64:
		for _, n := range []float64{-1, 0, 1, 2, 101, 65535, 65536, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32} {
			out[fmt.Sprintf("is %.0f", n)] = n
		}
	case []any:
		out["is empty"] = []any{}
		if len(value) > 0 {
			out["is longer"] = append(slices.Clip(value), value[0])
		}
	case map[string]any:
		out["is empty"] = map[string]any{}
		if texts := slices.Collect(maps.Values(value)); !slices.ContainsFunc(texts, func(v any) bool { _, ok := v.(string); return !ok }) {
			longer := maps.Clone(value)
			longer["bad key!"] = "x"
			out["is longer"] = longer
		}
	}
	return out
}

// changed returns a copy with another value at a path.
func changed(value any, path []any, to any) map[string]any {
	var set func(value any, path []any) any
	set = func(value any, path []any) any {
		if len(path) == 0 {
			return to
		}
		switch step := path[0].(type) {
		case string:
			m := maps.Clone(value.(map[string]any))
			m[step[1:]] = set(m[step[1:]], path[1:])
			if m[step[1:]] == (gone{}) {
				delete(m, step[1:])
			}
			return m
		case int:
			l := slices.Clone(value.([]any))
			l[step] = set(l[step], path[1:])
			if l[step] == (gone{}) {
				l = slices.Delete(l, step, step+1)
			}
			return l
		}
		panic("no such step")
	}
	return set(value, path).(map[string]any)
}

// answeredOtherwise are the mutations that kube-apiserver answers otherwise: the beginning of the object's
// name and of the path, and why.
var answeredOtherwise = []struct{ object, path, why string }{
	{"batch/v1/Job", ".metadata", "kube-apiserver checks the labels that come from the name first"},
	{"v1/Service", ".spec.ports", "a dry run of kube-apiserver does not look whether a port is free, or in the range"},
	{"v1/Service", ".spec.clusterIP", "kube-apiserver asks for ports only if it can read the address"},
	{"v1/Service/fixed", "", "the address is beyond the range of the peer"},
	{"v1/Event", ".metadata.name", "kube-apiserver takes any name"},
	{"events.k8s.io/v1/Event", ".metadata.name", "kube-apiserver takes any name"},
	{"v1/LimitRange", ".metadata", "kube-apiserver stores one without a name, which cannot be read"},
	{"rbac.authorization.k8s.io/v1/ClusterRole/summed", ".aggregationRule", "kube-apiserver also names the selector as a whole"},
}

// Objects that nearly are as they should be are answered with the codes and fields of kube-apiserver.
func TestCREATE_MutatedObjectsAreAnsweredAsByKubernetes(t *testing.T) {
	s := serve(t, Options{})
	all := manifests(t, s, "testdata/objects.yaml")
	const file = "testdata/mutated.json"
	if *updateStored {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		out := map[string]map[string]string{}
		for _, m := range all {
			out[m.name] = map[string]string{}
			for what, object := range mutations(decoded(t, m)) {
				out[m.name][what] = verdict(t, p, m, object)
			}
		}
		require.NoError(t, os.WriteFile(file, []byte(pretty(t, out)), 0o644))
	}
	var want map[string]map[string]string
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want, len(all))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			objects := mutations(decoded(t, m))
			require.Len(t, want[m.name], len(objects))
			for _, what := range slices.Sorted(maps.Keys(objects)) {
				if slices.ContainsFunc(answeredOtherwise, func(d struct{ object, path, why string }) bool {
					return strings.HasPrefix(m.name, d.object) && strings.HasPrefix(what, d.path)
				}) {
					continue
				}
				got, want := verdict(t, s, m, objects[what]), want[m.name][what]
				if want == "400 BadRequest" && strings.HasPrefix(got, "422 Invalid, ") {
					continue // what kube-apiserver cannot decode; the program answers as it does, and the kinds alone name the field
				}
				if got != want {
					t.Errorf("%s\n  is answered %s\n  and not     %s", what, got, want)
				}
			}
		})
	}
}

func decoded(t *testing.T, m manifest) (object map[string]any) {
	require.NoError(t, json.Unmarshal([]byte(m.text), &object))
	return object
}

// verdict sends an object as a dry run, and returns the code and the fields of an error.
func verdict(t *testing.T, s *target, m manifest, object map[string]any) string {
	text, err := json.Marshal(object)
	require.NoError(t, err)
	return strings.Join(refusal(s.do(t, "POST", m.path+"?dryRun=All", string(text))), ", ")
}
