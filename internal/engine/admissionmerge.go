package engine

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

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
	served, err := s.served(object)
	if err != nil {
		return nil, err
	}
	return served.ownership.rules.Load().fields.Merge(object, part)
}

func (s admissionServer) Default(ctx context.Context, object map[string]any) (map[string]any, error) {
	served, err := s.served(object)
	if err != nil {
		return nil, err
	}
	canonical, problems := served.Kind.Schema.Canonical(object)
	if len(problems) > 0 {
		return object, nil // the write reports them
	}
	return served.Kind.defaulted(ctx, served.Kind.Schema.Default(withoutEmptyMetadata(canonical)))
}
