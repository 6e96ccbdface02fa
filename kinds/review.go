package kinds

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// SelfSubjectReviews serves authentication.{domain}/v1 SelfSubjectReview: who the server takes the caller for
// (REVIEW-05, `kubectl auth whoami`).
func SelfSubjectReviews() registry.Definition { return selfSubjectReviews{} }

type selfSubjectReviews struct{}

// Define makes it a registry.Definition.
func (selfSubjectReviews) Define(env registry.Env) (registry.Bundle, error) {
	return registry.Operation[authn.SelfSubjectReview]{
		Group: "authentication." + env.GroupDomain, Version: "v1", Plural: "selfsubjectreviews",
		Run: func(ctx context.Context, doc *authn.SelfSubjectReview) error {
			user, ok := authn.UserFrom(ctx)
			if !ok {
				return status.Unauthorized()
			}
			doc.Status.UserInfo = authn.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups, Extra: user.Extra}
			return nil
		},
	}.Define(env)
}

// SelfSubjectAccessReviews serves authorization.{domain}/v1 SelfSubjectAccessReview: whether the caller may do
// something (REVIEW-03, `kubectl auth can-i`). It asks what the server itself asks on every request.
func SelfSubjectAccessReviews() registry.Definition { return selfSubjectAccessReviews{} }

type selfSubjectAccessReviews struct{}

// Define makes it a registry.Definition.
func (selfSubjectAccessReviews) Define(env registry.Env) (registry.Bundle, error) {
	if env.Authorizer == nil {
		return registry.Bundle{}, errors.New("selfsubjectaccessreviews: the server has no authorizer to ask")
	}
	return registry.Operation[authz.SelfSubjectAccessReview]{
		Group: "authorization." + env.GroupDomain, Version: "v1", Plural: "selfsubjectaccessreviews",
		Run: func(ctx context.Context, doc *authz.SelfSubjectAccessReview) error {
			return reviewAccess(ctx, env.Authorizer, doc)
		},
	}.Define(env)
}

func reviewAccess(ctx context.Context, z authz.Authorizer, doc *authz.SelfSubjectAccessReview) error {
	user, ok := authn.UserFrom(ctx)
	if !ok {
		return status.Unauthorized()
	}
	attributes, problems := doc.Spec.Attributes(user)
	if len(problems) > 0 {
		kind := meta.GroupKind{Group: doc.GroupVersionKind().Group, Kind: "SelfSubjectAccessReview"}
		return status.Invalid(kind, "", problems)
	}
	decision, reason, err := z.Authorize(ctx, attributes)
	doc.Status = authz.AccessReviewStatus{
		Allowed: decision == authz.Allow && err == nil,
		Denied:  decision == authz.Deny,
		Reason:  reason,
	}
	if err != nil {
		doc.Status.EvaluationError = "the authorizer failed; nothing is allowed"
	}
	return nil
}
