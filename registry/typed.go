package registry

import (
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// validated makes a *T of a tree for a validation hook. If T cannot hold a tree that the schema accepts,
// it reports an error of the whole object, so the object is rejected and not passed unseen.
func validated[T any](t Tree, f *status.Fields) *T {
	obj, err := typed.Decode[T](t)
	if err != nil {
		f.Add(status.FieldError{Type: meta.CauseInternalError, Field: "<root>", Detail: "the object cannot be read as its Go type"})
		return nil
	}
	return obj
}
