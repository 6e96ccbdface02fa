package patch

import (
	"strings"

	trees "github.com/kindwright/kindwright/internal/tree"
)

// The limits of a patch that is applied directly.
const (
	maxDirect      = 64 // operations
	maxDirectDepth = 32 // of a path, and of a value
)

// direct applies operations that only add and replace members of objects. It copies the objects on
// the way and shares all else, where the library writes and reads the whole object. Controllers patch
// a few members of objects that may be large. It reports false if an operation is of another kind or
// does not fit the object, which the library then says.
func direct(operations []operation, original map[string]any) (map[string]any, bool) {
	if len(operations) > maxDirect {
		return nil, false
	}
	out := original
	for i := range operations {
		op := &operations[i]
		if op.op != "add" && op.op != "replace" || op.path == "" || deeper(op.value, maxDirectDepth) {
			return nil, false
		}
		path := strings.Split(op.path[1:], "/")
		if len(path) > maxDirectDepth {
			return nil, false
		}
		for j, token := range path {
			path[j] = unescaped.Replace(token)
		}
		into, _ := trees.At(out, path[:len(path)-1]...).(map[string]any)
		if into == nil || op.op == "replace" && into[path[len(path)-1]] == nil {
			return nil, false
		}
		out = trees.With(out, op.value, path...)
	}
	return out, true
}

// unescaped turns a token of a JSON pointer into the name that it stands for.
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// deeper reports whether a tree has more than some levels.
func deeper(v any, levels int) bool {
	if levels == 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, below := range v {
			if deeper(below, levels-1) {
				return true
			}
		}
	case []any:
		for _, below := range v {
			if deeper(below, levels-1) {
				return true
			}
		}
	}
	return false
}
