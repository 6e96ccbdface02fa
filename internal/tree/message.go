package tree

import (
	"strings"

	"github.com/kindwright/kindwright/internal/clip"
)

// maxShown bounds a client's value in a message.
const maxShown = 300

// Cut shortens a value for an error message.
func Cut(s string) string {
	return clip.Text(s, maxShown)
}

// NameOf is what people call an object: its namespace, if it has one, and its name.
func NameOf(t map[string]any) string {
	return strings.TrimPrefix(Text(t, "metadata", "namespace")+"/"+Text(t, "metadata", "name"), "/")
}
