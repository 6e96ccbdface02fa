package client

import (
	"fmt"
	"maps"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// header has the fields of every document that are read before its type is known.
type header struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// unusable marks a response that makes no sense. Asking again would give the same one.
type unusable struct{ error }

// Unwrap returns the underlying error.
func (e unusable) Unwrap() error { return e.error }

// decode decodes an object from the server and remembers its text. It takes ownership of data.
func (c *Client[T]) decode(data []byte) (*T, error) {
	obj, _, err := c.decodeAt(data)
	return obj, err
}

// decodeAt also returns the version.
func (c *Client[T]) decodeAt(data []byte) (*T, string, error) {
	var h header
	obj := new(T)
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, "", unusable{fmt.Errorf("client: %s sent something other than an object of %s: %w", c.server(), c.resource, err)}
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, "", unusable{fmt.Errorf("client: %s %q does not fit into %T: %w", c.resource, h.key(), obj, err)}
	}
	c.memory.put(identity{h.Metadata.Namespace, h.Metadata.Name, h.Metadata.ResourceVersion}, data)
	return obj, h.Metadata.ResourceVersion, nil
}

func (h *header) key() meta.Key {
	return meta.Key{Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}
}

// encode converts an object to a tree.
func (c *Client[T]) encode(obj *T) (map[string]any, error) {
	if c.wrong != nil {
		return nil, c.wrong
	}
	if obj == nil {
		return nil, fmt.Errorf("client: the object of %s is nil", c.resource)
	}
	v, err := json.TreeOf(obj)
	if err != nil {
		return nil, fmt.Errorf("client: encode %T: %w", obj, err)
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("client: encode %T: it is not a JSON object", obj)
	}
	return tree, nil
}

// views returns an object as the server sent it and as T shows it.
func (c *Client[T]) views(data []byte) (object, typed map[string]any, err error) {
	v, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("client: %s: cannot read the server's object: %w", c.resource, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("client: %s: the server sent something other than an object", c.resource)
	}
	obj := new(T)
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, nil, fmt.Errorf("client: %s %q does not fit into %T: %w", c.resource, keyOf(object), obj, err)
	}
	typed, err = c.encode(obj)
	return object, typed, err
}

// named returns the tree with kind and apiVersion, which some servers require.
func (p place) named(tree map[string]any) map[string]any {
	_, hasKind := tree["kind"]
	_, hasVersion := tree["apiVersion"]
	if hasKind && hasVersion || p.kind == "" {
		return tree
	}
	out := maps.Clone(tree)
	out["kind"], out["apiVersion"] = p.kind, p.apiVersion()
	return out
}

func metadata(tree map[string]any, name string) string {
	m, _ := tree["metadata"].(map[string]any)
	s, _ := m[name].(string)
	return s
}

func keyOf(tree map[string]any) meta.Key {
	return meta.Key{Namespace: metadata(tree, "namespace"), Name: metadata(tree, "name")}
}

func versionOf(tree map[string]any) string { return metadata(tree, "resourceVersion") }
