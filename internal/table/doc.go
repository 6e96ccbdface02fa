// Package table shows objects as rows for people, and as metadata alone: the two smaller forms of an object that a client
// can ask for (TABLE-01, TABLE-10).
//
// Both are made from the JSON text of the object, without decoding it: one walk over the text finds the values of all
// columns, and the cells are slices of it. Rows are appended to the caller's buffer one by one, so that a list of any
// length needs the memory of one row.
//
//	Layout    the columns of a kind, prepared once
//	Writer    one answer: a list, an object, or the events of a watch
//	Metadata  one answer of PartialObjectMetadata, or of the list of them
//
// What it is not for: it trusts the text to be an object that this server wrote. Whether a client gets a table is decided
// by internal/negotiate; package registry/rest, which writes the answers, is the next one to read.
package table
