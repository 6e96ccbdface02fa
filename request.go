package kindwright

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/request"
)

// Request is what a server knows about one request. RequestFrom makes it; it is a copy that may be
// kept and handed on. Fields of what is not known yet are empty: a middleware in front of
// "authenticate" sees no user.
type Request struct {
	ID    string    // the audit id, which the client gets too
	Start time.Time // when the request came in

	// Verb is the requested verb: get, list, watch, create, update, patch, delete or
	// deletecollection of a resource, or the method in lower case for any other path. It is empty
	// for a request that could not be parsed.
	Verb string

	// Path is the decoded path, without the prefix that the server is mounted below.
	Path string

	// Group, Version, Resource and Subresource name the requested resource; they are empty for
	// paths that are not resources. They come from the client: the server may not serve such a
	// resource.
	Group, Version, Resource, Subresource string

	Namespace string // empty for cluster-scoped resources and across all namespaces
	Name      string // empty for collections

	// User is who sent the request. Nobody may change its slices and maps.
	User authn.User

	// Impersonated is the user as whom User acts, whose rights count; its name is empty if User acts
	// for themselves. authn.UserFrom returns this user if there is one, and User otherwise.
	// Constraint is the verb that allowed it, such as impersonate:user-info; it is empty for plain
	// impersonation.
	Impersonated authn.User
	Constraint   string

	Decision authz.Decision // what the authorizer said; NoOpinion before it was asked
	Reason   string         // and why

	// SideDecisions are what the authorizer said about other things that the server, a hook or a
	// plugin asked for the caller on the way, in that order and at most 100: whether a PUT may also
	// create, for instance. See registry.May.
	SideDecisions []SideDecision

	// Code is the HTTP status of the answer: 0 before the answer has begun, and if the connection
	// was lost before that.
	Code int

	// Bytes is how many bytes of the answer's body have been sent. For a connection that changed
	// its protocol, it counts all bytes since.
	Bytes int64
}

// SideDecision is a decision about something else than the request itself.
type SideDecision struct {
	authz.Attributes // what was asked
	Decision         authz.Decision
	Reason           string
}

// sideAuthorizer records in the request that it is asked for what the authorizer says. It answers
// the questions of the server, of hooks and of plugins beside the one about the request.
type sideAuthorizer struct{ authz.Authorizer }

func (z sideAuthorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	d, reason, err := z.Authorizer.Authorize(ctx, a)
	recorded := d
	if err != nil || d != authz.Allow {
		recorded = authz.Deny
	}
	request.ExchangeFrom(ctx).NoteSideDecision(a, recorded, reason)
	return d, reason, err
}

// Rules lists what the authorizer allows.
func (z sideAuthorizer) Rules(ctx context.Context, u authn.User, namespace string) (authz.Rules, error) {
	return authz.RulesOf(ctx, z.Authorizer, u, namespace), nil
}

// RequestFrom returns what is known at this moment about the request of a context. Middleware,
// hooks and subresources may call it at any time, in any goroutine, even after the request has
// ended. Middleware that calls it after its handler has returned sees the code and the size of the
// answer. For a context without a request, such as that of an in-process call, every field is
// empty. So it is in middleware around the server: give that to New, with Before("recover").
func RequestFrom(ctx context.Context) Request {
	x := request.ExchangeFrom(ctx)
	if x == nil {
		return Request{}
	}
	r := Request{ID: x.ID, Start: x.Start, Code: int(x.Code.Load()), Bytes: x.Bytes.Load()}
	if u := x.User.Load(); u != nil {
		r.User = *u
	}
	if as := x.Impersonation.Load(); as != nil {
		r.Impersonated, r.Constraint = as.User, as.Constraint
	}
	if d := x.Decision.Load(); d != nil {
		r.Decision, r.Reason = d.Decision, d.Reason
	}
	for _, d := range x.SideDecisions() {
		r.SideDecisions = append(r.SideDecisions, SideDecision{d.Attributes, d.Decision.Decision, d.Reason})
	}
	if info := x.Info.Load(); info != nil {
		r.Verb, r.Path = info.Verb, info.Path
		r.Group, r.Version, r.Resource, r.Subresource = info.Group, info.Version, info.Resource, info.Subresource
		r.Namespace, r.Name = info.Namespace, info.Name
	}
	return r
}
