package openapi

import (
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/threeway"
)

// Merge returns object with the changes that lead from before to after. These two show a part of the
// object: the fields that another version of a kind has, for example. What they do not show stays, as
// it does when the value around it is emptied. A value with nothing left but defaults is removed.
//
// Items of a list with keys are followed by their keys, other items by what they hold. The arguments
// are not changed; the result shares parts with them.
func (s *Schema) Merge(object, before, after map[string]any) map[string]any {
	return threeway.Merge(shape{s}, object, before, after)
}

// shape says what a schema knows of the values of an object.
type shape struct{ *Schema }

func (s shape) Member(name string) threeway.Shape {
	below, ok := s.Property(name)
	if !ok || below == nil {
		return nil
	}
	return shape{below}
}

func (s shape) Items() threeway.Shape {
	if s.Schema.Items == nil {
		return nil
	}
	return shape{s.Schema.Items}
}

func (s shape) Identity(...[]any) func(any) string {
	if len(s.ListMapKeys) == 0 {
		return nil
	}
	return func(item any) string {
		m, _ := item.(map[string]any)
		var id []byte
		for _, key := range s.ListMapKeys {
			id, _ = json.AppendTree(append(id, ','), m[key])
		}
		return string(id)
	}
}

// Whole is false: a part cannot say that it means to remove what it does not show.
func (shape) Whole() bool { return false }

// Bare is true of an object that has nothing but defaults. Otherwise an object with a default could
// never be removed through a version that does not show the field.
func (s shape) Bare(object map[string]any) bool {
	return len(object) == 0 || json.Equal(object, s.Default(map[string]any{}))
}
