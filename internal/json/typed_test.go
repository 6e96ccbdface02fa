package json_test

import (
	stdjson "encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
)

type header struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

type stamp struct{ time.Time }

func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(`"` + s.UTC().Format(time.RFC3339) + `"`), nil
}

func (s *stamp) UnmarshalJSON(data []byte) (err error) {
	s.Time, err = time.Parse(`"`+time.RFC3339+`"`, string(data))
	return err
}

type part struct {
	Name string `json:"name"`
	N    *int32 `json:"n,omitempty"`
}

type thing struct {
	header   `json:",inline"`
	Flag     bool              `json:"flag,omitempty"`
	Count    int64             `json:"count"`
	Ratio    float64           `json:"ratio,omitempty"`
	Bytes    []byte            `json:"bytes,omitempty"`
	Labels   map[string]string `json:"labels"`
	Parts    []part            `json:"parts"`
	Optional *part             `json:"optional,omitempty"`
	Made     stamp             `json:"made"`
	Zero     stamp             `json:"zero,omitzero"`
	Struct   part              `json:"struct,omitempty"`
	Text     string            `json:"text"`
	Array    [2]int            `json:"array"`
	Quoted   int64             `json:"quoted,string"`
	Any      any               `json:"any,omitempty"`
	Hidden   string            `json:"-"`
}

// Struct tags have the meaning of encoding/json. Only the escapes for HTML are omitted.
func TestMarshal_LikeEncodingJSON(t *testing.T) {
	n := int32(0)
	made := stamp{time.Unix(1_700_000_000, 0)}
	for _, v := range []any{
		thing{},
		&thing{},
		thing{
			header: header{Kind: "Thing"}, Flag: true, Count: -1, Ratio: 1e21, Bytes: []byte{0, 255}, Labels: map[string]string{"b": "1", "a": "2"},
			Parts: []part{{Name: "x", N: &n}}, Optional: &part{}, Made: made, Zero: made, Text: "é\"\\\n\x7f", Quoted: 7, Any: []any{1.5, nil},
		},
		thing{Labels: map[string]string{}, Parts: []part{}},
		map[int]bool{2: true, 10: false, 1: true},
		[]string(nil), map[string]int(nil),
		[3]byte{1, 2, 3},
		time.Duration(5), 1e6, float32(0.1),
	} {
		want, err := stdjson.Marshal(v)
		require.NoError(t, err)
		got, err := json.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	got, err := json.Marshal(map[string]string{"a": "<&>\u2028"})
	require.NoError(t, err)
	require.Equal(t, "{\"a\":\"<&>\u2028\"}", string(got), "no escapes for HTML or JavaScript")
}

func TestUnmarshal_LikeEncodingJSON(t *testing.T) {
	for _, text := range []string{
		`{"kind":"Thing","count":3,"bytes":"AP8=","labels":{"a":"b"},"parts":[{"name":"x","n":0}],"made":"2023-11-14T22:13:20Z","array":[1,2],"unknown":{"x":1}}`,
		`{"count":null,"labels":null,"parts":null,"optional":null,"text":null}`,
		`{"parts":[],"labels":{},"array":[1,2,3],"quoted":"5","any":{"a":[1,"x",null,true]}}`,
	} {
		var want, got thing
		require.NoError(t, stdjson.Unmarshal([]byte(text), &want))
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, want, got)
	}
}

func TestUnmarshal_StricterThanEncodingJSON(t *testing.T) {
	var v thing
	require.NoError(t, json.Unmarshal([]byte(`{"Count":5,"COUNT":6}`), &v))
	require.Zero(t, v.Count, "names match exactly")

	for text, want := range map[string]string{
		`{"count":1,"count":2}`:            `duplicate field "count"`,
		`{"labels":{"a":"1","a":"2"}}`:     `duplicate field "labels.a"`,
		`{"unknown":[{"a":1,"a":2}]}`:      `duplicate field "unknown[0].a"`,
		"{\"text\":\"\xff\"}":              "UTF-8",
		`{"count":"1"}`:                    "count: a JSON string does not fit Go type int64",
		`{"parts":[{},{"n":1e10}]}`:        "parts[1].n",
		`{"parts":[{"name":3}]}`:           "parts[0].name: a JSON number does not fit Go type string",
		`{"count":1} x`:                    "invalid character 'x'",
		`{"count":99999999999999999999}`:   "count",
		``:                                 "ends early",
		`{"made":"yesterday"}`:             "made",
		strings.Repeat(`{"any":`, 100_000): "depth",
	} {
		err := json.Unmarshal([]byte(text), new(thing))
		require.ErrorContains(t, err, want, "%.60s", text)
		require.NotContains(t, err.Error(), "go-json-experiment")
	}
	err := json.Unmarshal([]byte(`{"made":"`+strings.Repeat("9", 1<<20)+`"}`), new(thing))
	require.Error(t, err)
	require.Less(t, len(err.Error()), 500, "errors do not repeat a long value")
	var syntax *json.SyntaxError
	require.ErrorAs(t, json.Unmarshal([]byte(`{"count":1,"count":2}`), new(thing)), &syntax)
	require.Equal(t, "count", syntax.Path)
	var typed *json.TypeError
	require.ErrorAs(t, json.Unmarshal([]byte(`{"parts":[{"name":3}]}`), new(thing)), &typed)
	require.Equal(t, "parts[0].name", typed.Path)
}

type failing struct{}

var errFailing = errors.New("no form")

func (failing) MarshalJSON() ([]byte, error) { return nil, errFailing }

func TestMarshal_Errors(t *testing.T) {
	_, err := json.Marshal(map[string]any{"a": []any{failing{}}})
	require.ErrorIs(t, err, errFailing)
	require.ErrorContains(t, err, "a[0]")
	for _, v := range []any{make(chan int), map[string]string{"a": "\xff"}} {
		out, err := json.Append([]byte("kept"), v)
		require.Error(t, err)
		require.Equal(t, "kept", string(out))
	}
	out, err := json.Append([]byte("x"), header{Kind: "K"})
	require.NoError(t, err)
	require.Equal(t, `x{"kind":"K"}`, string(out))
}

func TestTreeOfAndFromTree(t *testing.T) {
	n := int32(7)
	v := thing{header: header{Kind: "Thing"}, Count: 1<<53 + 1, Parts: []part{{Name: "x", N: &n}}, Ratio: 0.5}
	tree, err := json.TreeOf(v)
	require.NoError(t, err)
	require.Equal(t, int64(1<<53+1), tree.(map[string]any)["count"])
	require.Equal(t, 0.5, tree.(map[string]any)["ratio"])

	var back thing
	require.NoError(t, json.FromTree(tree, &back))
	again, err := json.TreeOf(back)
	require.NoError(t, err)
	require.Equal(t, tree, again)

	require.ErrorContains(t, json.FromTree(map[string]any{"parts": []any{map[string]any{"n": "x"}}}, &back), "parts[0].n")
	require.ErrorContains(t, json.FromTree(map[string]any{"count": 1}, &back), "count: Go type int")
	_, err = json.TreeOf(failing{})
	require.ErrorIs(t, err, errFailing)
}

func TestIndent(t *testing.T) {
	out, err := json.Indent([]byte(">"), []byte(`{"b":[1,{"a":"é<"}],"e":{},"f":[]}`))
	require.NoError(t, err)
	require.Equal(t, ">{\n  \"b\": [\n    1,\n    {\n      \"a\": \"é<\"\n    }\n  ],\n  \"e\": {},\n  \"f\": []\n}", string(out))
	out, err = json.Indent([]byte(">"), []byte(`{"a"`))
	require.Error(t, err)
	require.Equal(t, ">", string(out))
}

func TestAppendString(t *testing.T) {
	random.Check(t, func(t *random.T) {
		s := random.String().Draw(t, "s")
		var back string
		require.NoError(t, stdjson.Unmarshal(json.AppendString(nil, s), &back))
		require.Equal(t, s, back)
	})
	require.Equal(t, `"a�b"`, string(json.AppendString(nil, "a\xffb")))
}

func TestConcurrentUse(t *testing.T) {
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			tree := map[string]any{"name": strings.Repeat("x", i), "list": []any{int64(i), 0.5, map[string]any{"a": nil}}}
			for range 200 {
				text, err := json.AppendTree(nil, tree)
				if err != nil || !json.Equal(tree, decode(t, string(text))) {
					t.Errorf("worker %d: %s, %v", i, text, err)
				}
				if other, err := json.TreeOf(tree); err != nil || !json.Equal(tree, other) {
					t.Errorf("worker %d: %v, %v", i, other, err)
				}
			}
		})
	}
	group.Wait()
}
