// Package cbor converts documents between JSON and CBOR (RFC 8949), as Kubernetes uses it: the same
// objects in a shorter form that costs clients less to decode.
//
// [Append] writes the form that Kubernetes' own server writes: strings and names as byte strings,
// integers and floats in their shortest form, members in the order of their encoded names. The same
// document always gives the same bytes.
//
// [ToJSON] reads everything that Kubernetes' clients write. It rejects what JSON cannot say or what
// is ambiguous: a member given twice, names that are not strings, integers beyond 64 bits, NaN and
// the infinities, text that is not UTF-8, and simple values other than true, false and null. It
// writes JSON as it reads and builds nothing in memory but its result, which is bounded.
//
// Package internal/yaml does the same for YAML, and internal/protobuf for the third form.
package cbor
