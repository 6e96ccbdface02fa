package patch

import (
	"errors"
	"maps"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Options configures a patch. The zero value is valid.
type Options struct {
	// Kind and Name identify the object in the message of a 422 error.
	Kind meta.GroupKind
	Name string

	// Duplicates is called with the path, such as "spec.bar", of each member that the body contains
	// twice. The last one wins. If Duplicates is nil, a duplicate is a 400 error. See
	// [json.TreeOptions].
	Duplicates func(path string)

	// Unknown, if not nil, is called with the path, such as "[0].foo", of each member of an operation
	// of a JSON patch that has no meaning.
	Unknown func(path string)

	// Lenient reads a JSON patch as the library of kube-apiserver does, where patches of clients and of
	// webhooks rely on that. A replace adds a member that an object does not have. A value that is missing
	// is null, as in patches that leave out what is empty. An index below zero counts from the end of the
	// list. An operation that is unknown, or lacks a path, is a 422 error like one that does not fit.
	Lenient bool

	// Kept are the pointers of members that a replace of a JSON patch may always add: the server keeps
	// them in every object, and does not write them when they are empty.
	Kept []string
}

// Merge applies a JSON Merge Patch. The body must be an object. Any other value would replace the
// whole object, which is what PUT is for. The cost is linear in the patch and in the maps of the
// original that it touches.
//
// Source: PATCH-08.
func Merge(original map[string]any, patch []byte, o Options) (map[string]any, error) {
	tree, err := o.decode(patch)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, status.BadRequest("a merge patch must be a JSON object")
	}
	return merge(original, object), nil
}

// merge returns target with patch merged in. It does not modify target or its maps. It uses values
// of the patch without copying them, since nobody else refers to them.
func merge(target, patch map[string]any) map[string]any {
	out := make(map[string]any, len(target)+len(patch))
	maps.Copy(out, target)
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			old, _ := out[name].(map[string]any) // anything but an object counts as an empty one
			if len(old) == 0 {
				dropNulls(value)
				out[name] = value
			} else {
				out[name] = merge(old, value)
			}
		default:
			out[name] = value
		}
	}
	return out
}

// dropNulls makes a part of a patch what it is when it is merged into an empty object. Arrays stay as
// they are.
func dropNulls(patch map[string]any) {
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(patch, name)
		case map[string]any:
			dropNulls(value)
		}
	}
}

func (o *Options) decode(patch []byte) (any, error) {
	tree, err := json.DecodeTree(patch, json.TreeOptions{Duplicates: o.Duplicates, Memory: json.RequestMemory})
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok && bad.TooLarge {
		return nil, tooLarge("error decoding patch: %s", err)
	}
	if err != nil {
		return nil, status.BadRequest("error decoding patch: %s", err)
	}
	return tree, nil
}

// invalid returns the 422 error for a patch that cannot be applied to the object. The message never
// quotes values of the patch.
func (o *Options) invalid(why string) error {
	cause := meta.StatusCause{Type: meta.CauseFieldValueInvalid, Field: "patch", Message: "Invalid value: " + why}
	refused := status.Invalid(o.Kind, o.Name, nil)
	message := "patch: " + cause.Message
	if o.Kind.Kind != "" {
		message = refused.Error() + ": " + message
	}
	return refused.WithMessage(message).WithCauses(cause)
}
