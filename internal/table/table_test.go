package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

const widget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"annotations":{"note":"a \"quoted\" } ] \\"},"creationTimestamp":"2026-11-21T08:00:00Z",` +
	`"name":"a","namespace":"default","resourceVersion":"42","uid":"u"},"spec":{"color":"red","size":7},"status":{"conditions":[{"status":"False","type":"Ready"},{"status":"True","type":"Live"}],"phase":"Up"}}`

var columns = []openapi.Column{
	{Name: "Size", Type: "integer", Format: "int32", Description: "How large.", Path: []string{"spec", "size"}},
	{Name: "Color", Type: "string", Path: []string{"spec", "color"}, Priority: 1},
	{Name: "Owner", Type: "string", Path: []string{"spec", "owner"}},
	{Name: "Live", Type: "string", Path: []string{"status", "conditions", "1", "status"}},
	{Name: "Age", Type: "date", Path: []string{"metadata", "creationTimestamp"}},
}

func now() time.Time { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }

func layout(t testing.TB, columns []openapi.Column) *Layout {
	t.Helper()
	l, err := New(columns)
	require.NoError(t, err)
	return l
}

func decode(t testing.TB, data []byte) meta.Table {
	t.Helper()
	var table meta.Table
	require.NoError(t, json.Unmarshal(data, &table), "%s", data)
	return table
}

// list writes a complete table.
func list(t testing.TB, w *Writer, lm meta.ListMeta, objects ...string) meta.Table {
	t.Helper()
	dst := w.AppendHead(nil)
	var err error
	for _, o := range objects {
		dst, err = w.AppendRow(dst, []byte(o))
		require.NoError(t, err)
	}
	dst, err = w.AppendTail(dst, lm)
	require.NoError(t, err)
	return decode(t, dst)
}

func TestTABLE_02_KindAndVersion(t *testing.T) {
	l := layout(t, nil)
	got := list(t, l.Writer(Options{}), meta.ListMeta{})
	require.Equal(t, meta.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, got.TypeMeta)
	require.NotNil(t, got.Rows, "no rows is an empty list")
	got = list(t, l.Writer(Options{APIVersion: "meta.example.org/v1beta1"}), meta.ListMeta{})
	require.Equal(t, "meta.example.org/v1beta1", got.APIVersion, "TABLE-11")
}

func TestTABLE_05_DefaultColumns(t *testing.T) {
	got := list(t, layout(t, nil).Writer(Options{Now: now}), meta.ListMeta{}, widget, strings.Replace(widget, "2026-11-21T08:00:00Z", "2026-11-21T09:30:00+02:00", 1))
	require.Len(t, got.ColumnDefinitions, 2)
	require.Equal(t, meta.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "The name of the object."}, got.ColumnDefinitions[0])
	require.Equal(t, "Created At", got.ColumnDefinitions[1].Name)
	require.Equal(t, "date", got.ColumnDefinitions[1].Type)
	require.Equal(t, []any{"a", "2026-11-21T08:00:00Z"}, got.Rows[0].Cells)
	require.Equal(t, []any{"a", "2026-11-21T07:30:00Z"}, got.Rows[1].Cells, "in UTC")
}

func TestTABLE_07_OwnColumns(t *testing.T) {
	got := list(t, layout(t, columns).Writer(Options{Now: now}), meta.ListMeta{}, widget)
	require.Equal(t, []meta.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "The name of the object."},
		{Name: "Size", Type: "integer", Format: "int32", Description: "How large."},
		{Name: "Color", Type: "string", Priority: 1},
		{Name: "Owner", Type: "string"},
		{Name: "Live", Type: "string"},
		{Name: "Age", Type: "date"},
	}, got.ColumnDefinitions)
	require.Equal(t, []any{"a", 7.0, "red", nil, "True", "3d4h"}, got.Rows[0].Cells, "TABLE-04")
}

func TestTABLE_07_OwnNameColumn(t *testing.T) {
	own := []openapi.Column{{Name: "Color", Type: "string", Path: []string{"spec", "color"}}, {Name: "Called", Type: "string", Format: "name", Path: []string{"metadata", "name"}}}
	got := list(t, layout(t, own).Writer(Options{}), meta.ListMeta{}, widget)
	require.Len(t, got.ColumnDefinitions, 2)
	require.Equal(t, []any{"red", "a"}, got.Rows[0].Cells)
}

func TestTABLE_03_IncompleteColumns(t *testing.T) {
	for _, c := range []openapi.Column{{Type: "string", Path: []string{"a"}}, {Name: "A", Path: []string{"a"}}, {Name: "A", Type: "string"}} {
		_, err := New([]openapi.Column{c})
		require.ErrorContains(t, err, "must be set")
	}
	_, err := New([]openapi.Column{{Name: "\xff", Type: "string", Path: []string{"a"}}})
	require.ErrorContains(t, err, "column definitions")
}

func TestTABLE_08_IncludeObject(t *testing.T) {
	l := layout(t, nil)
	for include, want := range map[meta.IncludeObjectPolicy]string{
		"":                   `"PartialObjectMetadata"`,
		meta.IncludeMetadata: `"PartialObjectMetadata"`,
		meta.IncludeObject:   `"Widget"`,
	} {
		got := list(t, l.Writer(Options{Include: include}), meta.ListMeta{}, widget)
		var object struct {
			Kind     json.RawMessage `json:"kind"`
			Metadata json.RawMessage `json:"metadata"`
			Spec     json.RawMessage `json:"spec"`
		}
		require.NoError(t, json.Unmarshal(got.Rows[0].Object, &object))
		require.Equal(t, want, string(object.Kind))
		require.Contains(t, widget, `"metadata":`+string(object.Metadata)+`,"spec"`, "the metadata as they are")
		require.Equal(t, include == meta.IncludeObject, object.Spec != nil)
	}
	got := list(t, l.Writer(Options{Include: meta.IncludeNone}), meta.ListMeta{}, widget)
	require.Empty(t, got.Rows[0].Object)
}

func TestTABLE_09_ListMetadata(t *testing.T) {
	remaining := int64(3)
	lm := meta.ListMeta{ResourceVersion: "99", Continue: "abc", RemainingItemCount: &remaining}
	w := layout(t, columns).Writer(Options{})
	require.Equal(t, lm, list(t, w, lm, widget, widget).ListMeta)
	got := list(t, w, meta.ListMeta{}, widget)
	require.Equal(t, meta.ListMeta{}, got.ListMeta, "a writer can be used again")
	require.Len(t, got.Rows, 1)
}

func TestTABLE_01_SingleObject(t *testing.T) {
	dst, err := layout(t, nil).Writer(Options{}).AppendObject([]byte("before "), []byte(widget), true)
	require.NoError(t, err)
	got := decode(t, bytes.TrimPrefix(dst, []byte("before ")))
	require.Equal(t, "42", got.ResourceVersion)
	require.Len(t, got.Rows, 1)
	require.Len(t, got.ColumnDefinitions, 2)
}

func TestWATCH_33_DefinitionsInTheFirstEventOnly(t *testing.T) {
	w := layout(t, nil).Writer(Options{})
	first, err := w.AppendObject(nil, []byte(widget), true)
	require.NoError(t, err)
	second, err := w.AppendObject(nil, []byte(widget), false)
	require.NoError(t, err)
	require.Len(t, decode(t, first).ColumnDefinitions, 2)
	require.Nil(t, decode(t, second).ColumnDefinitions)
	require.Equal(t, decode(t, first).Rows, decode(t, second).Rows)

	bookmark, err := w.AppendObject(nil, []byte(`{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"77"}}`), false)
	require.NoError(t, err)
	got := decode(t, bookmark)
	require.Equal(t, "77", got.ResourceVersion)
	require.Equal(t, []any{nil, nil}, got.Rows[0].Cells)
}

func TestAgesMoveOn(t *testing.T) {
	at := now()
	w := layout(t, columns).Writer(Options{Now: func() time.Time { return at }})
	require.Equal(t, "3d4h", list(t, w, meta.ListMeta{}, widget).Rows[0].Cells[5])
	at = at.Add(24 * time.Hour)
	require.Equal(t, "4d4h", list(t, w, meta.ListMeta{}, widget).Rows[0].Cells[5])
}

func TestTABLE_04_Cells(t *testing.T) {
	for _, c := range []struct{ columnType, value, want string }{
		{"string", `"a\"é"`, `"a\"é"`},
		{"string", `7`, `"7"`},
		{"string", `true`, `"true"`},
		{"string", `{"a":["b"]}`, `"{\"a\":[\"b\"]}"`},
		{"string", `null`, `null`},
		{"integer", `9223372036854775807`, `9223372036854775807`},
		{"integer", `-3`, `-3`},
		{"integer", `2.75`, `2`},
		{"integer", `1e300`, `null`},
		{"integer", `"7"`, `null`},
		{"number", `2.75`, `2.75`},
		{"number", `[1]`, `null`},
		{"boolean", `false`, `false`},
		{"boolean", `"true"`, `null`},
		{"date", `"2026-11-24T11:55:00Z"`, `"5m"`},
		{"date", `"2026-11-24T11:55:00.123456Z"`, `"4m59s"`},
		{"date", `"2026-11-24T12:00:01Z"`, `"0s"`},
		{"date", `"2026-11-24T12:00:10Z"`, `"\u003cinvalid\u003e"`},
		{"date", `"yesterday"`, `"\u003cinvalid\u003e"`},
		{"date", `5`, `null`},
		{"date", `null`, `null`},
		{"array", `[1,"x"]`, `"[1,\"x\"]"`},
	} {
		t.Run(c.columnType+" "+c.value, func(t *testing.T) {
			l := layout(t, []openapi.Column{{Name: "X", Type: c.columnType, Path: []string{"x"}}})
			got := list(t, l.Writer(Options{Now: now}), meta.ListMeta{}, `{"metadata":{"name":"a"},"x":`+c.value+`,"y":{}}`)
			cell, err := json.Marshal(got.Rows[0].Cells[1])
			require.NoError(t, err)
			if c.columnType == "integer" && c.want != "null" { // the standard library rounds
				raw, err := l.Writer(Options{}).AppendRow(nil, []byte(`{"x":`+c.value+`}`))
				require.NoError(t, err)
				require.Contains(t, string(raw), `"cells":[null,`+c.want+`]`)
				return
			}
			require.Equal(t, c.want, string(cell))
		})
	}
}

func TestAgeOfATimestamp(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-11-21T11:59:00Z": "60s", "": "<unknown>", "null": "<unknown>", "0001-01-01T00:00:00Z": "<unknown>", "noon": "<invalid>", `"`: "<invalid>",
	} {
		require.Equal(t, want, AgeOf(text, now), text)
	}
}

func TestAge(t *testing.T) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Hour: "<invalid>", -2 * time.Second: "<invalid>", -1999 * time.Millisecond: "0s", 0: "0s", 999 * time.Millisecond: "0s", time.Second: "1s",
		119 * time.Second: "119s", 2 * time.Minute: "2m", 2*time.Minute + time.Second: "2m1s", 9*time.Minute + 59*time.Second: "9m59s", 10 * time.Minute: "10m",
		10*time.Minute + 30*time.Second: "10m", 179 * time.Minute: "179m", 3 * time.Hour: "3h", 3*time.Hour + time.Minute: "3h1m", 8 * time.Hour: "8h", 47*time.Hour + 59*time.Minute: "47h",
		2 * day: "2d", 2*day + time.Hour: "2d1h", 7*day + 23*time.Hour: "7d23h", 8*day + 5*time.Hour: "8d", 2*year - time.Second: "729d", 2 * year: "2y", 2*year + day: "2y1d", 8*year - time.Second: "7y364d", 8*year + 100*day: "8y",
	} {
		require.Equal(t, want, Age(d), d.String())
	}
}

func TestTABLE_10_PartialObjectMetadata(t *testing.T) {
	m := NewMetadata("")
	one, err := m.AppendObject(nil, []byte(widget))
	require.NoError(t, err)
	var object, want meta.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(one, &object))
	require.NoError(t, json.Unmarshal([]byte(widget), &want))
	want.TypeMeta = meta.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	require.Equal(t, want, object)
	require.NotContains(t, string(one), "spec")

	m = NewMetadata("meta.k8s.io/v1beta1")
	for range 2 { // the second time with the same writer
		dst := m.AppendHead(nil)
		for range 3 {
			dst, err = m.AppendItem(dst, []byte(widget))
			require.NoError(t, err)
		}
		dst, err = m.AppendTail(dst, meta.ListMeta{ResourceVersion: "9", Continue: "c"})
		require.NoError(t, err)
		var list meta.PartialObjectMetadataList
		require.NoError(t, json.Unmarshal(dst, &list), "%s", dst)
		require.Equal(t, meta.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1beta1"}, list.TypeMeta)
		require.Equal(t, meta.ListMeta{ResourceVersion: "9", Continue: "c"}, list.ListMeta)
		require.Len(t, list.Items, 3)
		require.Equal(t, "PartialObjectMetadata", list.Items[2].Kind)
		require.Equal(t, want.ObjectMeta, list.Items[2].ObjectMeta)
	}
}

func TestObjectWithoutMetadata(t *testing.T) {
	dst, err := NewMetadata("").AppendObject(nil, []byte(`{"spec":{}}`))
	require.NoError(t, err)
	require.Equal(t, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}`, string(dst))
}

// Any text either is rejected or gives a table. After an error, the buffer is unchanged.
func TestDamagedText(t *testing.T) {
	l := layout(t, columns)
	damaged := []string{"", "null", "[]", `"x"`, "{", `{"metadata"`, `{"metadata":`, `{"metadata":{`, `{"a":"\`, `{"a":"\\\"`, `{]`, `{"a":}`, `{"spec":[1`, `{"spec":[1;`, `{"spec":[]`, `{1:2}`}
	for n := range len(widget) - 1 {
		damaged = append(damaged, widget[:n])
	}
	for _, text := range damaged {
		dst, err := l.Writer(Options{}).AppendRow([]byte("x"), []byte(text))
		require.ErrorContains(t, err, "damaged", "%q", text)
		require.Equal(t, "x", string(dst))
		dst, err = l.Writer(Options{}).AppendObject([]byte("x"), []byte(text), true)
		require.Error(t, err)
		require.Equal(t, "x", string(dst))
		m := NewMetadata("")
		dst, err = m.AppendItem([]byte("x"), []byte(text))
		require.Error(t, err)
		require.Equal(t, "x", string(dst))
	}
}

// The finder finds the same values as decoding does, in random objects.
func TestFinderMatchesDecoding(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	paths := [][]string{{"a"}, {"a", "b"}, {"a", "b", "0"}, {"b", "a"}, {"\"", "\\"}, {"é", "1", "a"}, {"1"}, {"b", "1", "1"}}
	var columns []openapi.Column
	for i, p := range paths {
		columns = append(columns, openapi.Column{Name: fmt.Sprint(i), Type: "string", Path: p})
	}
	l := layout(t, columns)
	f := l.finder()
	hits := 0
	for range 3000 {
		object := map[string]any{}
		for len(object) == 0 {
			object = randomObject(rng, 4)
		}
		var buf bytes.Buffer
		encoder := json.NewEncoder(&buf)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(object))
		text := bytes.TrimSpace(buf.Bytes())
		require.NoError(t, f.find(text, l.root), "%s", text)
		for i, p := range paths {
			want, ok := lookup(object, p)
			found := f.found[slotColumns+1+i]
			require.Equal(t, ok, found != nil, "%v in %s", p, text)
			if ok {
				hits++
				var got any
				require.NoError(t, json.Unmarshal(found, &got), "%v in %s", p, text)
				require.Equal(t, want, got)
			}
		}
	}
	require.Greater(t, hits, 500)
}

func lookup(v any, path []string) (any, bool) {
	for _, segment := range path {
		switch c := v.(type) {
		case map[string]any:
			next, ok := c[segment]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i := position(segment)
			if i < 0 || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func randomObject(rng *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	names := []string{"a", "b", "\"", "\\", "é", "1", "0", "}{"}
	for range rng.IntN(5) {
		out[names[rng.IntN(len(names))]] = randomValue(rng, depth-1)
	}
	return out
}

func randomValue(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(8); {
	case n < 3 && depth > 0:
		return randomObject(rng, depth)
	case n < 5 && depth > 0:
		list := []any{}
		for range rng.IntN(4) {
			list = append(list, randomValue(rng, depth-1))
		}
		return list
	case n == 5:
		return float64(rng.IntN(1000)) / 8
	case n == 6:
		return []any{nil, true, false}[rng.IntN(3)]
	}
	return []string{"", "\\", "\"", "]},", "a\\\"b", "é\n"}[rng.IntN(6)]
}

func TestRowsAllocateLittle(t *testing.T) {
	w := layout(t, columns).Writer(Options{Now: now})
	dst := w.AppendHead(make([]byte, 0, 1<<20))
	object := []byte(widget)
	head := len(dst)
	allocations := testing.AllocsPerRun(100, func() {
		var err error
		dst, err = w.AppendRow(dst[:head], object)
		require.NoError(t, err)
	})
	require.LessOrEqual(t, allocations, 4.0)
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(widget))
	f.Add([]byte(`{"spec":{"size":1e5}}`))
	l := layout(f, columns)
	f.Fuzz(func(t *testing.T, object []byte) {
		dst, err := l.Writer(Options{Now: now}).AppendRow(nil, object)
		if err != nil {
			require.Empty(t, dst)
			return
		}
		var compact bytes.Buffer
		if json.Compact(&compact, object) == nil && bytes.Equal(compact.Bytes(), object) {
			require.True(t, json.Valid(dst), "%s", dst)
		}
	})
}

func BenchmarkRow(b *testing.B) {
	l := layout(b, columns)
	object := []byte(strings.Replace(widget, "quoted", strings.Repeat("x", 1024-len(widget)), 1))
	w := l.Writer(Options{Now: now})
	dst := w.AppendHead(nil)
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		var err error
		if dst, err = w.AppendRow(dst[:0], object); err != nil {
			b.Fatal(err)
		}
	}
}

// A function can compute a cell from several values, some of which may be absent.
func TestTABLE_07_ColumnsMadeByFunctions(t *testing.T) {
	join := func(_ time.Time, values []any) any { return fmt.Sprintf("%v/%v", values[0], values[1]) }
	l, err := New([]openapi.Column{
		{Name: "Name", Type: "string", Format: "name", Path: []string{"metadata", "name"}},
		{Name: "Joined", Type: "string", Paths: [][]string{{"spec", "a"}, {"spec", "b"}}, Cell: join},
		{Name: "Age", Type: "string", Paths: [][]string{{"spec"}}, Cell: func(now time.Time, values []any) any {
			spec, _ := values[0].(map[string]any)
			n, _ := spec["n"].(int64)
			return now.Unix() + n
		}},
		{Name: "Bad", Type: "string", Paths: [][]string{{"spec"}}, Cell: func(time.Time, []any) any { return struct{}{} }},
		{Name: "Fields", Type: "integer", Paths: [][]string{{}}, Cell: func(_ time.Time, values []any) any {
			object, _ := values[0].(map[string]any)
			return int64(len(object))
		}},
	})
	require.NoError(t, err)
	w := l.Writer(Options{Include: meta.IncludeNone, Now: func() time.Time { return time.Unix(40, 0) }})
	for object, want := range map[string]string{
		`{"metadata":{"name":"x"},"spec":{"a":"\"q\"","b":[1,2.5],"n":2}}`: `["x","\"q\"/[1 2.5]",42,null,2]`,
		`{"metadata":{"name":"x"},"spec":{"b":true}}`:                      `["x","<nil>/true",40,null,2]`,
		`{"metadata":{"name":"x"}}`:                                        `["x","<nil>/<nil>",40,null,1]`,
	} {
		out, err := w.AppendObject(nil, []byte(object), false)
		require.NoError(t, err)
		require.Contains(t, string(out), `"cells":`+want)
	}
	for _, c := range []openapi.Column{{Name: "X", Type: "string", Cell: join}, {Name: "X", Type: "string", Paths: [][]string{{"a"}}}} {
		_, err := New([]openapi.Column{c})
		require.ErrorContains(t, err, "path")
	}
}

// The position of the managed fields does not affect the output of a writer.
func TestManagedFieldsAreSteppedOver(t *testing.T) {
	const (
		head    = `{"kind":"Widget","metadata":{"labels":{"a":"b"},`
		managed = `"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"k:{\"a\":\"b\"}":{}}}}],`
		tail    = `"name":"w","resourceVersion":"7"},"spec":{"size":3}}`
	)
	name := openapi.Column{Name: "Name", Type: "string", Format: "name", Path: []string{"metadata", "name"}}
	manager := openapi.Column{Name: "Manager", Type: "string", Path: []string{"metadata", "managedFields", "0", "manager"}}
	for _, columns := range [][]openapi.Column{nil, {name, manager}} {
		plain, told := layout(t, columns).Writer(Options{}), layout(t, columns).Writer(Options{})
		for _, text := range []string{head + managed + tail, head + tail, `{}`} {
			for _, at := range [][2]int{{0, 0}, {len(head), len(head) + len(managed)}, {len(head), 1 << 20}, {1, len(head)}, {-1, 9}, {len(head) + 5, len(head)}} {
				want, err := plain.AppendObject(nil, []byte(text), true)
				require.NoError(t, err)
				told.Managed(at[0], at[1])
				got, err := told.AppendObject(nil, []byte(text), true)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got), "%v", at)
			}
		}
	}
	// The position applies to the next object only, and the bytes there are not read.
	w := layout(t, nil).Writer(Options{})
	broken := head + strings.Replace(managed, "}}],", `}}],"`, 1)
	for _, ok := range []bool{true, false} {
		if ok {
			w.Managed(len(head), len(broken))
		}
		_, err := w.AppendObject(nil, []byte(broken+tail), true)
		require.Equal(t, ok, err == nil)
	}
}

func TestTABLE_04_RowsAreKeptWithoutTheirAges(t *testing.T) {
	name := openapi.Column{Name: "Name", Type: "string", Format: "name", Path: []string{"metadata", "name"}}
	age := openapi.Column{Name: "Age", Type: "date", Path: []string{"metadata", "creationTimestamp"}}
	created := openapi.Column{Name: "Created At", Type: "date", Path: []string{"metadata", "creationTimestamp"}}
	odd := openapi.Column{Name: "Odd", Type: "date", Path: []string{"spec", "color"}}
	timed := openapi.Column{Name: "Timed", Type: "string", Paths: [][]string{{"spec"}}, Cell: func(now time.Time, _ []any) any { return now.String() }}
	made := openapi.Column{Name: "Made", Type: "string", Paths: [][]string{{"spec"}}, Lasting: true, Cell: func(time.Time, []any) any { return "x" }}
	aged := openapi.Column{Name: "Aged", Type: "string", Paths: [][]string{{"spec"}}, Lasting: true, Cell: func(time.Time, []any) any {
		return openapi.Aged{Before: "\"é<", Since: now().Add(-90*time.Second - time.Millisecond), After: " \\ago>"}
	}}
	broken := openapi.Column{Name: "Broken", Type: "string", Paths: [][]string{{"spec"}}, Lasting: true, Cell: func(time.Time, []any) any { panic("boom") }}
	for i, c := range []struct {
		columns []openapi.Column
		lasting bool
		ages    int
	}{
		{nil, true, 0},
		{[]openapi.Column{name, created}, true, 0},
		{[]openapi.Column{name, age}, true, 1},
		{[]openapi.Column{name, odd}, true, 0},
		{[]openapi.Column{name, timed}, false, 0},
		{[]openapi.Column{name, made}, true, 0},
		{[]openapi.Column{age, aged, broken, age, name}, true, 3},
	} {
		at := now()
		w := layout(t, c.columns).Writer(Options{Now: func() time.Time { return at }})
		require.Equal(t, c.lasting, w.Lasting(), i)
		if !c.lasting {
			continue
		}
		young := strings.Replace(widget, "2026-11-21T08:00:00Z", "2026-11-24T11:59:59.5Z", 1)
		none := strings.Replace(widget, `"2026-11-21T08:00:00Z"`, "null", 1)
		rows := func() (out []byte) {
			w.AppendHead(nil)
			for n, object := range []string{widget, young, none} {
				if n > 0 {
					out = append(out, ',')
				}
				var err error
				out, err = w.AppendSoleRow(out, []byte(object))
				require.NoError(t, err)
			}
			return out
		}
		w.Keep(nil)
		kept := w.Kept(rows())
		before, agesBefore := "", ""
		for _, later := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Second, time.Hour, 1000 * time.Hour} {
			at = now().Add(later)
			want := rows()
			require.Equal(t, "x"+string(want), string(w.AppendKept([]byte("x"), kept)))
			require.Truef(t, json.Valid([]byte("["+string(want)+"]")), "%s", want)
			ages := string(w.AppendAges(nil, kept))
			require.Equal(t, string(want) == before, ages == agesBefore && before != "", "%d %s", i, later)
			require.GreaterOrEqual(t, strings.Count(ages, " "), 2*c.ages)
			before, agesBefore = string(want), ages
		}
	}
}

// A function that panics costs its own cells, not the table.
func TestTABLE_04_AColumnThatPanics(t *testing.T) {
	broken := openapi.Column{Name: "Broken", Type: "string", Paths: [][]string{{"spec", "size"}}, Cell: func(_ time.Time, v []any) any { return v[0].(string) }}
	var failures []error
	w := layout(t, []openapi.Column{broken}).Writer(Options{Failed: func(err error) { failures = append(failures, err) }})
	got := list(t, w, meta.ListMeta{}, widget, `{"metadata":{"name":"b"},"spec":{"size":"s"}}`, widget)
	require.Equal(t, []any{"a", nil}, got.Rows[0].Cells)
	require.Equal(t, []any{"b", "s"}, got.Rows[1].Cells)
	require.Equal(t, []any{"a", nil}, got.Rows[2].Cells)
	require.Len(t, failures, 1)
	require.ErrorContains(t, failures[0], "the column Broken panicked")
	require.Equal(t, []any{"a", nil}, list(t, layout(t, []openapi.Column{broken}).Writer(Options{}), meta.ListMeta{}, widget).Rows[0].Cells)
}

// What a row may take is shared by its columns, and each row has it anew.
func TestS1_ColumnsOfARowShareSteps(t *testing.T) {
	calls := 0
	costly := openapi.Column{Type: "string", Paths: [][]string{{"spec"}}, Cell: func(time.Time, []any) any {
		calls++
		return Worked{Cell: "x", Steps: 1 << 16}
	}}
	columns := []openapi.Column{{Name: "Name", Type: "string", Format: "name", Path: []string{"metadata", "name"}}}
	for range 100 {
		costly.Name = "C"
		columns = append(columns, costly)
	}
	layout, err := New(columns)
	require.NoError(t, err)
	w := layout.Writer(Options{Include: meta.IncludeNone})
	for range 2 {
		calls = 0
		row, err := w.AppendSoleRow(nil, []byte(`{"metadata":{"name":"a"},"spec":{"a":1}}`))
		require.NoError(t, err)
		require.Equal(t, 3, calls, "the one that exceeds the steps is shown")
		require.Equal(t, 97, strings.Count(string(row[:bytes.Index(row, []byte(`"object"`))]), "null"))
	}
}

// A cell that makes a row too long is null. Shorter ones after it are shown.
func TestS1_ColumnsOfARowShareARoom(t *testing.T) {
	columns := []openapi.Column{{Name: "Name", Type: "string", Format: "name", Path: []string{"metadata", "name"}}}
	for range 100 {
		columns = append(columns, openapi.Column{Name: "C", Type: "string", Path: []string{"spec"}})
	}
	columns = append(columns, openapi.Column{Name: "D", Type: "string", Path: []string{"metadata", "name"}})
	layout, err := New(columns)
	require.NoError(t, err)
	text := strings.Repeat("x", 300<<10)
	row, err := layout.Writer(Options{Include: meta.IncludeNone}).AppendSoleRow(nil, []byte(`{"metadata":{"name":"a"},"spec":"`+text+`"}`))
	require.NoError(t, err)
	require.Less(t, len(row), 1<<20+3*len(text))
	require.Equal(t, 5, strings.Count(string(row), text))
	require.True(t, bytes.HasSuffix(row, []byte(`null,"a"],"object":null}`)), "%.100s", row[len(row)-50:])
}
