// Package protobuf implements application/vnd.kubernetes.protobuf. It converts the JSON text of
// objects to messages, and messages to JSON text. client-go and controller-runtime prefer this
// media type for built-in kinds and do not fall back to JSON.
//
// There is no generated code. [Describe] makes a [Descriptor] of a Go struct from its
// `protobuf:"bytes,1,opt,name=metadata"` tags, once for each kind. A struct whose fields lack these
// tags has no protobuf form, and its kind is only served as JSON. Only the number in a tag is used.
// How a value is encoded follows from its Go type, as in the messages that Kubernetes generates
// from the same types.
//
//	stored object (JSON) ── Descriptor.AppendMessage ──▶ message         all fields, by number
//	message ── Descriptor.AppendJSON ──▶ JSON                            as a JSON client would send it
//
// Neither direction builds a Go value or a tree. Encoding takes two passes over the text: one finds
// the members that the Go type has, the other writes them. Decoding takes two passes over each
// message, because fields may be in any order and may be repeated. The cost is linear in the input.
//
// A message is wrapped in an envelope that states its kind ([Open], [Descriptor.AppendObject]).
// Lists and frames of watches have their own functions ([ListHead], [Descriptor.AppendItem],
// [Descriptor.AppendEvent]).
//
// The message and the JSON of a Go type are not fully equivalent. A message does not distinguish
// absent from empty lists and maps, or absent numbers, strings and structs from zero ones; whether
// an absent field is written depends only on whether it is a pointer. It also has no apiVersion and
// kind. Only the envelope has these, so embedded objects lose theirs.
//
// This package does not choose the media type of a response (internal/negotiate), does not know
// what a document means (package openapi), and does not implement the wire format itself
// (internal/protowire, which is the one to read next).
//
// Descriptors are immutable. Their methods are safe for concurrent use.
package protobuf
