// Package json is the only package that encodes and decodes JSON. It offers typed coding, trees,
// canonical text and a scanner for metadata.
//
// A document has three forms:
//
//   - Bytes. Stored objects are canonical JSON: names sorted by their bytes, no insignificant
//     whitespace, the shortest form of numbers, and only the escapes that RFC 8259 requires. Only
//     [AppendTree] writes this form.
//   - A tree. It consists of map[string]any, []any, string, bool, nil, int64 and float64.
//     [DecodeTree] makes one from any bytes; it is strict, and its cost is linear in the input.
//     Once a tree has been passed on, nobody modifies it.
//   - Go values. [Marshal], [Append] and [Unmarshal] interpret struct tags as encoding/json does
//     (omitempty, nil slices and maps, base64 bytes, embedded structs). In contrast to it, they
//     match names exactly, reject duplicates and invalid UTF-8, sort maps and do not escape HTML.
//
// [TreeOf] and [FromTree] convert between the last two.
//
// This package does not know what a document means. Package openapi, which is the one to read next,
// handles types, defaults and unknown fields. YAML enters through internal/yaml.
//
// All functions are safe for concurrent use. Errors in a document are a [*SyntaxError] or a
// [*TypeError]. Both name the position and quote at most a few bytes, since a document may contain
// secrets.
package json
