package patch

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func tree(t testing.TB, text string) any {
	t.Helper()
	v, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	require.NoError(t, err, text)
	return v
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	v, ok := tree(t, text).(map[string]any)
	require.True(t, ok, text)
	return v
}

func text(t testing.TB, tree any) string {
	t.Helper()
	b, err := json.AppendTree(nil, tree)
	require.NoError(t, err)
	return string(b)
}

// The scripts in testdata are sequences of cases: a description, the object, the patch, and the
// patched object or the start of the error.
func TestScripts(t *testing.T) {
	for script, patcher := range map[string]func(map[string]any, []byte, Options) (map[string]any, error){
		"testdata/PATCH-06_json_patch.txt": JSON, "testdata/B11_bad_operations.txt": JSON, "testdata/PATCH-08_merge_patch.txt": Merge,
	} {
		data, err := os.ReadFile(script)
		require.NoError(t, err)
		cases := strings.Split(strings.TrimSpace(string(data)), "\n\n")
		require.Greater(t, len(cases), 10)
		for _, c := range cases {
			lines := strings.Split(c, "\n")
			require.Len(t, lines, 4, c)
			t.Run(lines[0], func(t *testing.T) {
				original := object(t, lines[1])
				before := text(t, original)
				got, err := patcher(original, []byte(lines[2]), Options{Kind: meta.GroupKind{Group: "example.dev", Kind: "Widget"}, Name: "w"})
				require.Equal(t, before, text(t, original), "the original was changed")
				if want, ok := strings.CutPrefix(lines[3], "! "); ok {
					require.Error(t, err)
					problem := fmt.Sprintf("%d %s: %s", status.CodeOf(err), status.ReasonOf(err), err)
					require.True(t, strings.HasPrefix(problem, want), problem)
					return
				}
				require.NoError(t, err)
				require.Equal(t, text(t, tree(t, lines[3])), text(t, got))
			})
		}
	}
}

func TestPATCH_15_CannotBeApplied(t *testing.T) {
	_, err := JSON(object(t, `{"spec":{}}`), []byte(`[{"op":"remove","path":"/spec/x"}]`), Options{Kind: meta.GroupKind{Group: "example.dev", Kind: "Widget"}, Name: "w"})
	failure := status.From(err).Status()
	require.Equal(t, int32(422), failure.Code)
	require.Equal(t, &meta.StatusDetails{Name: "w", Group: "example.dev", Kind: "Widget", Causes: []meta.StatusCause{
		{Type: meta.CauseFieldValueInvalid, Field: "patch", Message: "Invalid value: error in remove for path: '/spec/x': unable to remove nonexistent key: x: missing value"},
	}}, failure.Details)
	require.Equal(t, `Widget.example.dev "w" is invalid: patch: `+failure.Details.Causes[0].Message, failure.Message)

	_, err = JSON(object(t, `{}`), []byte(`[{"op":"remove","path":""}]`), Options{})
	require.EqualError(t, err, `patch: Invalid value: operation 0 (remove ""): the whole object cannot be removed`)
}

func TestErrorsDoNotQuoteValues(t *testing.T) {
	for _, body := range []string{
		`[{"op":"test","path":"/data","value":"hunter2"}]`,
		`[{"op":"add","path":"/data/x","value":"hunter2"}]`,
		`[{"op":"replace","path":"","value":"hunter2"}]`,
		`[{"op":"add","path":"x","value":"hunter2"}]`,
		`["hunter2"]`,
	} {
		_, err := JSON(object(t, `{"data":"correct horse"}`), []byte(body), Options{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), "horse")
	}
}

func TestLongPathsAreCutInErrors(t *testing.T) {
	for _, path := range []string{"/" + strings.Repeat("é", 1<<20), strings.Repeat("/é", 1<<19) + "/"} {
		_, err := JSON(object(t, `{}`), []byte(`[{"op":"remove","path":"`+path+`"}]`), Options{})
		require.True(t, status.IsInvalid(err))
		require.Less(t, len(err.Error()), 1000)
		_, err = json.Marshal(status.From(err).Status())
		require.NoError(t, err, "cut within a character")
	}
}

func TestB6_Duplicates(t *testing.T) {
	for name, c := range map[string]struct {
		patch func(map[string]any, []byte, Options) (map[string]any, error)
		body  string
		path  string
	}{
		"merge": {Merge, `{"spec":{"a":1,"a":2}}`, "spec.a"},
		"json":  {JSON, `[{"op":"add","path":"/spec","value":{"a":1,"a":2}}]`, "[0].value.a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.patch(object(t, `{}`), []byte(c.body), Options{})
			require.True(t, status.IsBadRequest(err), "%v", err)
			require.Contains(t, err.Error(), "duplicate field")

			var seen []string
			got, err := c.patch(object(t, `{}`), []byte(c.body), Options{Duplicates: func(path string) { seen = append(seen, path) }})
			require.NoError(t, err)
			require.Equal(t, []string{c.path}, seen)
			require.Equal(t, `{"spec":{"a":2}}`, text(t, got), "the last one counts")
		})
	}
}

func TestB7_NumbersStayExact(t *testing.T) {
	original := object(t, `{"big":9223372036854775807,"small":-9223372036854775808,"f":0.1}`)
	got, err := JSON(original, []byte(`[{"op":"add","path":"/n","value":9007199254740993}]`), Options{})
	require.NoError(t, err)
	require.Equal(t, `{"big":9223372036854775807,"f":0.1,"n":9007199254740993,"small":-9223372036854775808}`, text(t, got))
	got, err = Merge(original, []byte(`{"n":9007199254740993}`), Options{})
	require.NoError(t, err)
	require.Equal(t, `{"big":9223372036854775807,"f":0.1,"n":9007199254740993,"small":-9223372036854775808}`, text(t, got))
}

func TestB9_Framing(t *testing.T) {
	for _, body := range []string{"", " ", "null", "{}{}", "[] x", "\ufeff{}", `"x"`, "1", strings.Repeat(" ", 2<<20), "{", "[", `{"a":}`, "[{}]", "[null]"} {
		_, jsonErr := JSON(object(t, `{}`), []byte(body), Options{})
		require.True(t, status.IsBadRequest(jsonErr), "%.20q: %v", body, jsonErr)
		_, mergeErr := Merge(object(t, `{}`), []byte(body), Options{})
		require.True(t, status.IsBadRequest(mergeErr), "%.20q: %v", body, mergeErr)
	}
}

func TestB3_Depth(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100_000)
	_, err := Merge(object(t, `{}`), []byte(deep), Options{})
	require.True(t, status.IsBadRequest(err))
	_, err = JSON(object(t, `{}`), []byte(`[{"op":"add","path":"/a","value":`+deep), Options{})
	require.True(t, status.IsBadRequest(err))

	// Each patch is within the limit, but the result is not.
	nested := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
	_, err = JSON(object(t, nested), []byte(`[{"op":"add","path":"`+strings.Repeat("/a", 299)+`/b","value":`+nested+`}]`), Options{})
	require.True(t, status.IsInvalid(err), "%v", err)
}

func TestMergeSharesWhatItDoesNotTouch(t *testing.T) {
	original := object(t, `{"a":{"b":{"c":1}},"z":{}}`)
	got, err := Merge(original, []byte(`{"z":{"y":1}}`), Options{})
	require.NoError(t, err)
	got["a"].(map[string]any)["mark"] = true
	require.Contains(t, original["a"], "mark", "copied for nothing")
	require.NotContains(t, original["z"], "y")
}

func TestMembersArePatchedWithoutTheRest(t *testing.T) {
	original := object(t, `{"large":{"b":1},"metadata":{"resourceVersion":"1","labels":null}}`)
	got, err := JSON(original, []byte(`[{"op":"replace","path":"/metadata/resourceVersion","value":"2"},
		{"op":"add","path":"/new","value":{}},{"op":"add","path":"/new/~01~1","value":[null]}]`), Options{})
	require.NoError(t, err)
	require.Equal(t, object(t, `{"large":{"b":1},"metadata":{"resourceVersion":"2","labels":null},"new":{"~1/":[null]}}`), got)
	require.Equal(t, object(t, `{"large":{"b":1},"metadata":{"resourceVersion":"1","labels":null}}`), original)
	got["large"].(map[string]any)["mark"] = true
	require.Contains(t, original["large"], "mark", "copied for nothing")
}

func TestPATCH_03_ParseType(t *testing.T) {
	type patchType string
	const json, merge, apply patchType = "application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"
	custom := []patchType{json, merge, apply}
	for contentType, want := range map[string]patchType{
		"application/json-patch+json":                  json,
		"Application/Merge-Patch+JSON":                 merge,
		"application/apply-patch+yaml; charset=utf-8":  apply,
		`application/merge-patch+json;charset="UTF-8"`: merge,
		"application/json-patch+json;x=y":              json,
	} {
		got, err := ParseType(contentType, custom...)
		require.NoError(t, err)
		require.Equal(t, want, got, "PATCH-12: parameters mean nothing")
	}
	for _, contentType := range []string{
		"", "application/json", "application/yaml", "text/plain", "application/json-patch+json;charset=utf-16", "application/apply-patch+cbor", ";",
		"application/strategic-merge-patch+json",
	} { // PATCH-10
		_, err := ParseType(contentType, custom...)
		require.True(t, status.IsUnsupportedMediaType(err), contentType)
		require.EqualError(t, err, "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	}
	got, err := ParseType("application/strategic-merge-patch+json", patchType("application/strategic-merge-patch+json"))
	require.NoError(t, err)
	require.EqualValues(t, "application/strategic-merge-patch+json", got)
}
