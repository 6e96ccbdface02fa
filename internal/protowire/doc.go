// Package protowire is the only user of protobuf's wire format library: keys, variable-length
// integers, fixed-width numbers and length-prefixed bytes, without their meaning.
//
// Writing appends to a slice. Reading with [Next] takes one field at a time off the front of a
// message. It checks every length against the rest of the message and does not allocate; values
// point into the message.
//
// The meaning of fields, and how objects become messages, is in internal/protobuf; read it next.
//
// All functions are safe for concurrent use.
package protowire
