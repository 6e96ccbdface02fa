package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/kindwright/kindwright/internal/json"
)

// ErrTooLarge is returned for documents longer than the caller allows.
var ErrTooLarge = errors.New("the YAML document is too large")

// maxDepth is as deep as the JSON that comes out may be.
const maxDepth = json.DefaultMaxDepth

// ToJSON turns one YAML document of at most maxBytes into JSON. An empty document is null. Errors never quote values.
//
// An object that is JSON already, which is what most clients send as YAML, is returned as it is, without the cost of
// YAML. Its duplicate names are then for the decoder of JSON to report.
//
// Time and memory are linear in len(data): less than a second of one processor for 3 MiB of the worst kind.
func ToJSON(data []byte, maxBytes int) ([]byte, error) {
	if len(data) > maxBytes {
		return nil, ErrTooLarge
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && json.Valid(data) == nil {
		return data, nil
	}
	if err := inspect(data); err != nil {
		return nil, err
	}
	value, err := decode(data)
	if err != nil {
		return nil, err
	}
	c := converter{budget: 2 * len(data)}
	tree, err := c.value(value, 0)
	if err != nil {
		return nil, err
	}
	return json.AppendTree(nil, tree)
}

// FromJSON turns JSON into a YAML document for people to read, names sorted.
func FromJSON(data []byte) ([]byte, error) {
	tree, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	if hasMergeKey(tree) {
		return json.Indent(nil, data) // JSON is YAML, and there the key has quotes
	}
	return yaml.Marshal(tree)
}

// hasMergeKey looks for a name that the library writes without the quotes it needs to be read as a name.
func hasMergeKey(tree any) bool {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			if name == "<<" || hasMergeKey(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(tree, hasMergeKey)
	}
	return false
}

// decode reads exactly one document.
func decode(data []byte) (value any, err error) {
	// The library is a translation from C that reports its own errors by panicking; one it forgot to catch must not
	// become a panic of the server.
	defer func() {
		if recover() != nil {
			value, err = nil, errors.New("the YAML document cannot be read")
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.SetStrict(true)
	switch err := d.Decode(&value); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, brief(err)
	}
	var second any
	switch err := d.Decode(&second); {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, brief(err)
	case second != nil:
		return nil, errors.New("more than one YAML document")
	}
	return value, nil
}

// brief keeps the first of the library's complaints and cuts what it quotes.
func brief(err error) error {
	const limit = 200
	text := err.Error()
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok && len(typed.Errors) > 0 {
		text = "yaml: " + typed.Errors[0]
	}
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return errors.New(text)
}

// converter turns what the library decodes into a tree.
//
// Without aliases the items and the text of a document together cannot outgrow twice its length (an escape of two bytes
// stands for three at most). The budget is that: should an alias ever get past inspect, its expansion ends here instead
// of filling the memory.
type converter struct{ budget int }

func (c *converter) spend(n int) error {
	if c.budget -= n; c.budget < 0 {
		return errAlias
	}
	return nil
}

func (c *converter) value(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the YAML document is nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case map[any]any:
		return c.object(v, depth)
	case []any:
		return c.array(v, depth)
	case string:
		return v, c.spend(len(v))
	case int:
		return int64(v), nil
	case int64, bool, nil:
		return v, nil
	case uint64:
		return nil, fmt.Errorf("integer %d does not fit in 64 bits", v)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, errors.New("JSON has no infinity and no NaN")
		}
		return v, nil
	default:
		return nil, fmt.Errorf("YAML value of Go type %T has no JSON form", v)
	}
}

func (c *converter) object(m map[any]any, depth int) (any, error) {
	out := make(map[string]any, len(m))
	for key, value := range m {
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("key %s is not text: put it in quotes", describe(key))
		}
		if err := c.spend(len(name)); err != nil {
			return nil, err
		}
		item, err := c.value(value, depth+1)
		if err != nil {
			return nil, err
		}
		out[name] = item
	}
	return out, nil
}

func (c *converter) array(a []any, depth int) (any, error) {
	if err := c.spend(len(a)); err != nil {
		return nil, err
	}
	out := make([]any, len(a))
	for i, value := range a {
		item, err := c.value(value, depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = item
	}
	return out, nil
}

func describe(key any) string {
	switch key := key.(type) {
	case nil:
		return "null"
	case int, int64, uint64, bool, float64:
		return fmt.Sprint(key)
	}
	return "of another kind"
}
