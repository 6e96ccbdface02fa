// Package protowire is the one door to protobuf's wire format: keys, variable-length integers,
// fixed-width numbers and bytes with a length, and nothing that knows what they mean.
//
// Writing appends to a slice. Reading takes one field at a time off the front of a message with
// [Next], which checks every length against what is there before it believes it; nothing is
// allocated, and values point into the message.
//
// It is not for documents: which field is what, and how objects become messages, is the business of
// internal/protobuf, the one to read next.
//
// All functions may be called concurrently.
package protowire
