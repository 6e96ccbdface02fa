package json

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A SyntaxError says that bytes are not a JSON document we accept: bad grammar, bad text, a duplicate name, a number
// out of range, too deep, or something after the end.
type SyntaxError struct {
	// Offset is the number of bytes before the place where the problem was seen.
	Offset int64
	// Path is the place in the document, such as "spec.items[0].x"; empty at the top.
	Path string
	// Reason is a short sentence without the place.
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("invalid JSON at byte %d, in %s: %s", e.Offset, e.Path, e.Reason)
}

// A TypeError says that well-formed JSON does not fit a Go type, or that a Go value has no JSON form.
type TypeError struct {
	// Path is the place in the document, such as "spec.items[0].x"; empty at the top or when unknown.
	Path string
	// Reason is a short sentence without the place.
	Reason string
	// Err is the cause, for example what an UnmarshalJSON method returned; may be nil.
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

// The bounds of a path in an error or a duplicate report. A name can be as long as the document, and a path is written
// once for each problem; without bounds the reports of a hostile document would cost its square.
const (
	maxPathBytes  = 512
	maxNameBytes  = 64
	maxCauseBytes = 200
)

// Step is one step of a path: a name or an index.
type Step struct {
	name  string
	index int // or named, or noStep
}

const (
	named  = -1
	noStep = -2
)

// Name is the step to the member of an object.
func Name(name string) Step { return Step{name: name, index: named} }

// Item is the step to an item of an array; the first is 0.
func Item(index int) Step { return Step{index: index} }

// FormatPath writes a path as errors and warnings name it: "spec.items[0].x", "metadata.labels[example.dev/a]". Long names
// and long paths are cut, so that reports stay small whatever a document calls its members.
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
	name := truncate(s.name, maxNameBytes)
	if !plainName(name) {
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

// plainName tells names that read well after a dot from those that would blur a path, such as label keys.
func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c == '.' || c == '[' || c == ']' || c == '/' || c <= ' ' || c == 0x7f {
			return false
		}
	}
	return name != ""
}

// truncate cuts s to at most limit bytes at a character boundary and marks the cut.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// translate turns the errors of the library behind the door into ours, so that nobody else has to know it.
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
	reason := "cannot be coded"
	switch {
	case e.JSONKind != 0 && e.GoType != nil:
		reason = fmt.Sprintf("a JSON %s does not fit Go type %s", e.JSONKind, e.GoType)
	case e.GoType != nil:
		reason = fmt.Sprintf("Go type %s cannot be coded", e.GoType)
	}
	if e.Err != nil {
		// What a method says may repeat the value, however long.
		reason += ": " + truncate(e.Err.Error(), maxCauseBytes)
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

// pointerPath rewrites a JSON pointer. A pointer does not tell an index from a name made of digits; an index is by far
// the more frequent.
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
