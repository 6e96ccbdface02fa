package engine

import (
	"context"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Action is what the engine does for a request, as it found it out itself: from storage keys, filters
// and compiled kinds, and not from the request.
type Action struct {
	Verb        string
	Resource    meta.GroupResource
	Subresource string
	Namespace   string
	Name        string // of a list and a watch, if their filter selects one name
}

// requested asks Config.Check about an action on objects of a kind.
func (at *Resolved) requested(ctx context.Context, verb string, of *Kind, namespace, name string) error {
	if at == nil || !at.Requested || at.engine.cfg.Check == nil {
		return nil
	}
	what := Action{Verb: verb, Resource: of.GroupResource(), Namespace: namespace, Name: name}
	if verb == verbApply {
		what.Verb = request.VerbPatch
	}
	if at.Subresource != nil {
		what.Subresource = at.Subresource.Name
	}
	return at.engine.cfg.Check(ctx, what)
}

// requestedAll asks Config.Check about a list, a watch or the deletion of a collection.
func (at *Resolved) requestedAll(ctx context.Context, verb string, of *Kind, filter watch.Filter) error {
	name, _ := filter.Fields.Exact("metadata.name")
	return at.requested(ctx, verb, of, filter.Namespace, name)
}
