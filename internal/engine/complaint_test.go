package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Complaints name fields as decoders do: a dot before each name (QUERY-23).
func TestWithDots(t *testing.T) {
	for path, want := range map[string]string{
		"spec.size": "spec.size", "spec.items[0].colour": "spec.items[0].colour", "metadata[example.com/a]": "metadata.example.com/a",
		"[a/b]": "a/b", "metadata[x[0]].y": "metadata.x[0].y", "spec.list[12][a.b].c": "spec.list[12].a.b.c", "metadata[]": "metadata.", "[]": "",
		"a[b": "a.", "[": "", "a[b]]": "a.b]", "": "",
	} {
		require.Equal(t, want, withDots(path), path)
	}
}
