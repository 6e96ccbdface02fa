// Package table renders objects as rows of a table and as metadata only. These are the two reduced
// forms of an object that a client can request.
//
// Both are made from the JSON of the object without decoding it. One scan finds the values of all
// columns, and the cells are slices of the text. Rows are appended to the caller's buffer one at a
// time, so a list of any length only needs the memory of one row.
//
//	Layout    the columns of a kind, compiled once
//	Writer    one response with tables: a list, an object, or the events of a watch
//	Metadata  one response with PartialObjectMetadata, or a list of them
//
// This package relies on the text being an object that this server wrote. Package
// internal/negotiate decides whether a client gets a table. Package internal/rest writes the
// responses; it is the one to read next.
//
// Source: TABLE-01, TABLE-10.
package table
