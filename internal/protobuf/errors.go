package protobuf

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// An Error says that bytes are not what they should be: a body that is no envelope or whose message does not fit the
// kind, or the text of an object that does not. It never quotes values, which may be secret.
type Error struct {
	// Path is the place in the object by its JSON names, such as "spec.items[0].x"; empty at the top.
	Path string
	// Reason is a short sentence without the place.
	Reason string
	// TooLarge says that the object would exceed the limit that was given.
	TooLarge bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "protobuf: " + e.Reason
	}
	return "protobuf: " + e.Path + ": " + e.Reason
}

// trace finds out where an error was, while it goes up from value to value.
type trace struct {
	steps []json.Step // innermost first
}

// at adds the step that leads to the value which returned err.
func (t *trace) at(err error, step json.Step) error {
	if err != nil {
		t.steps = append(t.steps, step)
	}
	return err
}

// in adds the step to the value of a field. An inline one has no name to add.
func (t *trace) in(err error, f *field) error {
	if f.inline {
		return err
	}
	return t.at(err, json.Name(f.name))
}

// located gives an error that reached the top its place.
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
