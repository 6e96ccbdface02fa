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
// YAML.
//
// Names that an object has twice stay so, for the decoder of JSON to report (QUERY-23, B6); the last one counts there. Beside
// merge keys (<<) and tags they are an error.
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
	return c.append(make([]byte, 0, len(data)), value, 0)
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
	first := document{merges: bytes.Contains(data, []byte("<<")) || bytes.ContainsRune(data, '!')}
	switch err := d.Decode(&first); {
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
	return first.value, nil
}

// document is a document whose objects, where it is one itself, are lists of pairs: maps would lose names that come twice.
// With merge keys, which the library follows in maps alone, and anything that could be one, it refuses such names.
type document struct {
	value  any
	merges bool
}

// UnmarshalYAML is called by the library.
func (d *document) UnmarshalYAML(unmarshal func(any) error) error {
	var pairs yaml.MapSlice
	if d.merges || unmarshal(&pairs) != nil {
		return unmarshal(&d.value)
	}
	d.value = pairs
	return nil
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

// converter turns what the library decodes into JSON, names sorted.
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

func (c *converter) append(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the YAML document is nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case yaml.MapSlice:
		return c.appendObject(dst, v, depth)
	case map[any]any:
		pairs := make(yaml.MapSlice, 0, len(v))
		for key, value := range v {
			pairs = append(pairs, yaml.MapItem{Key: key, Value: value})
		}
		return c.appendObject(dst, pairs, depth)
	case []any:
		return c.appendArray(dst, v, depth)
	case string:
		if err := c.spend(len(v)); err != nil {
			return nil, err
		}
		return json.AppendTree(dst, v)
	case int:
		return json.AppendTree(dst, int64(v))
	case int64, bool, nil:
		return json.AppendTree(dst, v)
	case uint64:
		return nil, fmt.Errorf("integer %d does not fit in 64 bits", v)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, errors.New("JSON has no infinity and no NaN")
		}
		return json.AppendTree(dst, v)
	default:
		return nil, fmt.Errorf("YAML value of Go type %T has no JSON form", v)
	}
}

func (c *converter) appendObject(dst []byte, pairs yaml.MapSlice, depth int) ([]byte, error) {
	for _, pair := range pairs {
		name, ok := pair.Key.(string)
		if !ok {
			return nil, fmt.Errorf("key %s is not text: put it in quotes", describe(pair.Key))
		}
		if err := c.spend(len(name)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(pairs, func(a, b yaml.MapItem) int { return strings.Compare(a.Key.(string), b.Key.(string)) })
	dst = append(dst, '{')
	var err error
	for i, pair := range pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = json.AppendTree(dst, pair.Key); err != nil {
			return nil, err
		}
		if dst, err = c.append(append(dst, ':'), pair.Value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (c *converter) appendArray(dst []byte, a []any, depth int) ([]byte, error) {
	if err := c.spend(len(a)); err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	var err error
	for i, value := range a {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.append(dst, value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
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
