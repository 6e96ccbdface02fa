package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
)

// maxRepeated limits the documents that Repeated looks at, and maxRepeats what it returns.
const (
	maxRepeated = 1 << 20
	maxRepeats  = 100
)

// Repeated returns sentences about the names that a document repeats, such as `line 9: key "a" already
// set in map`, for a document that has been converted before. It returns none for a document of more than
// a MiB.
func Repeated(document []byte) (sentences []string) {
	if len(document) > maxRepeated {
		return nil
	}
	var discarded map[string]any
	bad, ok := errors.AsType[*yaml.TypeError](yaml.UnmarshalStrict(document, &discarded))
	if !ok {
		return nil
	}
	for _, text := range bad.Errors {
		if strings.HasSuffix(text, "already set in map") && len(sentences) < maxRepeats {
			sentences = append(sentences, clip.Text(text, 200))
		}
	}
	return sentences
}

// ErrTooLarge is returned for documents that exceed the caller's limit.
var ErrTooLarge = errors.New("the YAML document is too large")

// maxDepth is the maximum nesting of the resulting JSON.
const maxDepth = json.DefaultMaxDepth

// ToJSON converts one YAML document of at most maxBytes to JSON. An empty document becomes null.
// Errors never quote values.
//
// If the document is already a JSON object, as most documents that clients send as YAML are, ToJSON
// returns it unchanged and skips the YAML parser.
//
// Duplicate names in an object are kept, so that the JSON decoder reports them; the last one wins
// there. In a document with merge keys (<<) or tags they are an error.
//
// Time and memory are linear in len(data). The worst 3 MiB take less than a second of processor
// time.
//
// Source: QUERY-23, B6.
func ToJSON(data []byte, maxBytes int) ([]byte, error) {
	return convert(data, maxBytes, limits{bytes: maxBytes, nodes: maxNodes})
}

// RequestToJSON is ToJSON for documents of clients, which may have fewer nodes and, unless they are
// JSON, fewer bytes: the library takes hundreds of bytes for each node, and up to 24 for each byte.
//
// Source: S1.
func RequestToJSON(data []byte, maxBytes int) ([]byte, error) {
	return convert(data, maxBytes, limits{bytes: maxRequestBytes, nodes: maxRequestNodes})
}

// limits bound what the library reads.
type limits struct{ bytes, nodes int }

func convert(data []byte, maxBytes int, most limits) ([]byte, error) {
	if len(data) > maxBytes {
		return nil, ErrTooLarge
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && json.Valid(data) == nil {
		return data, nil
	}
	if len(data) > most.bytes {
		if nesting(data) > maxDepth {
			return nil, errors.New("the YAML document is nested too deeply")
		}
		return nil, fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, most.bytes)
	}
	if err := inspect(data, most.nodes); err != nil {
		return nil, err
	}
	value, err := decode(data)
	if err != nil {
		return nil, err
	}
	c := converter{document: data, budget: 2 * len(data)}
	return c.append(make([]byte, 0, len(data)), value, 0)
}

// nesting returns how deeply the brackets of a document are nested. Those in strings count as well.
func nesting(data []byte) int {
	depth, most := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth--
		}
	}
	return most
}

// FromJSON converts JSON to a YAML document with sorted names, for humans to read.
func FromJSON(data []byte) ([]byte, error) {
	tree, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	if hasMergeKey(tree) {
		return json.Indent(nil, data) // JSON is valid YAML and quotes the key
	}
	return yaml.Marshal(tree)
}

// hasMergeKey looks for the name "<<". The library writes it without quotes, so it would be read
// back as a merge key.
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

// maxEmpty limits the empty documents that may follow the one that is read: tools that join files leave
// some. Each of them takes memory.
const maxEmpty = 16

var errDocuments = errors.New("more than one YAML document")

// reader reads a document, and lets other goroutines run.
type reader struct {
	data  []byte
	read  int
	turns json.Turns
}

// Read reads the next part of the document.
func (r *reader) Read(p []byte) (int, error) {
	r.turns.At(r.read)
	if r.read == len(r.data) {
		return 0, io.EOF
	}
	n := copy(p, r.data[r.read:])
	r.read += n
	return n, nil
}

// decode decodes exactly one document.
func decode(data []byte) (value any, err error) {
	// The library is a port from C and reports its own errors with panics. A panic that it fails to
	// catch must not crash the server.
	defer func() {
		if recover() != nil {
			value, err = nil, errors.New("the YAML document cannot be read")
		}
	}()
	d := yaml.NewDecoder(&reader{data: data})
	d.SetStrict(true)
	first := document{merges: mayMerge(data)}
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, brief(err)
	}
	for range maxEmpty { // what follows an empty document would be lost
		var other any
		switch err := d.Decode(&other); {
		case errors.Is(err, io.EOF):
			return first.value, nil
		case err != nil:
			return nil, brief(err)
		case other != nil:
			return nil, errDocuments
		}
	}
	return nil, errDocuments
}

// mayMerge reports whether a document may contain merge keys: <<, or a key with the tag of one, which
// is written in full, in short or with a handle that the document declares.
func mayMerge(data []byte) bool {
	for _, sign := range []string{"<<", "!!", "!<", "%TAG"} {
		if bytes.Contains(data, []byte(sign)) {
			return true
		}
	}
	return false
}

// document decodes the top-level object, and objects in it, as lists of pairs, because maps would
// drop duplicate names. The library only resolves merge keys in maps. So a document that may
// contain merge keys is decoded to maps, and duplicates are rejected.
type document struct {
	value  any
	merges bool
}

// UnmarshalYAML implements the Unmarshaler interface of the library.
func (d *document) UnmarshalYAML(unmarshal func(any) error) error {
	var pairs yaml.MapSlice
	// An empty list can be read as pairs, too.
	if d.merges || unmarshal(&pairs) != nil || len(pairs) == 0 {
		return unmarshal(&d.value)
	}
	d.value = pairs
	return nil
}

// brief keeps the first of the library's errors and truncates what it quotes.
func brief(err error) error {
	const limit = 200
	text := err.Error()
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok && len(typed.Errors) > 0 {
		text = "yaml: " + typed.Errors[0]
	}
	return errors.New(clip.Text(text, limit))
}

// converter converts what the library decoded to JSON with sorted names.
//
// Without aliases, the items and the text of a document together are at most twice as long as the
// document, because an escape of two bytes stands for at most three. The budget enforces this. If
// inspect misses an alias, its expansion stops here instead of exhausting the memory.
type converter struct {
	document []byte
	budget   int
	integers map[float64]struct{} // of the document, beyond 64 bits; nil until they are needed
}

// isInteger reports whether the library made a float of an integer that does not fit in 64 bits. It does
// not say how a number was written, so the numbers in the document are looked at.
func (c *converter) isInteger(v float64) bool {
	if math.Abs(v) < math.MaxInt64 {
		return false
	}
	if c.integers == nil {
		c.integers = longIntegers(c.document)
	}
	_, ok := c.integers[v]
	return ok
}

// longIntegers returns the words of a document that are integers of 64 bits or more, as floats.
func longIntegers(document []byte) map[float64]struct{} {
	const fewest = len("9223372036854775808")
	out := map[float64]struct{}{}
	for word := range bytes.FieldsFuncSeq(document, func(r rune) bool { return strings.ContainsRune(" \t\r\n\u0085\u2028\u2029,:[]{}", r) }) {
		if len(word) < fewest {
			continue
		}
		digits := strings.ReplaceAll(string(word), "_", "")
		if digits == "" || strings.Trim(digits[1:], "0123456789") != "" {
			continue
		}
		if v, err := strconv.ParseFloat(digits, 64); err == nil {
			out[v] = struct{}{}
		}
	}
	return out
}

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
			return nil, errors.New("JSON cannot represent infinity or NaN")
		}
		if c.isInteger(v) {
			return nil, errors.New("an integer does not fit in 64 bits")
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
			return nil, fmt.Errorf("key %s must be a string: put it in quotes", describe(pair.Key))
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
	return "of another type"
}
