package json

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kindwright/kindwright/internal/clip"
)

// A SyntaxError reports that bytes are not an acceptable JSON document: a syntax error, invalid
// text, a duplicate name, a number out of range, excessive nesting, too many values, or data after
// the end.
type SyntaxError struct {
	// Offset is the number of bytes before the problem.
	Offset int64
	// Path is the position in the document, such as "spec.items[0].x". It is empty at the top
	// level.
	Path string
	// Reason is a short description without the position.
	Reason string
	// TooLarge says that the tree would take more than TreeOptions.Memory.
	TooLarge bool
}

func (e *SyntaxError) Error() string {
	if e.TooLarge {
		return fmt.Sprintf("byte %d, in %s: %s", e.Offset, cmp.Or(e.Path, "the document"), e.Reason)
	}
	if e.Path == "" {
		return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("invalid JSON at byte %d, in %s: %s", e.Offset, e.Path, e.Reason)
}

// A TypeError reports that well-formed JSON does not fit a Go type, or that a Go value has no JSON
// form.
type TypeError struct {
	// Path is the position in the document, such as "spec.items[0].x". It is empty at the top level
	// or if it is unknown.
	Path string
	// Reason is a short description without the position.
	Reason string
	// Err is the cause, for example the error of an UnmarshalJSON method. It may be nil.
	Err error
}

func (e *TypeError) Error() string {
	if e.Path == "" {
		return "json: " + e.Reason
	}
	return "json: " + e.Path + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *TypeError) Unwrap() error { return e.Err }

// Limits for paths in errors and duplicate reports. A name can be as long as the document, and each
// problem has a path. Without limits, the reports about a malicious document could be as large as
// the square of its size.
const (
	maxPathBytes  = 512
	maxNameBytes  = 64
	maxCauseBytes = 200
)

// Step is one step of a path: a name or an index.
type Step struct {
	name  string
	index int // or named, noStep or keyed
}

const (
	named  = -1
	noStep = -2
	keyed  = -3
)

// Name returns the step to a member of an object.
func Name(name string) Step { return Step{name: name, index: named} }

// Key returns the step to an entry of a map. Paths show it in brackets, whatever the name is.
func Key(name string) Step { return Step{name: name, index: keyed} }

// Item returns the step to an item of an array. The first item has index 0.
func Item(index int) Step { return Step{index: index} }

// FormatPath formats a path for errors and warnings, such as "spec.items[0].x" or
// "metadata.labels[example.dev/a]". It truncates long names and paths, so that reports stay small
// regardless of the document.
func FormatPath(path []Step) string {
	var b strings.Builder
	for _, s := range path {
		if b.Len() > maxPathBytes {
			b.WriteString("…")
			break
		}
		appendStep(&b, s)
	}
	return b.String()
}

func appendStep(b *strings.Builder, s Step) {
	if s.index == noStep {
		return
	}
	if s.index >= 0 {
		b.WriteByte('[')
		b.WriteString(strconv.Itoa(s.index))
		b.WriteByte(']')
		return
	}
	name := clip.Text(s.name, maxNameBytes)
	if s.index == keyed || !plainName(name) {
		b.WriteByte('[')
		b.WriteString(name)
		b.WriteByte(']')
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(name)
}

// plainName reports whether a name is unambiguous after a dot. Label keys, for example, are not.
func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c == '.' || c == '[' || c == ']' || c == '/' || c <= ' ' || c == 0x7f {
			return false
		}
	}
	return name != ""
}

// translate converts errors of the JSON libraries to those of this package, so that callers do not
// depend on the libraries.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return semanticError(semantic)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntacticError(syntactic)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &SyntaxError{Reason: endsEarly}
	}
	return &TypeError{Reason: err.Error(), Err: err}
}

func semanticError(e *jsonv2.SemanticError) error {
	reason := "cannot be encoded or decoded"
	switch {
	case e.JSONKind != 0 && e.GoType != nil:
		reason = fmt.Sprintf("a JSON %s does not fit Go type %s", e.JSONKind, e.GoType)
	case e.GoType != nil:
		reason = fmt.Sprintf("Go type %s cannot be encoded or decoded", e.GoType)
	}
	if e.Err != nil {
		// The error of a method may repeat the whole value.
		reason += ": " + clip.Text(e.Err.Error(), maxCauseBytes)
	}
	return &TypeError{Path: pointerPath(e.JSONPointer), Reason: reason, Err: e.Err}
}

func syntacticError(e *jsontext.SyntacticError) error {
	path := pointerPath(e.JSONPointer)
	if errors.Is(e.Err, jsontext.ErrDuplicateName) {
		return &SyntaxError{Offset: e.ByteOffset, Path: path, Reason: duplicateReason(path)}
	}
	reason := "cannot be read"
	switch {
	case errors.Is(e.Err, io.EOF) || errors.Is(e.Err, io.ErrUnexpectedEOF):
		reason = endsEarly
	case e.Err != nil:
		reason = e.Err.Error()
	}
	return &SyntaxError{Offset: e.ByteOffset, Path: path, Reason: reason}
}

const endsEarly = "the document ends early"

func duplicateReason(path string) string { return "duplicate field " + strconv.Quote(path) }

// pointerPath converts a JSON pointer to a path. A pointer does not distinguish an index from a
// name that consists of digits. An index is far more common.
func pointerPath(p jsontext.Pointer) string {
	var path []Step
	for token := range p.Tokens() {
		s := Name(token)
		if n, err := strconv.Atoi(token); err == nil && n >= 0 && len(token) < 10 {
			s.index = n
		}
		path = append(path, s)
	}
	return FormatPath(path)
}
