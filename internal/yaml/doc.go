// Package yaml is the one door to YAML: it turns a document into JSON and back, at the edge of the server only.
//
// YAML is read as sigs.k8s.io/yaml reads it, which is what users of kubectl expect: YAML 1.1 scalars (yes, no, on and
// off are booleans, 017 and 0o17 are 15, 1_000 is 1000, 2001-01-01 is text), merge keys over inline maps, exactly one
// document. What that library would let pass is refused here, because a request comes from anybody: anchors and
// aliases, keys that are not text, duplicate keys, infinities, integers outside 64 bits, and documents that cost far
// more than their size.
//
// It is not for large or frequent data: YAML costs ten times what JSON does. Nothing behind the edge knows it; the next
// package to read is internal/json, which everything else uses.
package yaml
