package patch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/status"
)

// list returns a JSON patch with n operations.
func list(n int, operation func(i int) string) []byte {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(operation(i))
	}
	b.WriteByte(']')
	return []byte(b.String())
}

func same(operation string) func(int) string { return func(int) string { return operation } }

func TestPATCH_14_Operations(t *testing.T) {
	small := object(t, `{"metadata":{"labels":{"a":"b"}},"spec":{"size":1}}`)
	for name, operation := range map[string]func(int) string{
		"replace": same(`{"op":"replace","path":"/spec/size","value":2}`),
		"test":    same(`{"op":"test","path":"/spec/size","value":1}`),
		"add":     func(i int) string { return fmt.Sprintf(`{"op":"add","path":"/metadata/labels/k%d","value":"v"}`, i) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := JSON(small, list(MaxOperations, operation), Options{})
			require.NoError(t, err)
			_, err = JSON(small, list(MaxOperations+1, operation), Options{})
			require.Equal(t, http.StatusRequestEntityTooLarge, status.CodeOf(err))
			require.EqualError(t, err, "The allowed maximum operations in a JSON patch is 10000, got 10001")
		})
	}
}

func TestB10_CopiesDouble(t *testing.T) {
	body := list(40, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/spec","path":"/spec/x%d"}`, i) })
	_, err := JSON(object(t, `{"spec":{"l":["0123456789"]}}`), body, Options{})
	require.Equal(t, http.StatusRequestEntityTooLarge, status.CodeOf(err), "%v", err)

	body = list(40, same(`{"op":"copy","from":"/spec/l","path":"/spec/l/-"}`))
	_, err = JSON(object(t, `{"spec":{"l":["0123456789"]}}`), body, Options{})
	require.Equal(t, http.StatusRequestEntityTooLarge, status.CodeOf(err), "%v", err)

	// The limit applies to the sum, not to each copy.
	half := strings.Repeat("x", MaxCopiedBytes/2)
	copies := func(n int) []byte {
		return list(n, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/a","path":"/b%d"}`, i) })
	}
	_, err = JSON(object(t, `{"a":"`+half[:len(half)-10]+`"}`), copies(2), Options{})
	require.NoError(t, err)
	_, err = JSON(object(t, `{"a":"`+half+`"}`), copies(2), Options{})
	require.Equal(t, http.StatusRequestEntityTooLarge, status.CodeOf(err), "%v", err)
}

// Patches that would keep a processor busy for a long time are rejected. The reference of each case
// is a patch that is allowed.
func TestB12_Cost(t *testing.T) {
	numbers := func(n int) string { return `{"l":[` + strings.Repeat("1,", n-1) + `1]}` }
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return `{"l":{` + b.String() + `"z":1}}`
	}
	nested := func(levels, bytes int) string {
		return strings.Repeat(`{"a":`, levels) + `"` + strings.Repeat("x", bytes) + `"` + strings.Repeat("}", levels)
	}
	for name, c := range map[string]struct {
		original  string
		n         int
		operation string
		allowed   bool
	}{
		"removing from a long list":       {numbers(300_000), 5_000, `{"op":"remove","path":"/l/0"}`, false},
		"removing little from it":         {numbers(300_000), 5, `{"op":"remove","path":"/l/0"}`, true},
		"removing from a short list":      {numbers(10_001), 5_000, `{"op":"remove","path":"/l/0"}`, true},
		"a map of many names":             {names(100_000), 10_000, `{"op":"add","path":"/l/new","value":1}`, false},
		"one name of many":                {names(100_000), 1, `{"op":"add","path":"/l/new","value":1}`, true},
		"deep in something large":         {nested(400, 1<<20), 1, `{"op":"add","path":"` + strings.Repeat("/a", 399) + `/b","value":1}`, false},
		"deep in something small":         {nested(400, 1<<10), 1, `{"op":"add","path":"` + strings.Repeat("/a", 399) + `/b","value":1}`, true},
		"not deep in something large":     {nested(400, 1<<20), 1, `{"op":"add","path":"/a/a/a/b","value":1}`, true},
		"the list is in the patch itself": {`{}`, 1, `{"op":"add","path":"/l","value":[` + strings.Repeat("1,", 299_999) + `1]},` + strings.TrimSuffix(strings.Repeat(`{"op":"remove","path":"/l/0"},`, 5000), ","), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := JSON(object(t, c.original), list(c.n, same(c.operation)), Options{})
			if c.allowed {
				require.NoError(t, err)
				return
			}
			require.Equal(t, http.StatusRequestEntityTooLarge, status.CodeOf(err), "%v", err)
		})
	}
}

func TestB12_MergeOfManyNulls(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"spec":{`)
	for i := range 60_000 {
		fmt.Fprintf(&b, `"k%d":null,`, i)
	}
	b.WriteString(`"z":null}}`)
	got, err := Merge(object(t, `{"spec":{"k7":1,"y":2}}`), []byte(b.String()), Options{})
	require.NoError(t, err)
	require.Equal(t, `{"spec":{"y":2}}`, text(t, got))
}

// A text with escapes is decoded and escaped again on the way, and costs more than others.
func TestS1_EscapesCost(t *testing.T) {
	for text, code := range map[string]int{strings.Repeat(`aaaa`, 450<<10): 0, strings.Repeat(`aa\"`, 450<<10): http.StatusRequestEntityTooLarge} {
		_, err := JSON(object(t, `{}`), []byte(`[{"op":"add","path":"/a","value":"`+text+`"},{"op":"remove","path":"/a"}]`), Options{})
		if code == 0 {
			require.NoError(t, err)
		} else {
			require.Equal(t, code, status.CodeOf(err), "%v", err)
		}
	}
}

// The library reads a value anew that a later operation descends into, so such a value counts more.
func TestS1_DescentIntoALargeValue(t *testing.T) {
	text := strings.Repeat("x", 3<<19)
	add := `{"op":"add","path":"/spec","value":{"a":"` + text + `"}}`
	for last, code := range map[string]int{
		`{"op":"remove","path":"/spec/a"}`:               http.StatusRequestEntityTooLarge,
		`{"op":"move","from":"/spec/a","path":"/a"}`:     http.StatusRequestEntityTooLarge,
		`{"op":"add","path":"/spec/b","value":1}`:        0, // without the library
		`{"op":"test","path":"/status","value":{}}`:      0,
		`{"op":"copy","from":"/status","path":"/other"}`: 0,
	} {
		_, err := JSON(object(t, `{"status":{}}`), []byte("["+add+","+last+"]"), Options{})
		if code == 0 {
			require.NoError(t, err, last)
			continue
		}
		require.Equal(t, code, status.CodeOf(err), "%s: %v", last, err)
	}
}
