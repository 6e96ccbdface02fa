package status_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

var widget = meta.GroupKind{Group: "example.dev", Kind: "Widget"}

func TestERR_22_InvalidNamesEveryField(t *testing.T) {
	var f status.Fields
	f.At("spec", "size").Invalid(int64(0), "must be at least 1")
	one := status.Invalid(widget, "a", f.Errors())
	require.EqualError(t, one, `Widget.example.dev "a" is invalid: spec.size: Invalid value: 0: must be at least 1`)

	f.At("spec", "parts").Index(2).Child("name").Required("")
	several := status.Invalid(widget, "a", f.Errors())
	require.EqualError(t, several,
		`Widget.example.dev "a" is invalid: [spec.size: Invalid value: 0: must be at least 1, spec.parts[2].name: Required value]`)
	require.Equal(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
		`"message":"Widget.example.dev \"a\" is invalid: [spec.size: Invalid value: 0: must be at least 1, spec.parts[2].name: Required value]",`+
		`"reason":"Invalid","details":{"name":"a","group":"example.dev","kind":"Widget","causes":[`+
		`{"reason":"FieldValueInvalid","message":"Invalid value: 0: must be at least 1","field":"spec.size"},`+
		`{"reason":"FieldValueRequired","message":"Required value","field":"spec.parts[2].name"}]},"code":422}`, document(t, several))

	require.EqualError(t, status.Invalid(widget, "a", nil), `Widget.example.dev "a" is invalid`)
	require.EqualError(t, status.Invalid(meta.GroupKind{Kind: "Namespace"}, "", f.Errors()[1:]), `Namespace "" is invalid: spec.parts[2].name: Required value`)
}

// Problems of query parameters have a kind of their own.
func TestInvalidOptions(t *testing.T) {
	var f status.Fields
	f.At("resourceVersionMatch").Forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
	require.EqualError(t, status.Invalid(meta.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", f.Errors()),
		`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`)
}

func TestInvalidSaysTheSameThingOnce(t *testing.T) {
	var f status.Fields
	f.At("x").Duplicate("v")
	f.At("x").Duplicate("v")
	e := status.Invalid(widget, "a", f.Errors())
	require.EqualError(t, e, `Widget.example.dev "a" is invalid: x: Duplicate value: "v"`)
	require.Len(t, e.Status().Details.Causes, 2)
}

func TestInvalidIsBounded(t *testing.T) {
	var f status.Fields
	for i := range 100_000 {
		f.At("spec", "items").Index(i).Required("")
	}
	e := status.Invalid(widget, "a", f.Errors())
	causes := len(e.Status().Details.Causes)
	require.Greater(t, causes, 400)
	require.True(t, strings.HasSuffix(e.Error(), fmt.Sprintf("spec.items[%d]: Required value, and %d more]", causes-1, 100_000-causes)))
	text, err := json.Marshal(e.Status())
	require.NoError(t, err)
	require.Less(t, len(text), 64<<10)
}

func TestInvalidIsBoundedHoweverLongAProblemIs(t *testing.T) {
	var f status.Fields
	f.At("spec").Required(strings.Repeat("long ", 1<<20))
	f.At("spec").Required(strings.Repeat("long ", 1<<20))
	e := status.Invalid(widget, "a", f.Errors())
	require.Len(t, e.Status().Details.Causes, 1)
	require.Less(t, len(e.Error()), 32<<10)
	require.True(t, strings.HasSuffix(e.Error(), ", and 1 more]"))
}

func TestFieldProblems(t *testing.T) {
	var f status.Fields
	at := f.At("f")
	stamp := meta.NewTime(time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC))
	at.Invalid("a\"b\n", "must be a color")
	at.Invalid("", "")
	at.Invalid(int64(5), "d")
	at.Invalid(int32(5), "d")
	at.Invalid(5, "d")
	at.Invalid(1.5, "d")
	at.Invalid(true, "d")
	at.Invalid(nil, "d")
	at.Invalid(uint64(0), "d")
	at.Invalid(map[string]any{"b": []any{"<"}, "a": int64(1)}, "d")
	at.Invalid([]string{"x"}, "d")
	at.Invalid(stamp, "d")
	at.Invalid(math.NaN(), "d")
	at.Invalid(unprintable{make(chan int)}, "d")
	at.Invalid(struct{ C complex64 }{1}, "d")
	at.Required("why")
	at.NotSupported("x", "a", "b")
	at.NotSupported("x")
	at.Duplicate("x")
	at.Forbidden("not now")
	at.TooLong(1)
	at.TooLong(63)
	at.TooMany(3, 1)
	at.TooMany(3, 2)
	at.TypeInvalid("x", "must be an integer")
	at.NotFound("x")
	f.Add(
		status.FieldError{Type: meta.CauseInternalError, Field: "f", Value: "secret", Detail: "cannot be checked"},
		status.FieldError{Type: meta.CauseFieldValueTooShort, Field: "f", Value: "hidden", Detail: "must have 3 bytes"},
		status.FieldError{Type: meta.CauseFieldValueTooFew, Field: "f", Value: int64(0), Detail: "must have an item"},
		status.FieldError{Type: "Unheard", Value: "x"},
	)
	want := []string{
		`f: Invalid value: "a\"b\n": must be a color`,
		`f: Invalid value: ""`,
		`f: Invalid value: 5: d`,
		`f: Invalid value: 5: d`,
		`f: Invalid value: 5: d`,
		`f: Invalid value: 1.5: d`,
		`f: Invalid value: true: d`,
		`f: Invalid value: null: d`,
		`f: Invalid value: 0: d`,
		`f: Invalid value: {"a":1,"b":["\u003c"]}: d`,
		`f: Invalid value: ["x"]: d`,
		`f: Invalid value: "2024-01-02T03:04:05Z": d`,
		`f: Invalid value: NaN: d`,
		`f: Invalid value: an unprintable thing: d`,
		`f: Invalid value: struct { C complex64 }{C:(1+0i)}: d`,
		`f: Required value: why`,
		`f: Unsupported value: "x": supported values: "a", "b"`,
		`f: Unsupported value: "x"`,
		`f: Duplicate value: "x"`,
		`f: Forbidden: not now`,
		`f: Too long: may not be more than 1 byte`,
		`f: Too long: may not be more than 63 bytes`,
		`f: Too many: 3: must have at most 1 item`,
		`f: Too many: 3: must have at most 2 items`,
		`f: Invalid value: "x": must be an integer`,
		`f: Not found: "x"`,
		`f: Internal error: cannot be checked`,
		`f: Too short: must have 3 bytes`,
		`f: Too few: 0: must have an item`,
		`Invalid value: "x"`,
	}
	require.Equal(t, len(want), f.Len())
	for i, e := range f.Errors() {
		require.Equal(t, want[i], e.String())
	}
	types := map[meta.CauseType]bool{}
	for _, e := range f.Errors() {
		types[e.Type] = true
	}
	require.Len(t, types, 13)
}

type unprintable struct{ c chan int }

func (unprintable) String() string { return "an unprintable thing" }

func TestLongValuesAreCut(t *testing.T) {
	for _, v := range []any{strings.Repeat("é", 1<<20), []string{strings.Repeat("é", 1<<20)}, strings.Repeat("\x80", 1<<20)} {
		m := status.FieldError{Type: meta.CauseFieldValueInvalid, Field: "f", Value: v, Detail: "d"}.Message()
		require.Less(t, len(m), 5000)
		require.True(t, utf8.ValidString(m))
		require.True(t, strings.HasSuffix(m, "…: d"), m)
	}
}

// A value with parts is shown as package encoding/json writes it, and a text alone as it is.
func TestValuesAreEscapedAsInJSON(t *testing.T) {
	for want, v := range map[string]any{
		`{"rule":"self.a \u003c 1 \u0026\u0026 self.b \u003e 2"}`: map[string]any{"rule": "self.a < 1 && self.b > 2"},
		`["\u2028\u2029é"]`:     []string{"\u2028\u2029é"},
		`"self.a < 1 && b > 2"`: "self.a < 1 && b > 2",
	} {
		m := status.FieldError{Type: meta.CauseFieldValueInvalid, Field: "f", Value: v, Detail: "d"}.Message()
		require.Equal(t, "Invalid value: "+want+": d", m)
	}
}

func TestErrorsAreACopy(t *testing.T) {
	var f status.Fields
	require.Empty(t, f.Errors())
	f.At().Required("")
	f.Errors()[0].Field = "changed"
	require.Empty(t, f.Errors()[0].Field)
	require.Equal(t, "Required value", f.Errors()[0].String())
}

func TestPaths(t *testing.T) {
	var none *status.Path
	for want, p := range map[string]*status.Path{
		"":                              none,
		"spec":                          status.At("spec"),
		"spec.size":                     status.At("spec", "size"),
		"spec.items[0].name":            status.At("spec", "items").Index(0).Child("name"),
		"metadata.labels[a.b/c]":        status.At("metadata").Child("labels").Key("a.b/c"),
		"[3]":                           none.Index(3),
		"[a][b].c":                      none.Key("a").Key("b").Child("c"),
		"spec.matrix[1][2]":             status.At("spec", "matrix").Index(1).Index(2),
		"metadata.annotations[x y].z.w": status.At("metadata", "annotations").Key("x y").Child("z").Child("w"),
	} {
		require.Equal(t, want, p.String())
	}
	require.Nil(t, status.At())
}

func TestPathsAreSharedSafely(t *testing.T) {
	items := status.At("spec", "items")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if got, want := items.Index(i).Child("name").String(), fmt.Sprintf("spec.items[%d].name", i); got != want {
				t.Errorf("%s is not %s", got, want)
			}
		})
	}
	wg.Wait()
	require.Equal(t, "spec.items", items.String())
}

func TestFieldsGoOnFromPaths(t *testing.T) {
	var f status.Fields
	part := f.In(status.At("spec", "parts").Index(1))
	part.Child("tags").Key("x").Duplicate("x")
	require.Equal(t, "spec.parts[1]", part.Path().String())
	require.Equal(t, `spec.parts[1].tags[x]: Duplicate value: "x"`, f.Errors()[0].String())
}

// A name that no object can have comes back in part.
func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	widgets := meta.GroupResource{Group: "example.dev", Resource: "widgets"}
	for _, err := range []*status.Error{
		status.NotFound(widgets, long), status.AlreadyExists(widgets, long), status.Conflict(widgets, long, "why"), status.Forbidden(widgets, long, "why"), status.Invalid(meta.GroupKind{Kind: "Widget"}, long, nil),
	} {
		require.Less(t, len(err.Error()), 500)
		require.True(t, utf8.ValidString(err.Error()))
		require.Less(t, len(err.Status().Details.Name), 300)
	}
	require.Equal(t, strings.Repeat("x", 253), status.NotFound(widgets, strings.Repeat("x", 253)).Status().Details.Name)
}

// S1: a hundred thousand problems cost little more than their number. An answer shows a thousand.
func TestS1_ManyProblems(t *testing.T) {
	report := func(n int) *status.Fields {
		f := &status.Fields{}
		for i := range n {
			f.At("spec", "limits").Index(i).Child("max").Invalid(i, "must not be so")
		}
		return f
	}
	few, many := report(5_000), report(100_000)
	require.Equal(t, 100_000, many.Len())
	require.Equal(t, few.Errors()[:4000], many.Errors()[:4000])
	require.Equal(t, status.FieldError{Type: meta.CauseFieldValueInvalid}, many.Errors()[99_999])
	all := status.Invalid(meta.GroupKind{Kind: "LimitRange"}, "a", many.Errors())
	require.Contains(t, all.Error(), "and 99")
	before := testing.AllocsPerRun(1, func() { report(5_000) })
	require.Less(t, testing.AllocsPerRun(1, func() { report(6_000) })-before, 7_000.0, "six for each, for its path")
}
