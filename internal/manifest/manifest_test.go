package manifest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/manifest"
	"github.com/kindwright/kindwright/meta"
)

type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Size            int64 `json:"size,omitempty"`
}

func Example() {
	var widgets []*widget
	err := manifest.Each([]byte(`
apiVersion: v1
kind: List
items:
- {kind: Widget, metadata: {name: a}, size: 1}
- {kind: Widget, metadata: {name: b}}
---
kind: Widget
metadata: {name: c}
`), func(object map[string]any) error { return manifest.Append(&widgets, object) })
	for _, w := range widgets {
		fmt.Println(w.Name, w.Size)
	}
	fmt.Println(err)
	// Output:
	// a 1
	// b 0
	// c 0
	// <nil>
}

// What is wrong with a file is named with its place.
func TestEachNamesThePlaceOfAnError(t *testing.T) {
	var widgets []*widget
	read := func(text string) error {
		return manifest.Each([]byte(text), func(object map[string]any) error { return manifest.Append(&widgets, object) })
	}
	require.ErrorContains(t, read("kind: Widget\n---\nkind: Widget\nsizes: 1"), `document 2: unknown field "sizes"`)
	require.ErrorContains(t, read("apiVersion: v1\nkind: List\nitems: [{}, {size: many}]"), "document 1: items[1]: ")
	require.ErrorContains(t, read("apiVersion: v1\nkind: List\nitem: []"), `document 1: unknown field "item"`)
	require.ErrorContains(t, read("{"), "document 1: ")
	own := errors.New("not wanted")
	require.ErrorIs(t, manifest.Each([]byte("a: b"), func(map[string]any) error { return own }), own)
}
