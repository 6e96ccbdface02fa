package registry

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// May asks the authorizer of the server whether the caller may do something beside the request that
// the hook, action or plugin of ctx serves. Hooks act with all the power of the server, so one that
// does for the caller what the caller names must ask first:
//
//	secret := registry.Target{Resource: secrets, Namespace: call.Target.Namespace, Name: doc.SecretName}
//	if err := registry.Require(ctx, "get", secret); err != nil {
//		return nil, err
//	}
//
// The verb is get, list, watch, create, update, patch, delete or deletecollection, or one of the
// authorizer's own, such as bind. The server records the decision for the audit log.
//
// The decision is Allow only without an error. A context without a server or without a caller is an
// error: nobody may do anything. The caller is the user of ctx, also in a Front with AsSystem.
func May(ctx context.Context, verb string, t Target) (authz.Decision, error) {
	d, _, _, err := ask(ctx, verb, t)
	return d, err
}

// Require returns nil if [May] is Allow. Otherwise it returns the answer to the request: 403, 400 for
// a target whose namespace or name is invalid, or 503 or 500 if there is no decision.
func Require(ctx context.Context, verb string, t Target) error {
	d, a, reason, err := ask(ctx, verb, t)
	bad, malformed := errors.AsType[*status.Error](err)
	switch {
	case malformed:
		return bad
	case err != nil:
		return authz.Failure(err)
	case d != authz.Allow:
		return authz.Refusal(a, reason)
	}
	return nil
}

func ask(ctx context.Context, verb string, t Target) (authz.Decision, authz.Attributes, string, error) {
	a := authz.Attributes{
		Verb: verb, ResourceRequest: true, Group: t.Resource.Group, Version: t.Resource.Version, Resource: t.Resource.Resource,
		Subresource: t.Subresource, Namespace: t.Namespace, Name: t.Name,
	}
	server, ok := hookcontext.Objects(ctx).(interface{ Authorizer() authz.Authorizer })
	if !ok {
		return authz.Deny, a, "", errNoObjects
	}
	if verb == "" || t.Resource.Resource == "" {
		return authz.Deny, a, "", errors.New("registry: a question to the authorizer needs a verb and a resource")
	}
	if a.User, ok = authn.UserFrom(ctx); !ok {
		return authz.Deny, a, "", errors.New("registry: the context has no caller to ask the authorizer about")
	}
	if a.Namespace != "" && meta.CheckDNSLabel(a.Namespace) != "" || a.Name != "" && meta.CheckPathSegment(a.Name) != "" {
		return authz.Deny, a, "", status.BadRequest("%q is not a namespace, or %q is not a name", clip.Text(a.Namespace, 63), clip.Text(a.Name, 63))
	}
	d, reason, err := authz.Union(server.Authorizer()).Authorize(ctx, a) // which fails closed
	return d, a, reason, err
}
