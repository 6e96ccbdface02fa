// Package protobuf speaks application/vnd.kubernetes.protobuf: it writes the JSON text of objects as messages, and reads
// messages as JSON text. client-go and controller-runtime prefer this form for built-in kinds and do not fall back to JSON.
//
// Nothing is generated. [Describe] makes a [Descriptor] of a Go struct from its `protobuf:"bytes,1,opt,name=metadata"` tags,
// once for each kind; a struct whose fields lack them has no protobuf form, and its kind is served as JSON alone. Of a tag
// only the number counts: how a value is written follows from its Go type, as in the messages that Kubernetes generates
// from the same types.
//
//	object at rest (JSON) ── Descriptor.AppendMessage ──▶ message        all fields, in the order of their numbers
//	message ── Descriptor.AppendJSON ──▶ JSON                            what a client of JSON would have sent
//
// Neither direction makes a Go value or a tree of the object. Writing takes two passes over the text, one that finds the
// members of the Go type and one that writes them; reading takes two over each message, so that fields may come in any
// order and as often as the format allows. The cost is linear in the input.
//
// Around a message stands an envelope that says what it is ([Open], [Descriptor.AppendObject]); lists and the frames of
// watches have their own functions ([Descriptor.WriteList], [Descriptor.AppendEvent]).
//
// The message of a Go type and its JSON do not hold quite the same. A message has no difference between an absent and an
// empty list or map, nor between an absent number, text or struct and its zero; what is written for absent ones depends
// on pointers alone. And it has no apiVersion and kind, which only the envelope carries, so that objects within objects
// lose theirs.
//
// What it is not for: choosing the form of an answer (internal/negotiate), deciding what a document means (package
// openapi), or the primitives of the wire (internal/protowire, the one to read next).
//
// Descriptors never change; their methods may be called concurrently.
package protobuf
