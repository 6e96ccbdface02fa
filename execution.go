package kindwright

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// noteAuthorized keeps what was allowed for checkExecution.
func noteAuthorized(x *request.Exchange, a authz.Attributes) { x.Authorized = &a }

// errNotAuthorized is why a request fails that would do something else than was authorized.
var errNotAuthorized = errors.New("the server was about to do something else than it has authorized")

// checkExecution compares what the engine does with what was authorized; see Access.CheckExecution.
func (s *Server) checkExecution(ctx context.Context, does engine.Action) error {
	x := request.ExchangeFrom(ctx)
	if x != nil && x.Authorized != nil && covers(x.Authorized, does) {
		return nil
	}
	facts := []any{"verb", does.Verb, "resource", does.Resource.String(), "subresource", does.Subresource, "namespace", does.Namespace, "name", does.Name}
	if x != nil && x.Authorized != nil {
		facts = append(facts, "auditID", x.ID, "authorized", *x.Authorized)
	}
	s.cfg.log.Error(errNotAuthorized, "a request was rejected", facts...)
	return status.Internal(errNotAuthorized)
}

// covers reports whether an authorization is one for what the engine does.
func covers(a *authz.Attributes, does engine.Action) bool {
	name, namespace := does.Name, does.Namespace
	switch {
	case does.Verb == request.VerbDeleteCollection, does.Verb == request.VerbCreate && does.Subresource == "":
		name = "" // it is that of an object of the collection, or of the body
	case a.Name == "" && (does.Verb == request.VerbList || does.Verb == request.VerbWatch):
		name = "" // a right to all objects is one to those of a name
	case does.Resource.Group == "" && does.Resource.Resource == "namespaces" && a.Namespace == name:
		namespace = name // a right within a namespace can cover the namespace's own object
	}
	return a.ResourceRequest && a.Verb == does.Verb && a.Group == does.Resource.Group && a.Resource == does.Resource.Resource &&
		a.Subresource == does.Subresource && a.Namespace == namespace && a.Name == name
}
