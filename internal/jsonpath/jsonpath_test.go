package jsonpath

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	kjson "github.com/kindwright/kindwright/internal/json"

	"github.com/kindwright/kindwright/internal/effort"
)

// answers are what client-go says about paths; internal/interop records them.
type answers struct {
	Object json.RawMessage `json:"object"`
	Paths  []answer        `json:"paths"`
}

type answer struct {
	Path   string `json:"path"`
	Bad    bool   `json:"bad,omitempty"`    // it is not a path
	Failed bool   `json:"failed,omitempty"` // it cannot be evaluated
	Found  []any  `json:"found,omitempty"`
}

func tree(t testing.TB, text string) any {
	t.Helper()
	v, err := kjson.DecodeTree([]byte(text), kjson.TreeOptions{})
	require.NoError(t, err)
	return v
}

func TestCRD_18_PathsSelectWhatTheySelectInKubernetes(t *testing.T) {
	data, err := os.ReadFile("testdata/answers.json")
	require.NoError(t, err)
	var all answers
	require.NoError(t, json.Unmarshal(data, &all))
	object := tree(t, string(all.Object))
	for _, want := range all.Paths {
		got := answer{Path: want.Path}
		p, err := Parse(want.Path)
		got.Bad = err != nil
		if err == nil {
			found, err := p.Find(object)
			got.Failed = err != nil
			got.Found = plainly(t, found)

			fields, rest := p.Split(2)
			within := object
			for _, name := range fields {
				m, _ := within.(map[string]any)
				within = m[name]
			}
			again, err := rest.Find(within)
			if err != nil || within == nil {
				again = nil
			}
			if within != nil || len(found) > 0 && found[0] != nil {
				require.Equal(t, plainly(t, found), plainly(t, again), "%s, in two steps", want.Path)
			}
		}
		require.Equal(t, want, got)
	}
}

// plainly returns values as encoding/json decodes them.
func plainly(t testing.TB, values []any) (out []any) {
	t.Helper()
	data, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &out))
	if len(out) == 0 {
		return nil
	}
	return out
}

func TestPlainPathsAreFields(t *testing.T) {
	for text, want := range map[string][]string{
		".spec.replicas":                          {"spec", "replicas"},
		"{.spec.replicas}":                        {"spec", "replicas"},
		"$.spec":                                  {"spec"},
		`.metadata.labels.example\.com/tier`:      {"metadata", "labels", "example.com/tier"},
		`.metadata.labels['example\.com/tier']`:   {"metadata", "labels", "example.com/tier"},
		`.metadata['annotations']['example.com']`: {"metadata", "annotations", "example", "com"},
		".spec.items[0]":                          nil,
		".spec.*":                                 nil,
		"..name":                                  nil,
		".a} and {.b":                             nil,
		"":                                        nil,
	} {
		p, err := Parse(text)
		require.NoError(t, err, text)
		fields, ok := p.Plain()
		require.Equal(t, want != nil, ok, text)
		if !ok {
			continue
		}
		require.Equal(t, want, fields, text)
		first, _ := p.Split(1)
		require.Equal(t, want[:1], first, text)
	}
}

// A path is no longer than its document, and neither stack nor memory grows with it.
func TestLongPathsAreParsed(t *testing.T) {
	const many = 1 << 16
	for _, unit := range []string{".a", "['a']", "[0]", "[?(@.a)]", "[0,1]", " ", "..a", `"x"`, "1 ", "x "} {
		_, err := Parse(strings.Repeat(unit, many))
		require.NoError(t, err, unit)
	}
	deep := "x"
	for range 12 {
		deep = `a"[?(` + strings.ReplaceAll(deep, `"`, `\"`) + `)]"`
	}
	_, err := Parse(deep)
	require.Error(t, err)
}

// A short path can multiply what it is given. An evaluation stops in time.
func TestEvaluationsAreBounded(t *testing.T) {
	deep := tree(t, strings.Repeat("[", 100)+"1"+strings.Repeat("]", 100))
	wide := map[string]any{"a": slices.Repeat([]any{deep}, 1<<12)}
	for text, object := range map[string]any{
		strings.Repeat("[:,:,:,:]", 10):                            deep,
		strings.Repeat("..[*]", 5):                                 deep,
		".a[?(@" + "[" + strings.Repeat("*,", 1<<12) + "*]" + ")]": wide,
		".a[" + strings.Repeat("*,", 1<<12) + "*]":                 wide,
	} {
		p, err := Parse(text)
		require.NoError(t, err)
		_, err = p.Find(object)
		require.ErrorIs(t, err, errTooMuch, text)
	}
	million := slices.Repeat([]any{map[string]any{"type": "Ready", "n": int64(1)}}, effort.Of(1_000_000))
	for text, want := range map[string]int{
		"[*].n": len(million), `[?(@.type=="Ready")].n`: len(million), "[-1].n": 1, "[::1000].n": effort.Of(1000), "..n": len(million),
	} {
		p, err := Parse(text)
		require.NoError(t, err)
		found, err := p.Find(million)
		require.NoError(t, err, text)
		require.Len(t, found, want, text)
	}
}

func FuzzPath(f *testing.F) {
	data, err := os.ReadFile("testdata/answers.json")
	require.NoError(f, err)
	var all answers
	require.NoError(f, json.Unmarshal(data, &all))
	for _, a := range all.Paths {
		f.Add(a.Path, `{"a":[1,{"b":"c"}]}`)
	}
	f.Fuzz(func(t *testing.T, text, object string) {
		v, err := kjson.DecodeTree([]byte(object), kjson.TreeOptions{})
		if err != nil {
			return
		}
		p, err := Parse(text)
		if err != nil {
			return
		}
		found, err := p.Find(v)
		again, errAgain := p.Find(v)
		require.Equal(t, err, errAgain)
		require.Equal(t, found, again)
		fields, _ := p.Split(2)
		require.LessOrEqual(t, len(fields), 2)
	})
}

func BenchmarkFind(b *testing.B) {
	v := tree(b, `{"status":{"conditions":[{"type":"Live","status":"True"},{"type":"Ready","status":"False"}]}}`)
	p, err := Parse(`.status.conditions[?(@.type=="Ready")].status`)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := p.Find(v); err != nil || len(found) != 1 {
			b.Fatal(found, err)
		}
	}
}
