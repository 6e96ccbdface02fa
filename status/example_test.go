package status_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Code that knows the resource builds the error; code that got any error asks for its reason.
func Example() {
	widgets := meta.GroupResource{Group: "example.dev", Resource: "widgets"}
	err := fmt.Errorf("reconcile: %w", status.NotFound(widgets, "blue"))

	fmt.Println(status.IsNotFound(err), status.CodeOf(err))
	fmt.Println(status.From(err))
	// Output:
	// true 404
	// widgets.example.dev "blue" not found
}

// The text of an error that nobody meant for clients stays inside.
func ExampleFrom() {
	for _, err := range []error{
		errors.New("dial tcp 10.0.0.7:2379: connection refused"),
		context.DeadlineExceeded,
		status.Unauthorized(),
	} {
		e := status.From(err)
		fmt.Println(e.Code(), e)
	}
	// Output:
	// 500 Internal error occurred: the server's log has the cause
	// 504 Timeout: the request did not complete within its deadline
	// 401 Unauthorized
}

// Validation reports everything at once.
func ExampleFields() {
	var f status.Fields
	f.At("spec", "color").NotSupported("pink", "red", "green", "blue")
	parts := f.At("spec", "parts")
	parts.Index(0).Child("name").Required("")
	parts.Index(1).Child("count").Invalid(int64(-1), "must not be negative")

	err := status.Invalid(meta.GroupKind{Group: "example.dev", Kind: "Widget"}, "w", f.Errors())
	for _, cause := range err.Status().Details.Causes {
		fmt.Println(cause.Field, "-", cause.Message)
	}
	// Output:
	// spec.color - Unsupported value: "pink": supported values: "red", "green", "blue"
	// spec.parts[0].name - Required value
	// spec.parts[1].count - Invalid value: -1: must not be negative
}

func ExampleError_WithCauses() {
	conflict := status.Conflict(meta.GroupResource{Resource: "pods"}, "a", "another manager owns a field")
	detailed := conflict.WithCauses(meta.StatusCause{Type: meta.CauseFieldManagerConflict, Field: ".spec.x"})
	fmt.Println(status.HasCause(detailed, meta.CauseFieldManagerConflict), status.HasCause(conflict, meta.CauseFieldManagerConflict))
	// Output: true false
}
