package shape

import (
	_ "embed" // the templates of the built-in shapes
	"fmt"
	"strings"
)

// Shape is a kind of object as a client sees it.
type Shape struct {
	Name       string
	Collection string   // the path of the collection, with ${namespace} in it
	Body       Template // to create, replace and apply an object
	Patch      Template // a JSON merge patch

	// Field is a field selector for the objects whose number ends in 07, 1 % of all. It is "" if
	// the kind has no selectable field for it.
	Field string

	// Definition is the custom resource definition of the kind. It is nil for built-in kinds of
	// Kubernetes.
	Definition []byte
}

var (
	//go:embed configmap.json
	configmap string
	//go:embed gadget.json
	gadget string
	//go:embed gadget-definition.json
	gadgetDefinition string
)

// ConfigMap is a core kind: a map of strings.
func ConfigMap() Shape {
	return mustMake("configmaps", "/api/v1/namespaces/${namespace}/configmaps", configmap, `{"data":{"seq":"${seq}"}}`)
}

// Gadget is a kind with a nested spec, which Kubernetes serves from a custom resource definition.
func Gadget() Shape {
	s := mustMake("gadgets", "/apis/bench.example.com/v1/namespaces/${namespace}/gadgets", gadget, `{"spec":{"seq":"${seq}"}}`)
	s.Field = "spec.bucket=b7"
	s.Definition = []byte(gadgetDefinition)
	return s
}

// Named returns a built-in shape.
func Named(name string) (Shape, error) {
	for _, s := range []Shape{ConfigMap(), Gadget()} {
		if s.Name == name {
			return s, nil
		}
	}
	return Shape{}, fmt.Errorf("unknown shape %q, want configmaps or gadgets", name)
}

// Make builds a shape from the text of its templates.
func Make(name, collection, body, patch string) (Shape, error) {
	s := Shape{Name: name, Collection: collection}
	if !strings.HasPrefix(collection, "/") || !strings.Contains(collection, "${namespace}") {
		return s, fmt.Errorf("collection %q: want a path with ${namespace} in it", collection)
	}
	var err error
	if s.Body, err = Parse(strings.TrimSpace(body)); err != nil {
		return s, fmt.Errorf("body: %w", err)
	}
	if s.Patch, err = Parse(strings.TrimSpace(patch)); err != nil {
		return s, fmt.Errorf("patch: %w", err)
	}
	return s, nil
}

// In returns the path of the collection in a namespace.
func (s Shape) In(namespace string) string {
	return strings.ReplaceAll(s.Collection, "${namespace}", namespace)
}

// mustMake is Make for built-in templates.
func mustMake(name, collection, body, patch string) Shape {
	s, err := Make(name, collection, body, patch)
	if err != nil {
		panic(fmt.Sprintf("shape %s: %v", name, err))
	}
	return s
}
