package patch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// JSON applies a JSON Patch: all of its operations in order, or none. A failed test is a 422 error,
// and so is an operation whose target does not exist. It is a 413 error if the patch has more than
// [MaxOperations] operations, copies more than [MaxCopiedBytes], or costs too much in another way.
//
// Some operations that RFC 6902 allows are rejected with 422: those on members with an empty name,
// moving or copying to or from the whole object, replacing the whole object by another type of
// value, and testing a list that contains null. As in Kubernetes, a test for null also succeeds if
// the value is absent.
//
// Source: PATCH-06, PATCH-07, PATCH-14.
func JSON(original map[string]any, patch []byte, o Options) (map[string]any, error) {
	operations, err := o.operations(patch)
	if err != nil {
		return nil, err
	}
	if o.Lenient {
		letReplaceAdd(operations, original)
	}
	for i := range operations {
		op := &operations[i]
		if op.op == "replace" && slices.Contains(o.Kept, op.path) && lacks(original, op.path) {
			op.op = "add"
		}
	}
	patched, err := run(operations, original, o.Lenient)
	if _, answer := errors.AsType[*status.Error](err); err != nil && !answer {
		return nil, o.invalid(clip.Text(err.Error(), maxShown))
	}
	return patched, err
}

// letReplaceAdd turns each replace of a member of an object into an add, which also sets members that exist. What
// an earlier operation does may decide whether a member exists, so this does not depend on it. Only a number may
// name an item of a list, where the two differ.
func letReplaceAdd(operations []operation, original map[string]any) {
	for i := range operations {
		op := &operations[i]
		last := op.path[strings.LastIndexByte(op.path, '/')+1:]
		_, err := strconv.Atoi(last)
		member := err != nil && last != "-" // of an object, whatever there is
		if op.op == "replace" && op.path != "" && (member || lacks(original, op.path)) {
			op.op = "add"
		}
	}
}

// run applies operations. An error that is not a *status.Error says which operation does not fit. Indexes
// below zero count from the end of a list, or are errors.
func run(operations []operation, original map[string]any, fromEnd bool) (map[string]any, error) {
	if patched, ok := direct(operations, original); ok {
		return patched, nil
	}
	document, err := json.AppendTree(nil, original)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("encoding the object to patch: %w", err))
	}
	if err := bounded(operations, original, len(document)); err != nil {
		return nil, err
	}
	patched, err := apply(operations, document, fromEnd)
	if _, ok := errors.AsType[*jsonpatch.AccumulatedCopySizeError](err); ok {
		return nil, tooLarge("the copy operations of the patch add more than %d bytes", MaxCopiedBytes)
	}
	if err != nil {
		return nil, err
	}
	tree, err := json.DecodeTree(patched, json.TreeOptions{Memory: 2 * json.RequestMemory})
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok && bad.TooLarge {
		return nil, tooLarge("the patched object: %s", err)
	}
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("the result is not an object")
	}
	return object, nil
}

// Operation is one operation of a JSON Patch that did not come as a body.
type Operation struct {
	Op, Path, From string
	Value          any // a tree, for add, replace and test
}

// ErrTest is wrapped by the error of [Operations] if a test of the patch fails.
var ErrTest = jsonpatch.ErrTestFailed

// Operations applies operations in order, or none of them, with the limits of [JSON], and as leniently as
// [Options.Lenient]. The error says which operation does not fit the object.
// Source: POL-05.
func Operations(original map[string]any, list []Operation) (map[string]any, error) {
	if len(list) > MaxOperations {
		return nil, tooLarge("The allowed maximum operations in a JSON patch is %d, got %d", MaxOperations, len(list))
	}
	operations := make([]operation, len(list))
	for i, given := range list {
		op := &operations[i]
		why := op.read(map[string]any{"op": given.Op, "path": given.Path, "from": given.From, "value": given.Value}, true)
		if why == "" {
			why = op.problem()
		}
		if why != "" {
			return nil, fmt.Errorf("operation %d (%s %s): %s", i, given.Op, strconv.Quote(clip.Text(given.Path, maxShown)), why)
		}
	}
	letReplaceAdd(operations, original)
	return run(operations, original, false)
}

// operation is one operation of a patch. It has been validated on its own, but not against the
// object.
type operation struct {
	op, path, from string
	value          any // for add, replace and test
}

// operations decodes and validates the body of a patch.
func (o *Options) operations(patch []byte) ([]operation, error) {
	members := *o
	var repeated []string
	if o.Duplicates != nil {
		members.Duplicates = func(path string) { repeated = append(repeated, path) }
	}
	tree, err := members.decode(patch)
	if err != nil {
		return nil, err
	}
	list, ok := tree.([]any)
	if !ok {
		return nil, status.BadRequest("a JSON patch must be a list of operations")
	}
	if len(list) > MaxOperations {
		return nil, tooLarge("The allowed maximum operations in a JSON patch is %d, got %d", MaxOperations, len(list))
	}
	operations := make([]operation, len(list))
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, status.BadRequest("operation %d of the patch must be an object", i)
		}
		repeated = o.complain(i, fields, repeated)
		op := &operations[i]
		if why := op.read(fields, o.Lenient); why != "" {
			why = fmt.Sprintf("operation %d of the patch: %s", i, why)
			if o.Lenient && readable(fields) {
				return nil, o.invalid(why) // that library finds out when it applies the operation
			}
			return nil, status.BadRequest("%s", why)
		}
		if why := op.problem(); why != "" {
			return nil, o.invalid(fmt.Sprintf("operation %d (%s %s): %s", i, op.op, strconv.Quote(clip.Text(op.path, maxShown)), why))
		}
	}
	return operations, nil
}

// complain reports the members of operation i that have no meaning, and those that it has twice, which
// are the first of repeated. It returns the others.
func (o *Options) complain(i int, fields map[string]any, repeated []string) []string {
	var unknown []string
	for name := range fields {
		switch name {
		case "op", "path", "from", "value":
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown)+len(repeated) == 0 {
		return nil
	}
	prefix := "[" + strconv.Itoa(i) + "]."
	slices.Sort(unknown)
	for _, name := range unknown {
		if o.Unknown != nil {
			o.Unknown(prefix + clip.Text(name, maxShown))
		}
	}
	for len(repeated) > 0 && strings.HasPrefix(repeated[0], prefix) {
		o.Duplicates(repeated[0])
		repeated = repeated[1:]
	}
	return repeated
}

// read reads the members that the operation uses. It returns what is malformed.
func (op *operation) read(fields map[string]any, lenient bool) (why string) {
	var ok bool
	if op.op, ok = fields["op"].(string); !ok {
		return `"op" is missing or not a string`
	}
	if op.path, why = pointer(fields, "path"); why != "" {
		return why
	}
	switch op.op {
	case "add", "replace", "test":
		if op.value, ok = fields["value"]; !ok && !lenient {
			return `"value" is missing`
		}
	case "move", "copy":
		op.from, why = pointer(fields, "from")
	case "remove":
	default:
		return "unknown operation " + strconv.Quote(clip.Text(op.op, maxShown))
	}
	return why
}

// readable reports whether the members of an operation have the types that they should have.
func readable(fields map[string]any) bool {
	for _, name := range [...]string{"op", "path", "from"} {
		if _, text := fields[name].(string); !text && fields[name] != nil {
			return false
		}
	}
	return true
}

func pointer(fields map[string]any, name string) (value, why string) {
	value, ok := fields[name].(string)
	if !ok {
		return "", strconv.Quote(name) + " is missing or not a string"
	}
	if _, ok := pointerDepth(value); !ok {
		return "", strconv.Quote(name) + " is not a JSON pointer"
	}
	return value, ""
}

// problem returns why the operation can never succeed, whatever the object is.
func (op *operation) problem() string {
	if why := problemOf(op.path); why != "" {
		return why
	}
	if why := problemOf(op.from); why != "" {
		return why
	}
	_, object := op.value.(map[string]any)
	switch op.op {
	case "remove":
		if op.path == "" {
			return "the whole object cannot be removed"
		}
	case "add", "replace":
		if op.path == "" && !object {
			return "the whole object can only be replaced by an object"
		}
	case "move", "copy":
		if op.path == "" || op.from == "" {
			return "the whole object cannot be moved or copied"
		}
		if op.op == "move" && within(op.path, op.from) {
			return "a value cannot be moved into itself"
		}
	}
	return ""
}

// maxShown limits the text from a request that an error repeats.
const maxShown = 200

// maxOddIndexes limits the bytes of objects and of operations that are applied to look at what
// contains an odd index.
const maxOddIndexes = 2 << 20

// apply applies the operations in order. A token such as "01" is the name of a member, but no index
// of a list, where the library takes it for one; only the object at that moment tells which it is.
//
// Source: S14, B11.
func apply(operations []operation, document []byte, fromEnd bool) (_ []byte, err error) {
	start, decoded := 0, 0
	for i := range operations {
		op := &operations[i]
		containers := append(oddIndexes(op.path, fromEnd), oddIndexes(op.from, fromEnd)...)
		if len(containers) == 0 {
			continue
		}
		if decoded += len(document) + lengthOf(operations[start:i]); decoded > maxOddIndexes {
			return nil, tooLarge("the patch has too many names that look like indexes for an object of this size")
		}
		if document, err = applyAll(operations[start:i], document, fromEnd); err != nil {
			return nil, err
		}
		start = i
		tree, err := json.DecodeTree(document, json.TreeOptions{Memory: 2 * json.RequestMemory})
		if err != nil {
			return nil, err
		}
		for _, container := range containers {
			if refersToList(tree, container) {
				return nil, fmt.Errorf("operation %d (%s %s): an index has no sign and no leading zero", i, op.op, strconv.Quote(clip.Text(op.path, maxShown)))
			}
		}
	}
	return applyAll(operations[start:], document, fromEnd)
}

// applyAll runs the library. It is given what was decoded and not the body, so that it cannot
// interpret duplicate names or numbers differently. The library is known to panic when a list that
// contains null is tested. A panic must only fail the request.
func applyAll(operations []operation, document []byte, fromEnd bool) (out []byte, err error) {
	patch := make(jsonpatch.Patch, len(operations))
	for i := range operations {
		if patch[i], err = operations[i].encoded(); err != nil {
			return nil, fmt.Errorf("encoding the patch: %w", err)
		}
	}
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("an operation does not fit the object")
		}
	}()
	return patch.ApplyWithOptions(document, &jsonpatch.ApplyOptions{AccumulatedCopySizeLimit: MaxCopiedBytes, SupportNegativeIndices: fromEnd})
}

// encoded returns the operation as the library decodes one. Its decoder would read each value twice,
// and copy it, to find what has been checked already.
func (op *operation) encoded() (jsonpatch.Operation, error) {
	out := jsonpatch.Operation{}
	member(out, "op", json.AppendString(nil, op.op))
	member(out, "path", json.AppendString(nil, op.path))
	switch op.op {
	case "move", "copy":
		member(out, "from", json.AppendString(nil, op.from))
	case "add", "replace", "test":
		if op.value == nil {
			out["value"] = nil // as its decoder has a null
			break
		}
		var size measure
		size.add(op.value)
		value, err := json.AppendTree(make([]byte, 0, size.bytes), op.value)
		if err != nil {
			return nil, err
		}
		member(out, "value", value)
	}
	return out, nil
}

// member sets a member of an operation. The library's type for JSON text is that of the standard library.
func member[Text ~[]byte](of map[string]*Text, name string, value []byte) {
	text := Text(value)
	of[name] = &text
}

// lengthOf returns about how many bytes operations take as JSON.
func lengthOf(operations []operation) int {
	var size measure
	for i := range operations {
		size.add(operations[i].value)
		size.bytes += len(`{"op":"replace","path":"","from":"","value":},`) + len(operations[i].path) + len(operations[i].from)
	}
	return size.bytes
}
