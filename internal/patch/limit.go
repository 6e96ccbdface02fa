package patch

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/status"
)

// The limits of PATCH-14.
const (
	// MaxOperations is the number of operations that a JSON Patch may have.
	MaxOperations = 10_000

	// MaxCopiedBytes is how much the copy operations of a JSON Patch may add in sum (B10).
	MaxCopiedBytes = 3 << 20
)

// Bounds of the work that a patch may cause beyond what its size and that of the object explain. Each is a second or two
// of a processor at worst; objects and patches that people write stay far below.
const (
	// maxShifted bounds operations × members of the largest list or map. The library copies a list to insert into it or
	// to remove from it, and looks through the names of a map to add one.
	maxShifted = 250_000_000

	// maxRewritten bounds levels × bytes. The library writes what operations have stepped into once for each level.
	maxRewritten = 128 << 20
)

// maxNested is deeper than any object: what it is applied to has at most that many levels.
const maxNested = 512

// bounded refuses a patch that would cost too much on an object of documentBytes.
func bounded(operations []operation, original map[string]any, documentBytes int) error {
	deepest, moves, copies := 0, 0, 0
	var sizes measure
	sizes.add(original)
	bytes := documentBytes
	for i := range operations {
		op := &operations[i]
		deepest = max(deepest, strings.Count(op.path, "/"), strings.Count(op.from, "/"))
		switch op.op {
		case "move":
			moves++
		case "copy":
			copies++
		case "add", "replace":
			before := sizes.bytes
			sizes.add(op.value)
			bytes += sizes.bytes - before
		}
	}
	if copies > 0 {
		bytes += MaxCopiedBytes
	}
	levels := min(maxNested, deepest*(moves+1)) // what was moved brings the levels that were stepped into along
	if (sizes.members+len(operations))*len(operations) > maxShifted || levels*bytes > maxRewritten {
		return tooLarge("the patch is too costly for an object of this size: send fewer operations or replace the object")
	}
	return nil
}

// tooLarge is a 413 that says which limit was met.
func tooLarge(format string, args ...any) error {
	return status.TooLarge(0).WithMessage(fmt.Sprintf(format, args...))
}

// measure adds up trees: the members of the largest list or map, and roughly the bytes of all.
type measure struct{ members, bytes int }

func (m *measure) add(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		m.members = max(m.members, len(tree))
		for name, value := range tree {
			m.bytes += len(name) + 4
			m.add(value)
		}
	case []any:
		m.members = max(m.members, len(tree))
		for _, value := range tree {
			m.bytes++
			m.add(value)
		}
	case string:
		m.bytes += len(tree) + 2
	default:
		m.bytes += 8
	}
}
