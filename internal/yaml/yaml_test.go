package yaml_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/internal/yaml"
)

const limit = 3 << 20

func TestToJSON_B19_OneReading(t *testing.T) {
	for source, want := range map[string]string{
		"a: no":                        `{"a":false}`,
		"a: on":                        `{"a":true}`,
		"a: 0o17":                      `{"a":15}`,
		"a: 017":                       `{"a":15}`,
		"a: 0x1F":                      `{"a":31}`,
		"a: 1_000":                     `{"a":1000}`,
		"a: 2001-01-01":                `{"a":"2001-01-01"}`,
		"a: 2001-01-01T00:00:00Z":      `{"a":"2001-01-01T00:00:00Z"}`,
		"a: !!binary aGVsbG8=":         `{"a":"hello"}`,
		"a: !!str 12":                  `{"a":"12"}`,
		"a: 9223372036854775807":       `{"a":9223372036854775807}`,
		"a: 1.50":                      `{"a":1.5}`,
		"a: 1e3":                       `{"a":1000}`,
		"a: ~":                         `{"a":null}`,
		"a:":                           `{"a":null}`,
		"a: [1, two, {b: 3}]":          `{"a":[1,"two",{"b":3}]}`,
		"<<: {a: 1}\nb: 2":             `{"a":1,"b":2}`,
		`{"a":{"b":[1,2.5,"x",null]}}`: `{"a":{"b":[1,2.5,"x",null]}}`,
		"---\na: 1\n":                  `{"a":1}`,
		"a: 1\n---\n":                  `{"a":1}`,
		"[]":                           `[]`,
		"a: []":                        `{"a":[]}`,
		"{}":                           `{}`,
		"a: 1\n...\n# the end\n":       `{"a":1}`,
		"# nothing\n":                  `null`,
		"":                             `null`,
	} {
		got, err := yaml.ToJSON([]byte(source), limit)
		require.NoError(t, err, source)
		require.Equal(t, want, string(got), source)
	}
}

func TestToJSON_Refused(t *testing.T) {
	for source, want := range map[string]string{
		"a: 1\n---\nb: 2":              "more than one YAML document",
		"a: 1\n---\n---\nb: 2":         "more than one YAML document",
		"a: 1\n---\n# c\n---\nb: 2":    "more than one YAML document",
		"a: 1\n---\nnull\n---\nb: 2":   "more than one YAML document",
		"a: 1\n---\n---\n---\nb: [":    "yaml:",
		"a: 1\n--- }":                  "yaml:",
		"? [a]\n: b":                   "key of another type must be a string",
		"? {a: 1}\n: b":                "key of another type must be a string",
		"1: a":                         "key 1 must be a string",
		"on: a":                        "key true must be a string",
		"~: a":                         "key null must be a string",
		"1.5: a":                       "key 1.5 must be a string",
		"a: .inf":                      "cannot represent infinity",
		"a: .nan":                      "cannot represent infinity",
		"a: 9223372036854775808":       "does not fit in 64 bits",
		"a: 18446744073709551616":      "does not fit in 64 bits",
		"a: -9223372036854775809":      "does not fit in 64 bits",
		"[+9_223_372_036_854_776_000]": "does not fit in 64 bits",
		"18446744073709551616\u0085":   "does not fit in 64 bits",
		"18446744073709551616\u2028":   "does not fit in 64 bits",
		"18446744073709551616\u2029":   "does not fit in 64 bits",
		"- a: 1\n  a: 2":               `key "a" already set`,
		"<<: {b: 1}\na: 1\na: 2":       `key "a" already set`,
		"c: !!str d\na: 1\na: 2":       `key "a" already set`,
		"a: &x 1\nb: *x":               "aliases",
		"a: &x 1":                      "aliases",
		"a:\n  *x":                     "aliases",
		"- *x":                         "aliases",
		"[*x]":                         "aliases",
		"{a: *x}":                      "aliases",
		`{"a":*x}`:                     "aliases",
		"? *x\n: 1":                    "aliases",
		"a: !!str &x 1":                "aliases",
		"a: |\n  text\nb: *x":          "aliases",
		"a: text\nb: *x":               "aliases",
		"a: [b,\n  c, *x]":             "aliases",
		"a: 'x\n  y'\nb: *x":           "aliases",
		"a: \xff\xfe":                  "UTF-8",
		"\xef\xbb\xbfa: 1":             "UTF-8",
		"\xff\xfea\x00:\x00 \x001\x00": "UTF-8",
		"a: !!binary /w==":             "UTF-8",
		"\ta: 1":                       "yaml:",
		strings.Repeat("a", limit+1):   "too large",
		strings.Repeat("[", 600) + strings.Repeat("]", 600): "nested more than",
	} {
		got, err := yaml.ToJSON([]byte(source), limit)
		require.Error(t, err, "%.60q gave %.60q", source, got)
		require.Contains(t, err.Error(), want, "%.60q", source)
		require.Less(t, len(err.Error()), 300)
	}
}

// Numbers with a fraction or an exponent are floats, however large, and text is text.
func TestToJSON_LargeFloats(t *testing.T) {
	for source, want := range map[string]string{
		"a: 1e20":                                              `{"a":100000000000000000000}`,
		"a: 18446744073709551616.0":                            `{"a":18446744073709552000}`,
		"a: 1.8446744073709551616e19":                          `{"a":18446744073709552000}`,
		"a: '18446744073709551616'":                            `{"a":"18446744073709551616"}`,
		"a: !!str 18446744073709551616":                        `{"a":"18446744073709551616"}`,
		"a: 1e20 # not 18446744073709551616":                   `{"a":100000000000000000000}`,
		"a: 1e20\nb: ____________________":                     `{"a":100000000000000000000,"b":"____________________"}`,
		"a: no 18446744073709551616\nb: 1e20\n---\n# c\n---\n": `{"a":"no 18446744073709551616","b":100000000000000000000}`,
	} {
		got, err := yaml.ToJSON([]byte(source), limit)
		require.NoError(t, err, source)
		require.JSONEq(t, want, string(got), source)
	}
}

// Text that only looks like an alias is accepted.
func TestToJSON_StarsAndAmpersandsInText(t *testing.T) {
	for source, want := range map[string]string{
		"a: |\n  * one\n  * two\n\n  &x\nb: 1":  `{"a":"* one\n* two\n\n&x\n","b":1}`,
		"- a: >\n    *x\n    *y\n  b: 1":        `[{"a":"*x *y\n","b":1}]`,
		"a:\n- |\n  *x\n- 2":                    `{"a":["*x\n",2]}`,
		"a: \"x\n  *y\"\nb: '*z'":               `{"a":"x *y","b":"*z"}`,
		"a: some\n  *text goes on\n  &so\nb: 1": `{"a":"some *text goes on \u0026so","b":1}`,
		"- some\n  *text\n- b":                  `["some *text","b"]`,
		"a: [b\n  *c, d]":                       `{"a":["b *c","d"]}`,
		"a: b # *c\n# &d\nb: x*y & z":           `{"a":"b","b":"x*y \u0026 z"}`,
		"a: http://x/?b=1&c=*":                  `{"a":"http://x/?b=1\u0026c=*"}`,
		"a: {b: x&c=*, 'd': '''*e'}":            `{"a":{"b":"x\u0026c=*","d":"'*e"}}`,
		"a: |2\n   *x\n":                        `{"a":" *x\n"}`,
		"--- |\n  *x\n":                         `"*x\n"`,
		"a: \"\\\"\n  *b\"":                     `{"a":"\" *b"}`,
	} {
		got, err := yaml.ToJSON([]byte(source), limit)
		require.NoError(t, err, source)
		require.JSONEq(t, want, string(got), source)
	}
}

func TestToJSON_B1_AliasBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	allocated := allocatedBytes(func() {
		_, err := yaml.ToJSON([]byte(bomb.String()), limit)
		require.ErrorContains(t, err, "aliases")
	})
	require.Less(t, allocated, uint64(1<<20))
}

// A line break that only YAML recognises hides anchors from inspect. Their expansion must still not
// exhaust the memory.
func TestToJSON_B1_HiddenAliases(t *testing.T) {
	const lineSeparator = "\u2028"
	text := strings.Repeat("x", 100_000)
	bomb := "# hidden" + lineSeparator + "a: &a " + text + lineSeparator + "b: [" + strings.Repeat("*a,", 50) + "]\n"
	allocated := allocatedBytes(func() {
		_, err := yaml.ToJSON([]byte(bomb), limit)
		require.ErrorContains(t, err, "aliases")
	})
	require.Less(t, allocated, uint64(8<<20))
}

func TestFromJSON(t *testing.T) {
	text, err := yaml.FromJSON([]byte(`{"b":[1,2.5,"no",null],"a":{"x":"1"},"e":{}}`))
	require.NoError(t, err)
	require.Equal(t, "a:\n  x: \"1\"\nb:\n- 1\n- 2.5\n- \"no\"\n- null\ne: {}\n", string(text))
	text, err = yaml.FromJSON([]byte(`{"a":[{"<<":"x"}]}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":[{"<<":"x"}]}`, string(text))
	_, err = yaml.FromJSON([]byte(`{`))
	require.Error(t, err)
}

// hostile contains documents of 3 MiB that are designed to be expensive.
func hostile() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, limit/len(s)) }
	var deep, keys strings.Builder
	for i := 0; deep.Len() < limit-4096; i++ {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for i := 0; keys.Len() < limit-64; i++ {
		fmt.Fprintf(&keys, "%d: v\n", i)
	}
	return map[string]string{
		"dashes": fill("- "), "questions": fill("? "), "braces": fill("{"), "brackets": fill("["), "both": fill("[{"),
		"backslashes": `"` + fill(`\`)[1:], "quoted backslashes": fill(`"\`), "tabs": fill("\t"), "key": fill("k")[3:] + ": v",
		"folded": "a: >\n" + fill("  xx yy\n")[8:], "words": `a: "` + fill("a b ")[8:] + `"`, "one folded line": "a: >\n  " + fill("x y ")[8:],
		"plain lines": "a: " + fill("x\n  ")[4:], "empty items": fill("-\n"), "empty keys": fill("?\n"),
		"maps in a list": fill("- a:\n"), "merges": fill("<<: {}\n"), "numbers": "[" + fill("1,")[2:] + "]",
		"flow lists": "[" + fill("[],")[3:], "flow pairs": "{" + fill("a: b, ")[6:], "flow keys": "{" + fill("?")[1:],
		"documents": fill("---\n"), "comments": fill("#\n"), "tags": fill("!!str ")[6:] + "x", "one tag": "!" + fill("a")[8:] + " x",
		"blank text": "a: |\n" + fill(" \n")[8:], "quotes": fill("''"), "quoted lines": `"` + fill("x\n")[2:],
		"escapes": `"` + fill(`\u0041`)[6:] + `"`, "separators": "a: " + fill("\u2028")[3:], "lists as keys": fill("[]: "),
		"deep": deep.String(), "keys": keys.String(), "directives": fill("%a\n"), "anchors": fill("- &a x\n"),
		"anchors out of sight": "a: x\u2028b: &a [" + fill("1,")[64:] + "]",
	}
}

// The test only asserts memory, which does not depend on the machine. BenchmarkHostile shows the
// time.
func TestToJSON_B2_HostileDocumentsAreCheap(t *testing.T) {
	for name, source := range hostile() {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(source), limit)
			allocated := allocatedBytes(func() { _, _ = yaml.RequestToJSON([]byte(source), limit) })
			require.Less(t, allocated, uint64(4<<20), "refused or read")
			short := source[:1<<20]
			allocated = allocatedBytes(func() { _, _ = yaml.RequestToJSON([]byte(short), limit) })
			require.Less(t, allocated, uint64(28<<20), "of the length that a client may send")
			allocated = allocatedBytes(func() { _, _ = yaml.ToJSON([]byte(source[:effort.Of(len(source))]), limit) })
			require.Less(t, allocated, uint64(100<<20), "of a file")
		})
	}
}

func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestFromJSON_RoundTrip(t *testing.T) {
	scalar := random.OneOf(
		random.String().AsAny(),
		random.SampledFrom(awkward).AsAny(),
		random.Number[int64]().AsAny(),
		random.Float64().AsAny(),
		random.Bool().AsAny(),
		random.Just[any](nil),
	)
	random.Check(t, func(t *random.T) {
		tree := map[string]any{
			"map":  random.MapOf(random.OneOf(random.String(), random.SampledFrom(awkward)), scalar, 5).AsAny().Draw(t, "map"),
			"list": random.SliceOf(scalar, 0, 5).AsAny().Draw(t, "list"),
		}
		want, err := json.AppendTree(nil, tree)
		require.NoError(t, err)
		text, err := yaml.FromJSON(want)
		require.NoError(t, err)
		got, err := yaml.ToJSON(text, limit)
		require.NoError(t, err, "%s", text)
		again, err := json.DecodeTree(got, json.TreeOptions{})
		require.NoError(t, err)
		require.True(t, json.Equal(tree, again), "%s gave %s", text, got)
	})
}

var awkward = []string{
	"", "y", "n", "yes", "no", "on", "off", "null", "~", "true", "1", "017", "0o17", "1_000", "1e3", ".inf", "-", "- a", "? a", "a: b",
	"a #b", "*a", "&a", "!a", "|", ">", "%a", "@a", "`a", "'", `"`, "\n", "a\nb\n", " a", "a ", "\ta", "2001-01-01", "1:20", "=", "<<",
	"---", "...", "\u0085", "\u2028", "\ufeff", "\x00", "\x7f", "[a]", "{a}", ",", "a\n\n b", "\n a", strings.Repeat("word ", 40),
}

// Server-side apply sends JSON as YAML. It must have the meaning that it has as JSON.
func TestToJSON_JSONPassesThrough(t *testing.T) {
	for _, source := range []string{
		`{"a":"\ud83d\ude00"}`, "{\"a\":\"\x7f\u2028\"}", ` { "a" : 1e3, "b":[ ] } `, `{"<<":{"a":1}}`, `{"a":1,"a":2}`,
	} {
		got, err := yaml.ToJSON([]byte(source), limit)
		require.NoError(t, err)
		require.Equal(t, source, string(got))
	}
}

// The JSON decoder decides which of two values counts and reports the duplicate.
func TestB6_NamesThatComeTwice(t *testing.T) {
	for source, want := range map[string]string{
		"a: 1\na: 2":                             `{"a":1,"a":2}`,
		"b:\n  a: 2\n  a: 1":                     `{"b":{"a":2,"a":1}}`,
		`{spec: {"a":1,"a":2}}`:                  `{"spec":{"a":1,"a":2}}`,
		"b: 1\na: x\nb: [{c: 1, c: null}]\na: w": `{"a":"x","a":"w","b":1,"b":[{"c":1,"c":null}]}`,
	} {
		got, err := yaml.ToJSON([]byte(source), limit)
		require.NoError(t, err, source)
		require.Equal(t, want, string(got))
	}
}

func FuzzToJSON(f *testing.F) {
	for _, seed := range []string{"a: 1", "a: &x [1]\nb: *x", "- |\n  *x", "{a: [b, 'c']}", "? a\n: b", "a: 1\n---\nb: 2", "\"\\u2028\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := yaml.ToJSON(data, limit)
		if err != nil {
			return
		}
		twice := false
		tree, err := json.DecodeTree(out, json.TreeOptions{Duplicates: func(string) { twice = true }})
		if err != nil {
			require.Equal(t, data, out) // JSON is passed through
			return
		}
		again, err := json.AppendTree(nil, tree)
		require.NoError(t, err)
		if !bytes.Equal(data, out) && !twice {
			require.Equal(t, string(out), string(again))
		}
	})
}

func BenchmarkHostile(b *testing.B) {
	for name, source := range hostile() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = yaml.ToJSON([]byte(source), limit)
			}
		})
	}
}

func TestRepeatedNamesHaveTheirLines(t *testing.T) {
	require.Equal(t, []string{`line 4: key "a" already set in map`}, yaml.Repeated([]byte("x: 1\ny:\n  a: 1\n  a: 2\n")))
	require.Equal(t, []string{`line 1: key "a" already set in map`}, yaml.Repeated([]byte(`{"a":1,"a":2}`)))
	require.Empty(t, yaml.Repeated([]byte("a: 1\n")))
	require.Empty(t, yaml.Repeated([]byte("a: [")))
	require.Empty(t, yaml.Repeated(bytes.Repeat([]byte("a: 1\n"), 1<<18)))
}
