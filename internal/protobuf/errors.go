package protobuf

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// An Error reports that input is invalid: a body without an envelope, or a message or an object
// that does not fit the Go type. It never quotes values, which may be secret.
type Error struct {
	// Path is the position in the object by JSON names, such as "spec.items[0].x". It is empty at
	// the top level.
	Path string
	// Reason is a short description without the position.
	Reason string
	// TooLarge means that the object would exceed the given limit.
	TooLarge bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "protobuf: " + e.Reason
	}
	return "protobuf: " + e.Path + ": " + e.Reason
}

// trace collects the path of an error while it returns from nested values.
type trace struct {
	steps []json.Step // innermost first
}

// at adds the step to the value that returned err.
func (t *trace) at(err error, step json.Step) error {
	if err != nil {
		t.steps = append(t.steps, step)
	}
	return err
}

// in adds the step to the value of a field. An inline field has no name.
func (t *trace) in(err error, f *field) error {
	if f.inline {
		return err
	}
	return t.at(err, json.Name(f.name))
}

// located sets the path of an error that has returned to the top.
func (t *trace) located(err error) error {
	failure, ok := err.(*Error)
	if !ok {
		return err
	}
	slices.Reverse(t.steps)
	failure.Path = json.FormatPath(t.steps)
	return failure
}

func fail(format string, args ...any) error { return &Error{Reason: fmt.Sprintf(format, args...)} }
