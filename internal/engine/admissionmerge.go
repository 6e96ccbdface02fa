package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// kindOf returns the kind of an object: that of what the requester writes, which may be a document of a
// subresource, or one that is served.
func (s admissionServer) kindOf(object map[string]any) (kind *Kind, fields *apply.Fields, err error) {
	if w := s.written; w != nil && tree.Text(object, "apiVersion") == w.APIVersion() && tree.Text(object, "kind") == w.Names.Kind {
		fields, err = fieldsOf(w)
		return w, fields, err
	}
	served, err := s.served(object)
	if err != nil {
		return nil, nil, err
	}
	if rules := served.ownership.rules.Load(); rules != nil {
		return served.Kind, rules.fields, nil
	}
	fields, err = fieldsOf(served.Kind) // a virtual kind: nothing is stored that could be owned
	return served.Kind, fields, err
}

// fieldsOf are the fields of documents that are not stored.
func fieldsOf(k *Kind) (*apply.Fields, error) {
	return apply.New([]apply.Version{{APIVersion: k.APIVersion(), Schema: k.Schema}}, nil)
}

// served returns the kind of an object.
func (s admissionServer) served(object map[string]any) (*Served, error) {
	kind, err := meta.ParseGroupVersion(tree.Text(object, "apiVersion"))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("kind of an object: %w", err))
	}
	of := kind.WithKind(tree.Text(object, "kind"))
	served, ok := s.e.Set().ForKind(of)
	if !ok {
		return nil, status.ServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", of))
	}
	return served, nil
}

func (s admissionServer) Merge(_ context.Context, object, part map[string]any) (map[string]any, error) {
	kind, fields, err := s.kindOf(object)
	if err != nil {
		return nil, err
	}
	out, err := fields.Merge(object, part)
	if err != nil || kind.Type == nil {
		return out, err
	}
	if _, problems := kind.Schema.Canonical(out); len(problems) > 0 { // such as 1.5 for an integer, which a merge takes for a number
		return nil, fmt.Errorf("unable to convert unstructured object to %s/%s, Kind=%s: %s: %s",
			kind.Group, kind.Version, kind.Names.Kind, problems[0].Field, problems[0].Message())
	}
	return out, nil
}

func (s admissionServer) Default(ctx context.Context, object map[string]any) (map[string]any, error) {
	kind, _, err := s.kindOf(object)
	if err != nil {
		return nil, err
	}
	canonical, problems := kind.Schema.CanonicalPatched(object)
	full := kind.Schema.Default(withoutEmptyMetadata(canonical))
	if len(problems) == 0 {
		return kind.defaulted(ctx, full)
	}
	if err := kind.unheld(problems); err != nil {
		return nil, err
	}
	return full, nil // the write reports them
}

// unheld is the answer to a write whose object holds values that the Go type of its kind cannot, because a
// policy or a webhook has put them there. As with unknown fields, the client is not to blame. It is nil for a
// kind without a Go type: its objects may be of any form until they are validated.
func (r *Kind) unheld(problems []status.FieldError) error {
	if r.Type == nil {
		return nil
	}
	return plainly(problems[0].Field + ": " + problems[0].Message())
}

// plainly is an error of the server that says to the client what is wrong.
func plainly(text string) error {
	return status.Internal(errors.New(text)).WithMessage("Internal error occurred: " + text).WithCauses(meta.StatusCause{Message: text})
}

// maxShownFields bounds how many unknown fields an answer names.
const maxShownFields = 10

// CheckFields is strict decoding. Unknown fields are the fault of whoever changed the object, not of the client,
// and so they are an error of the server.
func (s admissionServer) CheckFields(object map[string]any) error {
	kind, _, err := s.kindOf(object)
	if err != nil || kind.Type == nil {
		return err
	}
	var found []string
	for field := range kind.Schema.Unknown(object) {
		found = append(found, fmt.Sprintf("unknown field %q", clip.Text(field.Path, maxShownPath)))
		if len(found) == maxShownFields {
			break
		}
	}
	if len(found) == 0 {
		return nil
	}
	return plainly("strict decoding error: " + strings.Join(found, ", "))
}
