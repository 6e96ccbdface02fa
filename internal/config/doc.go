// Package config reads the documents that configure a server.
//
// A document is YAML or JSON. [Read] bounds its size and nesting and finds out which kind it is, in
// which version. [Document.Decode] fills a Go struct. It is strict: it rejects fields that are not
// known, that come twice or that are spelled in another case, and values of a wrong type. Each
// problem names its field. What a document means, its defaults and its validation are the callers'
// business; they report problems in the same form, with [Problems].
//
// [Live] is what a file says now: it reads the file again when it changes, and keeps the last good
// state while the file is bad.
// Source: CFG-01 to CFG-05.
package config
