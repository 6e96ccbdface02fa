package json

import (
	"bytes"
	"reflect"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// options configures all typed coding. It follows encoding/json for values but is strict about
// text. With the default options of the library, omitempty considers the resulting JSON instead of
// the Go value, so a Pod would be written with all its false flags.
var options = jsonv2.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsonv2.MatchCaseInsensitiveNames(false),
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
	jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false),
	// Rewrite the text that MarshalJSON methods return with minimal escapes, so that equal values
	// have equal bytes.
	jsontext.PreserveRawStrings(false),
	// Legacy errors do not contain the position.
	jsonv1.ReportErrorsWithLegacySemantics(false),
	jsonv2.Deterministic(true),
)

// Marshal returns the JSON of a Go value. Fields are in the order of the struct; maps are sorted.
// Errors are a [*TypeError].
func Marshal(v any) ([]byte, error) {
	data, err := jsonv2.Marshal(v, options)
	return data, translate(err)
}

// Append is [Marshal] that appends to dst. If it fails, the result is dst unchanged.
func Append(dst []byte, v any) ([]byte, error) {
	start := len(dst)
	buf := bytes.NewBuffer(dst)
	if err := jsonv2.MarshalWrite(buf, v, options); err != nil {
		return dst[:start], translate(err)
	}
	return buf.Bytes(), nil
}

// Unmarshal decodes one JSON document into the value that v points to. It behaves like
// encoding/json but matches names exactly. It ignores unknown names and limits nesting to 10,000
// levels. Errors are a [*SyntaxError] or a [*TypeError]. v may be partly filled after an error.
func Unmarshal(data []byte, v any) error {
	return translate(jsonv2.Unmarshal(data, v, options))
}

// UnmarshalOwn is [Unmarshal] for a document that this package has written. It does not look for names that
// are given twice, which takes memory for each name.
func UnmarshalOwn(data []byte, v any) error {
	return translate(jsonv2.Unmarshal(data, v, options, jsontext.AllowDuplicateNames(true)))
}

// TreeOf returns the tree that results from encoding a Go value and decoding it again. The texts of
// the tree are those of the value.
func TreeOf(v any) (any, error) {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Struct {
		if tree, ok := structureOf(p.Type().Elem()).show(p.Elem(), 0); ok {
			return tree, nil
		}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := jsonv2.MarshalWrite(buf, v, options); err != nil {
		return nil, translate(err)
	}
	return DecodeTree(buf.Bytes(), TreeOptions{})
}

// FromTree fills the value that v points to from a tree, as [Unmarshal] does from its JSON. The texts
// of the value are those of the tree.
func FromTree(tree any, v any) error {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Struct && p.Elem().IsZero() {
		if structureOf(p.Type().Elem()).fill(p.Elem(), tree, 0) {
			return nil
		}
		p.Elem().SetZero()
	}
	// The buffer is not pooled. An UnmarshalJSON method that retains its argument by mistake must
	// not see later requests.
	data, err := AppendTree(make([]byte, 0, 1024), tree)
	if err != nil {
		return err
	}
	return Unmarshal(data, v)
}

// Indent appends src to dst, indented by two spaces.
func Indent(dst, src []byte) ([]byte, error) {
	start := len(dst)
	out, err := jsontext.AppendFormat(dst, src, jsontext.WithIndent("  "),
		jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return dst[:start], translate(err)
	}
	return out, nil
}

// buffers holds scratch memory between calls. Callers cannot observe its contents.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBytes prevents one huge object from pinning its memory forever.
const maxPooledBytes = 256 << 10

func release(buf *bytes.Buffer) {
	if buf.Cap() > maxPooledBytes {
		return
	}
	buf.Reset()
	buffers.Put(buf)
}
