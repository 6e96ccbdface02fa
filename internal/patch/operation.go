package patch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// JSON applies a JSON Patch (PATCH-06): its operations in order, all of them or none. A test that fails is a 422
// (PATCH-07), and so is any operation that has nothing to act on; more than [MaxOperations] and copies beyond
// [MaxCopiedBytes] are 413 (PATCH-14), as is a patch that would cost too much otherwise.
//
// Some things that RFC 6902 allows are refused with a 422: members whose name is empty, moving or copying from and to the
// whole object, replacing the whole object by something that is none, and testing a list that holds null. A test for null
// also succeeds where there is nothing, as it does in Kubernetes.
func JSON(original map[string]any, patch []byte, o Options) (map[string]any, error) {
	operations, canonical, err := o.operations(patch)
	if err != nil {
		return nil, err
	}
	document, err := json.AppendTree(nil, original)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("encoding the object to patch: %w", err))
	}
	if err := bounded(operations, original, len(document)); err != nil {
		return nil, err
	}
	patched, err := apply(canonical, document)
	if err != nil {
		if _, ok := errors.AsType[*jsonpatch.AccumulatedCopySizeError](err); ok {
			return nil, tooLarge("the copy operations of the patch add more than %d bytes", MaxCopiedBytes)
		}
		return nil, o.invalid(short(err.Error()))
	}
	tree, err := json.DecodeTree(patched, json.TreeOptions{})
	if err != nil {
		return nil, o.invalid(err.Error())
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, o.invalid("the result is not an object")
	}
	return object, nil
}

// operation is one step of a patch, checked by itself.
type operation struct {
	op, path, from string
	value          any // of add, replace and test
}

// operations reads the body of a patch. The second result is its canonical JSON: what the library gets to read is what was
// checked, without a second opinion about duplicate names or numbers.
func (o *Options) operations(patch []byte) ([]operation, []byte, error) {
	tree, err := o.decode(patch)
	if err != nil {
		return nil, nil, err
	}
	list, ok := tree.([]any)
	if !ok {
		return nil, nil, status.BadRequest("a JSON patch is a list of operations")
	}
	if len(list) > MaxOperations {
		return nil, nil, tooLarge("the allowed maximum operations in a JSON patch is %d, got %d", MaxOperations, len(list))
	}
	operations := make([]operation, len(list))
	clean := make([]any, len(list))
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, nil, status.BadRequest("operation %d of the patch is not an object", i)
		}
		op := &operations[i]
		if why := op.read(fields); why != "" {
			return nil, nil, status.BadRequest("operation %d of the patch: %s", i, why)
		}
		if why := op.problem(); why != "" {
			return nil, nil, o.invalid(fmt.Sprintf("operation %d (%s %s): %s", i, op.op, strconv.Quote(short(op.path)), why))
		}
		clean[i] = op.fields()
	}
	canonical, err := json.AppendTree(nil, clean)
	if err != nil {
		return nil, nil, status.Internal(fmt.Errorf("encoding the patch: %w", err))
	}
	return operations, canonical, nil
}

// read takes the members of an operation that mean something to it and says what is malformed.
func (op *operation) read(fields map[string]any) (why string) {
	var ok bool
	if op.op, ok = fields["op"].(string); !ok {
		return `"op" is missing or not text`
	}
	if op.path, why = pointer(fields, "path"); why != "" {
		return why
	}
	switch op.op {
	case "add", "replace", "test":
		if op.value, ok = fields["value"]; !ok {
			return `"value" is missing`
		}
	case "move", "copy":
		op.from, why = pointer(fields, "from")
	case "remove":
	default:
		return "unknown operation " + strconv.Quote(short(op.op))
	}
	return why
}

func pointer(fields map[string]any, name string) (value, why string) {
	value, ok := fields[name].(string)
	if !ok {
		return "", strconv.Quote(name) + " is missing or not text"
	}
	if _, ok := pointerDepth(value); !ok {
		return "", strconv.Quote(name) + " is not a JSON pointer"
	}
	return value, ""
}

// problem says why the operation can be applied to no object.
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

// fields is the operation as it is written, without members that mean nothing.
func (op *operation) fields() map[string]any {
	switch op.op {
	case "move", "copy":
		return map[string]any{"op": op.op, "path": op.path, "from": op.from}
	case "remove":
		return map[string]any{"op": op.op, "path": op.path}
	}
	return map[string]any{"op": op.op, "path": op.path, "value": op.value}
}

// apply hands patch and document to the library. It has been seen to panic, on a null in a list that is tested; whatever
// it does, the request fails and the server goes on.
func apply(patch, document []byte) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("an operation does not fit the object")
		}
	}()
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.ApplyWithOptions(document, &jsonpatch.ApplyOptions{AccumulatedCopySizeLimit: MaxCopiedBytes})
}

// short cuts a text of a request for a message.
func short(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
