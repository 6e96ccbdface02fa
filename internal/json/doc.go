// Package json is the one door to JSON: typed coding, trees, canonical text and the metadata scanner.
//
// Three forms of one document meet here.
//
//   - Bytes. At rest an object is canonical JSON: names sorted by their bytes, no insignificant blanks, shortest
//     numbers, only the escapes that RFC 8259 demands. [AppendTree] is the only place that writes it.
//   - A tree: map[string]any, []any, string, bool, nil, int64, float64 and nothing else. [DecodeTree] makes it from
//     bytes of any origin, strictly and at a cost linear in their number. Nobody changes a tree that was handed on.
//   - Go values. [Marshal], [Append] and [Unmarshal] give struct tags the meaning they have in encoding/json
//     (omitempty, nil slices and maps, base64 bytes, embedded structs), but match names exactly, refuse duplicates and
//     invalid UTF-8, sort maps and do not escape for HTML.
//
// [TreeOf] and [FromTree] cross between the last two.
//
// What it is not for: knowing what a document means. Types, defaults and unknown fields are the business of package
// openapi, the next one to read; YAML enters through internal/yaml.
//
// All functions may be called concurrently. Errors about a document are a [*SyntaxError] or a [*TypeError]; both name
// the place and never quote more than a few bytes of the document, which may hold secrets.
package json
