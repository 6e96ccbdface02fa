package threeway_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/threeway"
	"github.com/kindwright/kindwright/internal/threeway/threewaytest"
)

var cases = flag.Int("merge-cases", 5_000, "random merges")

// shape says that lists whose name begins with k have the key id, and that a color of red comes back
// by default.
type shape struct{ name string }

func (s shape) Member(name string) threeway.Shape { return shape{name} }
func (s shape) Items() threeway.Shape             { return shape{} }
func (s shape) Whole() bool                       { return s.name == "whole" }
func (s shape) Bare(object map[string]any) bool {
	return len(object) == 0 || json.Equal(object, map[string]any{"color": "red"})
}

func (s shape) Identity(...[]any) func(any) string {
	if !strings.HasPrefix(s.name, "k") {
		return nil
	}
	return func(item any) string { return fmt.Sprint(item.(map[string]any)["id"]) }
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	require.NoError(t, err, text)
	return v.(map[string]any)
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct{ object, before, after, want string }{
		"a member goes and the rest of its parent stays": {
			`{"spec":{"mode":"m","steps":[1]}}`, `{"spec":{"steps":[1]}}`, `{}`, `{"spec":{"mode":"m"}}`,
		},
		"a parent that is empty goes": {
			`{"a":1,"spec":{"in":{"steps":[1]}}}`, `{"a":1,"spec":{"in":{"steps":[1]}}}`, `{"a":1}`, `{"a":1}`,
		},
		"a parent with nothing but defaults goes": {
			`{"lamp":{"on":true,"color":"red"}}`, `{"lamp":{"on":true}}`, `{}`, `{}`,
		},
		"a parent with another value stays": {
			`{"lamp":{"on":true,"color":"blue"}}`, `{"lamp":{"on":true}}`, `{}`, `{"lamp":{"color":"blue"}}`,
		},
		"a value that goes as a whole": {
			`{"whole":{"on":true,"color":"blue"}}`, `{"whole":{"on":true}}`, `{}`, `{}`,
		},
		"a member comes into an object that was hidden": {
			`{"spec":{"mode":"m"}}`, `{}`, `{"spec":{"steps":[1]}}`, `{"spec":{"mode":"m","steps":[1]}}`,
		},
		"another type": {
			`{"a":{"x":1,"u":2},"b":[1],"c":3}`, `{"a":{"x":1},"b":[1],"c":3}`, `{"a":[1],"b":{"x":1},"c":null}`, `{"a":[1],"b":{"x":1},"c":null}`,
		},
		"equal items keep what is hidden, each its own": {
			`{"s":[{"x":1,"u":"one"},{"x":1,"u":"two"},{"z":1}]}`, `{"s":[{"x":1},{"x":1},{"z":1}]}`, `{"s":[{"x":1},{"x":1},{"z":1},{"y":1}]}`,
			`{"s":[{"x":1,"u":"one"},{"x":1,"u":"two"},{"z":1},{"y":1}]}`,
		},
		"a shorter list": {
			`{"s":[{"x":1,"u":"one"},{"x":2,"u":"two"},{"x":3,"u":"three"}]}`, `{"s":[{"x":1},{"x":2},{"x":3}]}`, `{"s":[{"x":1},{"x":3}]}`,
			`{"s":[{"x":1,"u":"one"},{"x":3,"u":"three"}]}`,
		},
		"a shorter list with a change": {
			`{"s":[{"x":1,"y":1,"u":"one"},{"x":2,"y":2,"u":"two"},{"x":3,"y":3,"u":"three"}]}`, `{"s":[{"x":1,"y":1},{"x":2,"y":2},{"x":3,"y":3}]}`, `{"s":[{"x":1,"y":1},{"x":3,"y":7}]}`,
			`{"s":[{"x":1,"y":1,"u":"one"},{"x":3,"y":7,"u":"three"}]}`,
		},
		"another order": {
			`{"s":[{"x":1,"u":"one"},{"x":2,"u":"two"}]}`, `{"s":[{"x":1},{"x":2}]}`, `{"s":[{"x":2},{"x":1}]}`, `{"s":[{"x":2,"u":"two"},{"x":1,"u":"one"}]}`,
		},
		"a list that shows some of the items": {
			`{"m":[{"r":"cpu","t":70},{"r":"memory"},{"e":"q"}]}`, `{"m":[{"r":"cpu","t":70}]}`, `{"m":[{"r":"cpu","t":50}]}`, `{"m":[{"r":"cpu","t":50},{"r":"memory"},{"e":"q"}]}`,
		},
		"a list that showed none of the items": {
			`{"m":[{"r":"memory"}]}`, `{}`, `{"m":[{"r":"cpu"}]}`, `{"m":[{"r":"memory"},{"r":"cpu"}]}`,
		},
		"a list is emptied, and hidden items stay": {
			`{"m":[{"r":"cpu"},{"h":"memory"}]}`, `{"m":[{"r":"cpu"}]}`, `{}`, `{"m":[{"h":"memory"}]}`,
		},
		"a list is emptied": {
			`{"m":[{"r":"cpu","u":1}]}`, `{"m":[{"r":"cpu"}]}`, `{}`, `{}`,
		},
		"items with keys": {
			`{"ks":[{"id":"a","u":1},{"id":"hidden"},{"id":"b","u":2}]}`, `{"ks":[{"id":"a"},{"id":"b"}]}`, `{"ks":[{"id":"b","x":1},{"id":"c"},{"id":"a"}]}`,
			`{"ks":[{"id":"b","u":2,"x":1},{"id":"c"},{"id":"a","u":1},{"id":"hidden"}]}`,
		},
		"a new item has the key of a hidden one": {
			`{"ks":[{"id":"a"},{"id":"b","u":2}]}`, `{"ks":[{"id":"a"}]}`, `{"ks":[{"id":"a"},{"id":"b","x":1}]}`, `{"ks":[{"id":"a"},{"id":"b","u":2,"x":1}]}`,
		},
		"nothing was there": {`{}`, `{}`, `{"s":[1],"o":{"x":1}}`, `{"s":[1],"o":{"x":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, c.object)
			got := threeway.Merge(shape{}, object, parse(t, c.before), parse(t, c.after))
			require.Equal(t, parse(t, c.want), got)
			require.Equal(t, parse(t, c.object), object, "the object was changed in place")
		})
	}
}

func TestMergeLosesNothing(t *testing.T) {
	for seed := range uint64(effort.Of(*cases)) {
		w := threewaytest.New(seed, func(name string) bool { return name == "u" || name == "v" })
		object := w.Object(3)
		before := w.Part(object)
		after, removed := w.Edit(before)
		merged := threeway.Merge(shape{}, object, before, after)
		require.True(t, json.Equal(after, w.Part(merged)), "seed %d\nobject %v\nafter  %v\nmerged %v", seed, object, after, merged)
		require.Equal(t, w.Hidden(object, removed), w.Hidden(merged, nil), "seed %d\nobject %v\nafter  %v\nmerged %v", seed, object, after, merged)
	}
}

func TestPairTakesTimeLinearInTheLists(t *testing.T) {
	n := effort.Of(200_000) // quadratic time would not come to an end here
	before, after, object := make([]any, n), make([]any, n), make([]any, n+1)
	object[n] = map[string]any{"hidden": true}
	for i := range n {
		before[i] = map[string]any{"port": int64(i)}
		after[n-1-i] = before[i]
		object[i] = map[string]any{"port": int64(i), "u": true}
	}
	for i, j := range threeway.Pair(before, after) {
		require.Equal(t, n-1-i, j)
	}
	for i, j := range threeway.Shown(object, before) {
		require.Equal(t, i, j)
	}
	for i := range after {
		after[i] = map[string]any{"other": int64(i)}
	}
	require.Equal(t, -1, threeway.Pair(before[1:], after)[0])
}
