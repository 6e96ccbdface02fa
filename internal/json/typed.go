package json

import (
	"bytes"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// options is the meaning of every typed coding in the project: encoding/json's for values, strict for text. The
// library's own defaults would write a Pod with all its false flags, because its omitempty looks at the JSON written
// and not at the Go value.
var options = jsonv2.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsonv2.MatchCaseInsensitiveNames(false),
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
	jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false),
	// Text that MarshalJSON methods return is rewritten with minimal escapes, so that equal values have equal bytes.
	jsontext.PreserveRawStrings(false),
	// The old error values lose the place; ours carry it.
	jsonv1.ReportErrorsWithLegacySemantics(false),
	jsonv2.Deterministic(true),
)

// Marshal returns the JSON of a Go value. Fields keep their Go order; maps are sorted. It fails with a [*TypeError].
func Marshal(v any) ([]byte, error) {
	data, err := jsonv2.Marshal(v, options)
	return data, translate(err)
}

// Append is [Marshal] onto the end of dst. After an error the result is dst as it was.
func Append(dst []byte, v any) ([]byte, error) {
	start := len(dst)
	buf := bytes.NewBuffer(dst)
	if err := jsonv2.MarshalWrite(buf, v, options); err != nil {
		return dst[:start], translate(err)
	}
	return buf.Bytes(), nil
}

// Unmarshal reads one JSON document into the value v points to, as encoding/json would, but with exact names.
// Unknown names are ignored. It fails with a [*SyntaxError] or a [*TypeError]; v may then be partly filled.
// Nesting is bounded at 10,000.
func Unmarshal(data []byte, v any) error {
	return translate(jsonv2.Unmarshal(data, v, options))
}

// TreeOf returns the tree of a Go value: what decoding its JSON gives.
func TreeOf(v any) (any, error) {
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := jsonv2.MarshalWrite(buf, v, options); err != nil {
		return nil, translate(err)
	}
	return DecodeTree(buf.Bytes(), TreeOptions{})
}

// FromTree fills the value v points to from a tree, as [Unmarshal] would from its JSON.
func FromTree(tree any, v any) error {
	// Not a pooled buffer: an UnmarshalJSON method that wrongly keeps its argument must not see later requests.
	data, err := AppendTree(make([]byte, 0, 1024), tree)
	if err != nil {
		return err
	}
	return Unmarshal(data, v)
}

// Indent appends src to dst, indented by two spaces for people to read.
func Indent(dst, src []byte) ([]byte, error) {
	start := len(dst)
	out, err := jsontext.AppendFormat(dst, src, jsontext.WithIndent("  "),
		jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return dst[:start], translate(err)
	}
	return out, nil
}

// buffers holds scratch memory between calls, nothing that a caller could observe.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBytes keeps one huge object from pinning its size for ever.
const maxPooledBytes = 256 << 10

func release(buf *bytes.Buffer) {
	if buf.Cap() > maxPooledBytes {
		return
	}
	buf.Reset()
	buffers.Put(buf)
}
