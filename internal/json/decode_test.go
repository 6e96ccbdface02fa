package json_test

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
)

func decode(t require.TestingT, text string) any {
	tree, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	require.NoError(t, err, "%.80s", text)
	return tree
}

func TestDecodeTree_Values(t *testing.T) {
	for text, want := range map[string]any{
		`null`:                           nil,
		`true`:                           true,
		`false`:                          false,
		`""`:                             "",
		`"a\n\"\\\/\u00e9\ud83d\ude00é"`: "a\n\"\\/é😀é",
		`"\u0000"`:                       "\x00",
		`{}`:                             map[string]any{},
		`[]`:                             []any{},
		` [ 1 , [ ] , { "a" : null } ] `: []any{int64(1), []any{}, map[string]any{"a": nil}},
		`{"":{"a.b/c":[{"x":-1}]}}`:      map[string]any{"": map[string]any{"a.b/c": []any{map[string]any{"x": int64(-1)}}}},
		"\t\r\n{\"a\":1}" + strings.Repeat(" ", 100_000): map[string]any{"a": int64(1)},
	} {
		require.Equal(t, want, decode(t, text), "%.80s", text)
	}
}

func TestDecodeTree_B7_Numbers(t *testing.T) {
	for text, want := range map[string]any{
		"0":                               int64(0),
		"-0":                              int64(0),
		"9007199254740993":                int64(9007199254740993),
		"9223372036854775807":             int64(math.MaxInt64),
		"-9223372036854775808":            int64(math.MinInt64),
		"9223372036854776000":             9223372036854775808.0,
		"-10000000000000000000":           -1e19,
		"100000000000000000000":           1e20,
		"1.0":                             1.0,
		"1E2":                             100.0,
		"-0.0":                            0.0,
		"0.1":                             0.1,
		"1e-400":                          0.0,
		"1.7976931348623157e308":          math.MaxFloat64,
		"0." + strings.Repeat("1", 1<<20): 1.0 / 9,
	} {
		got := decode(t, text)
		require.Equal(t, want, got, "%.40s", text)
		if f, ok := got.(float64); ok {
			require.False(t, math.Signbit(f) && f == 0, "-0 has no text of its own")
		}
	}
}

func TestDecodeTree_Refused(t *testing.T) {
	for text, want := range map[string]struct {
		reason, path string
		offset       int64
	}{
		"":                        {"ends early", "", 0},
		" \n":                     {"ends early", "", 2},
		"{":                       {"ends early", "", 1},
		`{"a":`:                   {"ends early", "a", 5},
		`{"a":[1,{"b":"`:          {"ends early", "a[1].b", 14},
		"\ufeff{}":                {`'\ufeff'`, "", 0},
		"{}{}":                    {"after the end", "", 2},
		"{} x":                    {"after the end", "", 3},
		"01":                      {"after the end", "", 1},
		"1.":                      {"ends early", "", 2},
		".5":                      {"'.'", "", 0},
		"+1":                      {"'+'", "", 0},
		"-":                       {"ends early", "", 1},
		"1e":                      {"ends early", "", 2},
		"1ex":                     {"a digit", "", 2},
		"nul":                     {"invalid literal", "", 0},
		"NaN":                     {"'N'", "", 0},
		"'a'":                     {`'\''`, "", 0},
		"[1,]":                    {"after ','", "[0]", 3},
		"[1 2]":                   {"','", "[0]", 3},
		`{"a":1,}`:                {"after ','", "", 7},
		`{a:1}`:                   {"a name", "", 1},
		`{"a" 1}`:                 {"':'", "", 5},
		`{"a":1 "b":2}`:           {"','", "", 7},
		"[\"a\nb\"]":              {"control character", "[0]", 3},
		`"\x"`:                    {"invalid escape", "", 0},
		`"\ud800"`:                {"UTF-8", "", 0},
		`"\ud800\u0041"`:          {"UTF-8", "", 0},
		`"\udc00"`:                {"UTF-8", "", 0},
		"{\"a\":[\"\xff\xfe\"]}":  {"UTF-8", "a[0]", 6},
		"\"\xc0\x80\"":            {"UTF-8", "", 0},
		"{\"\xff\":1}":            {"UTF-8", "", 1},
		"99999999999999999990000": {"does not fit in 64 bits", "", 0},
		"9223372036854775808":     {"does not fit in 64 bits", "", 0},
		"-9223372036854775809":    {"does not fit in 64 bits", "", 0},
		`{"spec":{"n":[1,99999999999999999999]}}`: {"does not fit in 64 bits", "spec.n[1]", 16},
		`{"a":{"b":1e400}}`:                       {"beyond the range", "a.b", 10},
		`{"a":1,"a":2}`:                           {`duplicate field "a"`, "a", 7},
		`{"s":{"bar":1,"x":[{"y":1,"y":2}]}}`:     {`duplicate field "s.x[0].y"`, "s.x[0].y", 26},
		`{"a":1,"\u0061":2}`:                      {`duplicate field "a"`, "a", 7},
		`{"m":{"a.b/c":1,"a.b/c":2}}`:             {`duplicate field "m[a.b/c]"`, "m[a.b/c]", 16},
	} {
		_, err := json.DecodeTree([]byte(text), json.TreeOptions{})
		var syntax *json.SyntaxError
		require.ErrorAs(t, err, &syntax, "%q", text)
		require.Contains(t, syntax.Reason, want.reason, "%q", text)
		require.Equal(t, want.path, syntax.Path, "%q", text)
		require.Equal(t, want.offset, syntax.Offset, "%q", text)
		require.Contains(t, err.Error(), want.path)
	}
}

func TestDecodeTree_B3_Depth(t *testing.T) {
	for _, nest := range []func(n int) string{
		func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) },
		func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) },
	} {
		decode(t, nest(json.DefaultMaxDepth))
		_, err := json.DecodeTree([]byte(nest(json.DefaultMaxDepth+1)), json.TreeOptions{})
		require.ErrorContains(t, err, "nested more than 512 levels deep")
		_, err = json.DecodeTree([]byte(nest(100_000)), json.TreeOptions{})
		require.ErrorContains(t, err, "nested more than 512 levels deep")
		require.Less(t, len(err.Error()), 800)
		_, err = json.DecodeTree([]byte(nest(4)), json.TreeOptions{MaxDepth: 3})
		require.ErrorContains(t, err, "nested more than 3 levels deep")
	}
}

func TestDecodeTree_QUERY_23_DuplicatesAreReported(t *testing.T) {
	var paths []string
	tree, err := json.DecodeTree([]byte(`{"spec":{"bar":1,"bar":2,"items":[{"x":1},{"x":1,"x":2,"x":3}]},"spec":{"bar":4}}`),
		json.TreeOptions{Duplicates: func(path string) { paths = append(paths, path) }})
	require.NoError(t, err)
	require.Equal(t, []string{"spec.bar", "spec.items[1].x", "spec.items[1].x", "spec"}, paths)
	require.Equal(t, map[string]any{"spec": map[string]any{"bar": int64(4)}}, tree, "the last one wins")
}

// A report contains a path, and a path contains names. Both are bounded. Otherwise the reports of
// one document could be as large as the square of its size.
func TestDecodeTree_DuplicateReportsAreBounded(t *testing.T) {
	var b strings.Builder
	for range 400 {
		fmt.Fprintf(&b, `{%q:`, strings.Repeat("n", 1000))
	}
	b.WriteString("{" + strings.Repeat(`"a":1,`, 10_000) + `"a":1}` + strings.Repeat("}", 400))
	reports, size := 0, 0
	_, err := json.DecodeTree([]byte(b.String()), json.TreeOptions{Duplicates: func(p string) { reports++; size += len(p) }})
	require.NoError(t, err)
	require.Equal(t, 100, reports)
	require.Less(t, size, 80_000)
}

func TestDecodeTree_SharesNoMemory(t *testing.T) {
	data := []byte(`{"name":["value","with \u00e9"]}`)
	tree, err := json.DecodeTree(data, json.TreeOptions{})
	require.NoError(t, err)
	for i := range data {
		data[i] = 'X'
	}
	require.Equal(t, map[string]any{"name": []any{"value", "with é"}}, tree)
}

func TestValid(t *testing.T) {
	require.NoError(t, json.Valid([]byte(` {"a":[1,"\u00e9",true,null,1.5e3],"a":99999999999999999999} `)))
	for _, text := range []string{"", "{", "{}x", `{"a":"` + "\xff" + `"}`, `["\ud800"]`, strings.Repeat("[", 600)} {
		require.Error(t, json.Valid([]byte(text)), "%.20q", text)
	}
}

// The scanner accepts the same grammar as jsontext, byte for byte.
func FuzzDecodeTree(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0,1.5e-7,"x\u00e9\ud83d\ude00",null,true],"b":{}}`, `[[[]]]`, `"\ud800"`, "\"\xff\"", `01`, `1e400`, `{"a":1,"a":2}`,
		`9223372036854775808`, ` {} {}`, "\ufeff1", `"\`, `{"a" : [ ] , }`, `9.3e18`, `18446744073709551616.0`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		duplicates := false
		tree, err := json.DecodeTree(data, json.TreeOptions{Duplicates: func(string) { duplicates = true }})
		value := jsontext.Value(data)
		grammatical := value.IsValid(jsontext.AllowDuplicateNames(true))
		_, strictErr := json.DecodeTree(data, json.TreeOptions{})
		require.Equal(t, err != nil || duplicates, strictErr != nil)
		if err != nil {
			var syntax *json.SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.LessOrEqual(t, syntax.Offset, int64(len(data)))
			ours := strings.Contains(syntax.Reason, "64 bits") || strings.Contains(syntax.Reason, "range") || strings.Contains(syntax.Reason, "nested")
			require.True(t, !grammatical || ours, "%q is JSON, but: %v", data, err)
			return
		}
		require.True(t, grammatical, "%q is no JSON", data)
		require.NoError(t, json.Valid(data))
		require.Equal(t, !duplicates, value.IsValid())
		requireRoundTrip(t, tree)
	})
}

func requireRoundTrip(t require.TestingT, tree any) {
	text, err := json.AppendTree(nil, tree)
	require.NoError(t, err)
	again := decode(t, string(text))
	require.True(t, json.Equal(tree, again), "%s", text)
	require.True(t, json.Equal(again, tree), "%s", text)
	textAgain, err := json.AppendTree(nil, again)
	require.NoError(t, err)
	require.Equal(t, string(text), string(textAgain))

	var std any
	require.NoError(t, stdjson.Unmarshal(text, &std), "%s", text)
}

// trees draws arbitrary trees.
func trees(depth int) random.Generator[any] {
	generators := []random.Generator[any]{
		random.String().AsAny(),
		random.SampledFrom([]any{nil, true, false, "", "\x00\x1f\u2028<>&\"\\", 0.0, 1e18, 1e19, -1e20, 1e21, 9223372036854775807.0, 5e-324, 1.0}),
		random.Number[int64]().AsAny(),
		random.Float64().AsAny(),
	}
	if depth > 0 {
		generators = append(generators,
			random.MapOf(random.String(), trees(depth-1), 6).AsAny(),
			random.SliceOf(trees(depth-1), 0, 6).AsAny())
	}
	return random.OneOf(generators...)
}

func TestAppendTree_RoundTrip(t *testing.T) {
	random.Check(t, func(t *random.T) {
		requireRoundTrip(t, trees(3).Draw(t, "tree"))
	})
}

func TestAppendTree_Canonical(t *testing.T) {
	for source, want := range map[string]string{
		`{"b":1,"a":{"d":[],"c":{}},"B":null,"é":2,"":3}`: `{"":3,"B":null,"a":{"c":{},"d":[]},"b":1,"é":2}`,
		`"<&>\u2028\u0007\n\/"`:                           "\"<&>\u2028\\u0007\\n/\"",
		`[1.0,1E2,0.1,1e-7,1.5e300,1e20,9.3e18,-0.0]`:     `[1,100,0.1,1e-7,1.5e+300,1e+20,9.3e+18,0]`,
		`[4611686018427387904.0,1e18]`:                    `[4611686018427387904,1000000000000000000]`,
	} {
		got, err := json.AppendTree([]byte("x"), decode(t, source))
		require.NoError(t, err)
		require.Equal(t, "x"+want, string(got))
	}
}

func TestAppendTree_Refused(t *testing.T) {
	loop := map[string]any{}
	loop["loop"] = []any{loop}
	for _, c := range []struct {
		tree       any
		path, want string
	}{
		{int(1), "", "Go type int is not allowed in a tree"},
		{map[string]any{"spec": []any{nil, map[string]any{"x": float32(1)}}}, "spec[1].x", "Go type float32"},
		{map[string]any{"a": math.NaN()}, "a", "finite"},
		{[]any{math.Inf(-1)}, "[0]", "finite"},
		{map[string]any{"a": "\xff"}, "a", "UTF-8"},
		{map[string]any{"a": map[string]any{"\xff": 1}}, "a", "UTF-8"},
		{loop, "loop[0].loop[0]", "nested too deeply"},
	} {
		out, err := json.AppendTree([]byte("kept"), c.tree)
		var typed *json.TypeError
		require.ErrorAs(t, err, &typed)
		require.Contains(t, typed.Reason, c.want)
		require.True(t, strings.HasPrefix(typed.Path, c.path), typed.Path)
		require.Equal(t, "kept", string(out))
	}
}

func TestEqualAndClone(t *testing.T) {
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{nil, nil, true},
		{nil, false, false},
		{true, true, true},
		{"a", "a", true},
		{"1", int64(1), false},
		{int64(1), 1.0, true},
		{1.0, int64(1), true},
		{int64(1), 1.5, false},
		{int64(math.MaxInt64), 9223372036854775808.0, false},
		{0.5, 0.5, true},
		{map[string]any{}, map[string]any{"a": nil}, false},
		{[]any{}, map[string]any{}, false},
		{[]any{int64(1), "x"}, []any{1.0, "x"}, true},
		{[]any{int64(1)}, []any{int64(1), nil}, false},
		{int(1), int(1), false},
		{map[string]any{"a": []any{}}, map[string]any{"a": []any{}}, true},
	} {
		require.Equal(t, c.want, json.Equal(c.a, c.b), "%v %v", c.a, c.b)
	}
	random.Check(t, func(t *random.T) {
		tree := map[string]any{"tree": trees(3).Draw(t, "tree")}
		before, _ := json.AppendTree(nil, tree)
		clone := json.Clone(tree).(map[string]any)
		require.True(t, json.Equal(tree, clone))
		scramble(clone)
		after, _ := json.AppendTree(nil, tree)
		require.Equal(t, string(before), string(after))
	})
}

func scramble(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			scramble(value)
			tree[name] = "changed"
		}
	case []any:
		for i, value := range tree {
			scramble(value)
			tree[i] = "changed"
		}
	}
}

// A large object takes as much memory as its members, however many there are, and is the same.
func TestLargeObjectsAreMadeAtOnce(t *testing.T) {
	for _, n := range []int{4000, 4096, 4097, 8192, 8193, 60_000} {
		want := map[string]any{}
		var text strings.Builder
		for i := range n {
			name := fmt.Sprintf(`a\"]}%d`, i) // what a text contains is not counted
			fmt.Fprintf(&text, `,"%s":{"x":["}",0,{}]}`, name)
			want[fmt.Sprintf(`a"]}%d`, i)] = map[string]any{"x": []any{"}", int64(0), map[string]any{}}}
		}
		document := []byte(`{"o":{` + text.String()[1:] + `},"then":1}`)
		got, err := json.DecodeTree(document, json.TreeOptions{})
		require.NoError(t, err)
		require.True(t, reflect.DeepEqual(map[string]any{"o": want, "then": int64(1)}, got), "%d members", n)
		for _, cut := range []int{1, 2, 12, len(document) / 3} {
			_, err = json.DecodeTree(document[:len(document)-cut], json.TreeOptions{})
			require.Error(t, err, "cut off")
		}
	}
	var text strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&text, `,"f:%d":null`, i)
	}
	document := []byte(`{` + text.String()[1:] + `}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := json.DecodeTree(document, json.TreeOptions{})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(7<<20), "a map that grows takes twice as much")
}

func TestNumbersAsFloats(t *testing.T) {
	for text, want := range map[string]any{
		"0": 0.0, "-0": 0.0, "5": 5.0, "-5": -5.0, "1.5": 1.5, "1e3": 1000.0,
		"9007199254740992": float64(1 << 53), "9007199254740993": int64(1<<53 + 1), "-9007199254740993": -int64(1<<53 + 1),
		"9223372036854775807": int64(math.MaxInt64), "9223372036854775808": uint64(1 << 63), "18446744073709551615": uint64(math.MaxUint64),
		"18446744073709551616": 18446744073709551616.0, "-9223372036854775809": -9223372036854775809.0,
	} {
		tree, err := json.DecodeTree([]byte(`[`+text+`]`), json.TreeOptions{Floats: true})
		require.NoError(t, err, text)
		require.Equal(t, []any{want}, tree, text)
	}
	_, err := json.DecodeTree([]byte("1e999"), json.TreeOptions{Floats: true})
	require.ErrorContains(t, err, "range")
}
