package patch

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// The limits of a JSON Patch.
//
// Source: PATCH-14.
const (
	// MaxOperations is the maximum number of operations.
	MaxOperations = 10_000

	// MaxCopiedBytes limits what the copy operations may add in total.
	//
	// Source: B10.
	MaxCopiedBytes = 3 << 20
)

// Limits on the work that a patch causes beyond what its size and that of the object explain. Each
// corresponds to one or two seconds of processor time in the worst case. Real objects and patches
// stay far below.
const (
	// maxShifted limits the product of operations and members of the largest list or map. The
	// library copies a list for each insertion or removal, and searches the names of a map to add
	// one.
	maxShifted = 250_000_000

	// maxRewritten limits the product of levels and bytes. For each level, the library encodes
	// again what the operations have descended into.
	maxRewritten = 128 << 20
)

// maxAllocated limits about how many bytes a patch allocates: each byte of the object and of the
// values is allocated six times, each of a large value that a later operation descends into 20 times,
// since the library reads and writes it anew, each of a text with escapes 15 times, each that is
// copied three times, and a value takes about 64 bytes besides, a map with members 320 more, an operation
// a thousand.
//
// Source: S1.
const (
	maxAllocated   = 24 << 20
	valueFactor    = 6
	descentFactor  = 14 // besides valueFactor
	escapedFactor  = 9  // besides valueFactor
	copyFactor     = 3
	valueBytes     = 64
	mapBytes       = 320 // besides valueBytes
	operationBytes = 1000

	largeValue = 64 << 10
)

// maxNested is the maximum depth of an object that a patch is applied to.
const maxNested = 512

// bounded rejects a patch that would cost too much. documentBytes is the size of the object.
func bounded(operations []operation, original map[string]any, documentBytes int) error {
	deepest, moves, copies, descended := 0, 0, 0, 0
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
		case "add", "replace", "test":
			before := sizes.bytes
			sizes.add(op.value)
			size := sizes.bytes - before
			if bytes += size; size > largeValue && descends(operations[i+1:], op.path) {
				descended += size
			}
		}
	}
	copied := min(MaxCopiedBytes, copies*bytes)
	if allocated := valueFactor*bytes + descentFactor*descended + escapedFactor*sizes.escaped + copyFactor*copied + valueBytes*sizes.values + mapBytes*sizes.maps + operationBytes*len(operations); allocated > maxAllocated {
		return tooLarge("the patch takes about %d bytes to apply to an object of this size, and the limit is %d: "+
			"send less at once or replace the object", allocated, maxAllocated)
	}
	bytes += copied
	// A moved value brings the levels along that were already descended into.
	levels := min(maxNested, deepest*(moves+1))
	if (sizes.members+len(operations))*len(operations) > maxShifted || levels*bytes > maxRewritten {
		return tooLarge("the patch is too costly for an object of this size: send fewer operations or replace the object")
	}
	return nil
}

// descends reports whether an operation refers to what is below path.
func descends(operations []operation, path string) bool {
	for i := range operations {
		if op := &operations[i]; within(op.path, path) || within(op.from, path) {
			return true
		}
	}
	return false
}

// tooLarge returns a 413 error that names the limit.
func tooLarge(format string, args ...any) error {
	return status.TooLarge(0).WithMessage(fmt.Sprintf(format, args...))
}

// measure computes the number of members of the largest list or map, the number and approximately the
// size of all values and of the texts that need escapes, and the number of maps with members.
type measure struct{ members, values, maps, bytes, escaped int }

func (m *measure) add(tree any) {
	m.values++
	switch tree := tree.(type) {
	case map[string]any:
		m.members = max(m.members, len(tree))
		m.bytes += len("{}")
		if len(tree) > 0 {
			m.maps++
		}
		for name, value := range tree {
			m.bytes += len(name) + 4
			m.add(value)
		}
	case []any:
		m.members = max(m.members, len(tree))
		m.bytes += len("[]")
		for _, value := range tree {
			m.bytes++
			m.add(value)
		}
	case string:
		n := json.QuotedLen(tree)
		if m.bytes += n; n > len(tree)+len(`""`) {
			m.escaped += n
		}
	default:
		m.bytes += 8
	}
}
