// Package yaml is the only package that reads and writes YAML. It converts documents from and to
// JSON at the edge of the server.
//
// It reads YAML as sigs.k8s.io/yaml does, which is what users of kubectl expect: YAML 1.1 scalars
// (yes, no, on and off are booleans, 017 and 0o17 are 15, 1_000 is 1000, 2001-01-01 is a string),
// merge keys in inline maps, and exactly one document. Requests are untrusted, so it rejects some
// input that the library accepts: anchors and aliases, keys that are not strings, duplicate keys,
// infinities, integers outside 64 bits, and documents whose cost is out of proportion to their
// size.
//
// This package is not suited to large or frequent data: YAML costs ten times as much as JSON. No
// package behind the edge uses it. Read internal/json next, which everything else uses.
package yaml
