package apply

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// branch contains itself through merging lists, maps and pointers.
type branch struct {
	Name  string            `json:"name"`
	Leaf  string            `json:"leaf,omitempty"`
	Twigs []branch          `json:"twigs,omitempty" list:"map,key=name"`
	By    map[string]branch `json:"by,omitempty"`
	Next  *branch           `json:"next,omitempty" doc:"The next one."`
}

// Ownership is tracked at every depth of a recursive type.
//
// Source: SSA-12.
func TestSSA_12_TypesThatContainThemselves(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[struct {
		Root branch `json:"root"`
	}]())
	require.NoError(t, err)
	fields, err := New([]Version{{APIVersion: "v1", Schema: s}}, nil)
	require.NoError(t, err)
	by := func(live map[string]any, manager, root string) map[string]any {
		t.Helper()
		tree, err := json.DecodeTree([]byte(`{"apiVersion":"v1","kind":"Tree","metadata":{"name":"t"},"root":`+root+`}`), json.TreeOptions{})
		require.NoError(t, err)
		out, err := fields.Apply(Request{Live: live, New: tree.(map[string]any), Manager: manager, APIVersion: "v1"})
		require.NoError(t, err)
		return out
	}
	live := by(nil, "a", `{"name":"r","next":{"name":"n","twigs":[{"name":"x","next":{"name":"y","leaf":"a"}}]}}`)
	live = by(live, "b", `{"name":"r","next":{"name":"n","twigs":[{"name":"z"},{"name":"x","by":{"q":{"name":"w","twigs":[{"name":"deep"}]}}}]}}`)
	text, err := json.AppendTree(nil, live["root"])
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"r","next":{"name":"n","twigs":[{"name":"z"},{"name":"x","next":{"name":"y","leaf":"a"},"by":{"q":{"name":"w","twigs":[{"name":"deep"}]}}}]}}`, string(text))
	live = by(live, "b", `{"name":"r","next":{"name":"n","twigs":[{"name":"x","by":{"q":{"name":"w"}}}]}}`)
	text, err = json.AppendTree(nil, live["root"])
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"r","next":{"name":"n","twigs":[{"name":"x","next":{"name":"y","leaf":"a"},"by":{"q":{"name":"w"}}}]}}`, string(text))
}
