// Package tables counts the tables of characters that a regular expression is read into, before it is
// read. A class such as \pL is three bytes of a pattern and a table of 13 KB, and where the case of
// letters is ignored, each character of a long range is folded. A pattern of 4 KB would take 36 MB, or a
// second.
//
// It does not judge patterns: packages openapi and cel have the limits.
//
// Read package openapi next.
package tables
