package patch

import (
	"maps"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Options tell what errors speak of, and where findings go. The zero value is usable.
type Options struct {
	// Kind and Name are those of the object, for the message of a 422.
	Kind meta.GroupKind
	Name string

	// Duplicates is told of each member that the body of the patch gives twice, with a path such as "spec.bar"; the last
	// one counts. When nil, a duplicate is a 400. See [json.TreeOptions].
	Duplicates func(path string)
}

// Merge applies a JSON Merge Patch (PATCH-08). The body must be an object: anything else would replace the whole object,
// which is what PUT is for.
//
// The cost is linear in the patch and in the maps of the original that it touches.
func Merge(original map[string]any, patch []byte, o Options) (map[string]any, error) {
	tree, err := o.decode(patch)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, status.BadRequest("a merge patch is a JSON object")
	}
	return merge(original, object), nil
}

// merge returns target with patch merged in. No map that target holds is written to; values of the patch are used as they
// are, since nobody else holds them.
func merge(target, patch map[string]any) map[string]any {
	out := make(map[string]any, len(target)+len(patch))
	maps.Copy(out, target)
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			old, _ := out[name].(map[string]any) // of another kind, or nothing: as if it were an empty object
			out[name] = merge(old, value)
		default:
			out[name] = value
		}
	}
	return out
}

func (o *Options) decode(patch []byte) (any, error) {
	tree, err := json.DecodeTree(patch, json.TreeOptions{Duplicates: o.Duplicates})
	if err != nil {
		return nil, status.BadRequest("error decoding patch: %s", err)
	}
	return tree, nil
}

// invalid is the 422 of a patch that cannot be applied to the object. It never quotes values of the patch.
func (o *Options) invalid(why string) error {
	cause := meta.StatusCause{Type: meta.CauseFieldValueInvalid, Field: "patch", Message: "Invalid value: " + why}
	refused := status.Invalid(o.Kind, o.Name, nil)
	message := "patch: " + cause.Message
	if o.Kind.Kind != "" {
		message = refused.Error() + ": " + message
	}
	return refused.WithMessage(message).WithCauses(cause)
}
