package manifest

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
)

// maxDocument bounds a document, in bytes.
const maxDocument = 3 << 20

// Each calls f with each object of a file in YAML or JSON, and ends at the first error. A document is an
// object or a v1 List of objects.
func Each(data []byte, f func(object map[string]any) error) error {
	for i, document := range yaml.Documents(data) {
		if err := each(document, f); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return nil
}

func each(document []byte, f func(object map[string]any) error) error {
	data, err := yaml.ToJSON(document, maxDocument)
	if err != nil {
		return err
	}
	t, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return err
	}
	object, _ := t.(map[string]any)
	if tree.Text(object, "apiVersion") != "v1" || tree.Text(object, "kind") != "List" {
		return f(object)
	}
	for name := range object {
		if name != "apiVersion" && name != "kind" && name != "items" && name != "metadata" {
			return fmt.Errorf("unknown field %q", name)
		}
	}
	items, _ := object["items"].([]any)
	for i, item := range items {
		one, _ := item.(map[string]any)
		if err := f(one); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// Append decodes an object and appends it to a list. Unknown fields are errors.
func Append[T any](list *[]*T, object map[string]any) error {
	one := new(T)
	schema, err := (&openapi.Types{}).Schema(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	for field := range schema.Unknown(object) {
		return fmt.Errorf("unknown field %q", field.Path)
	}
	if err := json.FromTree(object, one); err != nil {
		return err
	}
	*list = append(*list, one)
	return nil
}
