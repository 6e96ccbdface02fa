package json_test

import (
	stdjson "encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
)

// everything has a field of each form that the conversions treat in a way of their own.
type everything struct {
	Base   `json:",inline"`
	Plain  string
	Text   string            `json:"text,omitempty"`
	Flag   bool              `json:"flag"`
	Small  int8              `json:"small,omitempty"`
	Large  int64             `json:"large,omitzero"`
	Count  uint16            `json:"count"`
	Ratio  float64           `json:"ratio"`
	Half   float32           `json:"half,omitempty"`
	Data   []byte            `json:"data"`
	Few    []byte            `json:"few,omitempty"`
	List   []string          `json:"list"`
	Named  []name            `json:"named,omitempty"`
	Items  []item            `json:"items"`
	Points []*item           `json:"points,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Bytes  map[name][]byte   `json:"bytes"`
	Parts  map[string]item   `json:"parts,omitempty"`
	Shy    map[string]shy    `json:"shy,omitempty"`
	Deep   map[string]hidden `json:"deep,omitempty"`
	Byte   map[int]string    `json:"byte,omitempty"`
	At     time.Time         `json:"at,omitzero"`
	For    time.Duration     `json:"for"`
	Raw    stdjson.RawMessage
	Any    any         `json:"any,omitempty"`
	Self   *everything `json:"self,omitempty"`
	Either either      `json:"either,omitzero"`
	Shyly  shy         `json:"shyly,omitempty"`
	Pair   [2]int32    `json:"pair"`
	Quoted quoted      `json:"quoted"`
	Clash  clash       `json:"clash"`
	None   *none       `json:"none,omitempty"`
	Not    string      `json:"-"`
}

type Base struct {
	Kind string `json:"kind,omitempty"`
	Item item   `json:"item,omitempty"`
}

type (
	name string
	item struct {
		Name  name   `json:"name"`
		Value *int32 `json:"value,omitempty"`
		Inner *item  `json:"inner,omitempty"`
	}
	none   struct{}
	quoted struct {
		N int `json:"n,string"`
	}
	clash struct {
		Base
		Kind string `json:"kind"`
	}
	hidden struct{ Shy shy }
)

// shy has a method of its pointer alone.
type shy struct{ Secret string }

func (s *shy) MarshalJSON() ([]byte, error) { return json.Marshal("shy " + s.Secret) }

// either is a number or a text.
type either struct {
	N int64
	S string
}

func (e either) IsZero() bool { return e.N == 7 || e == either{} }

func (e either) MarshalJSON() ([]byte, error) {
	if e.S != "" {
		return json.Marshal(e.S)
	}
	return json.Marshal(e.N)
}

func (e *either) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &e.S)
	}
	return json.Unmarshal(data, &e.N)
}

// TestValuesBecomeTheTreesOfTheirText compares with encoding to text and decoding that.
func TestValuesBecomeTheTreesOfTheirText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		v := new(everything)
		randomize(r, reflect.ValueOf(v).Elem(), 0)
		text, err := json.Marshal(v)
		require.NoError(t, err)
		want, err := json.DecodeTree(text, json.TreeOptions{})
		require.NoError(t, err)
		got, err := json.TreeOf(v)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestTreesBecomeTheValuesOfTheirText compares with encoding a tree to text and decoding that, with trees that
// fit the type and with trees of which a part was exchanged for something else.
func TestTreesBecomeTheValuesOfTheirText(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	failed := 0
	for range 6000 {
		v := new(everything)
		randomize(r, reflect.ValueOf(v).Elem(), 0)
		v.Shy, v.Deep, v.Shyly = nil, nil, shy{}
		tree, err := json.TreeOf(v)
		require.NoError(t, err)
		if r.IntN(3) > 0 {
			tree = damaged(r, tree)
		}
		text, err := json.AppendTree(nil, tree)
		require.NoError(t, err)
		want, got := new(everything), new(everything)
		wrong := json.Unmarshal(text, want)
		err = json.FromTree(tree, got)
		require.Equal(t, wrong, err, "%s", text)
		if wrong == nil {
			require.Equal(t, want, got, "%s", text)
		} else {
			failed++
		}
	}
	assert.Greater(t, failed, 500)
}

// TestEveryFieldMeetsEveryValue is the same for each field with each of the values that parts are exchanged for.
func TestEveryFieldMeetsEveryValue(t *testing.T) {
	for i := range reflect.TypeFor[everything]().NumField() {
		field := reflect.TypeFor[everything]().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		for _, value := range oddities() {
			tree := map[string]any{name: value}
			text, err := json.AppendTree(nil, tree)
			require.NoError(t, err)
			want, got := new(everything), new(everything)
			require.Equal(t, json.Unmarshal(text, want), json.FromTree(tree, got), "%s", text)
			require.Equal(t, want, got, "%s", text)
		}
	}
}

func TestValuesThatHoldThemselves(t *testing.T) {
	v := new(everything)
	v.Self = v
	_, err := json.TreeOf(v)
	require.Error(t, err)
	var typeError *json.TypeError
	require.ErrorAs(t, err, &typeError)

	tree := map[string]any{}
	tree["self"] = tree
	require.Error(t, json.FromTree(tree, v))
	require.Error(t, json.FromTree(tree, new(everything)))
}

func TestInvalidTextIsRejected(t *testing.T) {
	for _, v := range []everything{
		{Plain: "\xff"},
		{List: []string{"\xff"}},
		{Labels: map[string]string{"\xff": ""}},
		{Labels: map[string]string{"": "\xff"}},
		{Bytes: map[name][]byte{"\xff": nil}},
		{Ratio: nan()},
	} {
		_, err := json.TreeOf(&v)
		require.Error(t, err, "%+v", v)
	}
	for _, tree := range []map[string]any{
		{"Plain": "\xff"}, {"list": []any{"\xff"}}, {"labels": map[string]any{"\xff": ""}}, {"bytes": map[string]any{"\xff": nil}},
	} {
		require.Error(t, json.FromTree(tree, new(everything)), "%q", tree)
	}
}

func TestFilledValuesAreMerged(t *testing.T) {
	v := &item{Name: "a", Inner: &item{Name: "b"}}
	require.NoError(t, json.FromTree(map[string]any{"inner": map[string]any{"value": int64(1)}}, v))
	assert.Equal(t, name("a"), v.Name)
	assert.Equal(t, name("b"), v.Inner.Name)
}

func nan() float64 { zero := 0.0; return zero / zero }

// randomize sets a value, often to what is empty or at the edge of its type.
func randomize(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(3) == 0 || depth > 5 {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(r.Int64N(1e9), 0).UTC()
		return
	case *stdjson.RawMessage:
		*x = stdjson.RawMessage(`{"a":[1,1.0,null]}`)
		return
	case *any:
		*x = []any{nil, true, "x", 1.5, map[string]any{"a": 1e30}, float64(3)}[r.IntN(6)]
		return
	case *float64:
		*x = []float64{0.5, 3, -3, 1e20, 1e21, 1e300, 1 << 60}[r.IntN(7)]
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString([]string{"", "a", "\"\n<é>", "0123456789012345678901234567890123456789012345678901234567890123456789"}[r.IntN(4)])
	case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{1, -128, 127, 7}[r.IntN(4)])
	case reflect.Uint16, reflect.Uint8:
		v.SetUint([]uint64{1, 255}[r.IntN(2)])
	case reflect.Float32:
		v.SetFloat(float64(float32(0.1)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		randomize(r, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			randomize(r, v.Index(i), depth+1)
		}
	case reflect.Array:
		randomize(r, v.Index(0), depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			randomize(r, key, 0)
			randomize(r, value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				randomize(r, f, depth+1)
			}
		}
	default:
	}
}

// damaged returns a tree in which one value was exchanged.
func damaged(r *rand.Rand, tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for name := range v {
			if r.IntN(len(v)) == 0 {
				v[name] = damaged(r, v[name])
				return v
			}
		}
	case []any:
		if len(v) > 0 && r.IntN(3) > 0 {
			i := r.IntN(len(v))
			v[i] = damaged(r, v[i])
			return v
		}
	}
	all := oddities()
	return all[r.IntN(len(all))]
}

// oddities are values that may stand where others should.
func oddities() []any {
	return []any{
		nil, true, "", "text", "YQ==", "YQ=\n=", "YR==", int64(0), int64(-1), int64(300), int64(1) << 62, 1.5, 1e300,
		[]any{},
		[]any{nil},
		map[string]any{},
		map[string]any{"a": nil},
		map[string]any{"unknown": "x", "NAME": "x"},
	}
}
