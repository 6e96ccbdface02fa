package kinds

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// A review is a kind whose document asks the server a question about itself (MODEL-21).
type review[T any] struct {
	area       string // the group without its domain
	plural     string
	namespaced bool
	answer     func(ctx context.Context, env registry.Env, doc *T) error
}

// Define implements registry.Definition.
func (r review[T]) Define(env registry.Env) (registry.Bundle, error) {
	if env.Authenticator == nil || env.Authorizer == nil {
		return registry.Bundle{}, errors.New(r.plural + ": the server needs an authenticator and an authorizer")
	}
	return registry.VirtualKind[T]{
		Group: r.area + "." + env.GroupDomain, Version: "v1", Plural: r.plural, Namespaced: r.namespaced,
		Run: func(ctx context.Context, doc *T) error {
			forgetSystemFields(doc)
			return r.answer(ctx, env, doc)
		},
	}.Define(env)
}

// forgetSystemFields removes what only a server says, as from the body of every create. A client may
// send a review again as it came back.
func forgetSystemFields(doc any) {
	if holder, ok := doc.(interface{ GetObjectMeta() *meta.ObjectMeta }); ok {
		m := holder.GetObjectMeta()
		m.UID, m.SelfLink, m.CreationTimestamp = "", "", meta.Time{}
		m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, nil
	}
}

// TokenReviews serves authentication.{domain}/v1 TokenReview, which identifies the user of a bearer
// token. It asks the authenticator of the server. The response repeats the token to the caller, as
// for any created document; the token is not logged.
//
// Source: REVIEW-06.
func TokenReviews() registry.Definition {
	return review[authn.TokenReview]{area: "authentication", plural: "tokenreviews", answer: reviewToken}
}

// SelfSubjectReviews serves authentication.{domain}/v1 SelfSubjectReview, which tells the caller
// who it is authenticated as (`kubectl auth whoami`).
//
// Source: REVIEW-05.
func SelfSubjectReviews() registry.Definition {
	return review[authn.SelfSubjectReview]{area: "authentication", plural: "selfsubjectreviews", answer: reviewSelf}
}

// SubjectAccessReviews serves authorization.{domain}/v1 SubjectAccessReview: whether a given user
// may do something. It asks the authorizer of the server.
//
// Source: REVIEW-01.
func SubjectAccessReviews() registry.Definition {
	return review[authz.SubjectAccessReview]{area: "authorization", plural: "subjectaccessreviews", answer: reviewAccess}
}

// LocalSubjectAccessReviews serves authorization.{domain}/v1 LocalSubjectAccessReview: whether a
// given user may do something in one namespace.
//
// Source: REVIEW-02.
func LocalSubjectAccessReviews() registry.Definition {
	return review[authz.LocalSubjectAccessReview]{
		area: "authorization", plural: "localsubjectaccessreviews",
		namespaced: true, answer: reviewLocalAccess,
	}
}

// SelfSubjectAccessReviews serves authorization.{domain}/v1 SelfSubjectAccessReview: whether the
// caller may do something (`kubectl auth can-i`).
//
// Source: REVIEW-03.
func SelfSubjectAccessReviews() registry.Definition {
	return review[authz.SelfSubjectAccessReview]{area: "authorization", plural: "selfsubjectaccessreviews", answer: reviewSelfAccess}
}

// SelfSubjectRulesReviews serves authorization.{domain}/v1 SelfSubjectRulesReview: what the caller
// may do in a namespace (`kubectl auth can-i --list`), as far as the authorizers can list it
// (authz.RuleResolver).
//
// Source: REVIEW-04.
func SelfSubjectRulesReviews() registry.Definition {
	return review[authz.SelfSubjectRulesReview]{area: "authorization", plural: "selfsubjectrulesreviews", answer: reviewRules}
}

func reviewToken(ctx context.Context, env registry.Env, doc *authn.TokenReview) error {
	if doc.Spec.Token == "" {
		return status.BadRequest("token is required for TokenReview in authentication")
	}
	doc.Status = authn.ReviewToken(ctx, env.Authenticator, doc.Spec, env.Audiences...)
	return nil
}

func reviewSelf(ctx context.Context, _ registry.Env, doc *authn.SelfSubjectReview) error {
	user, err := caller(ctx)
	if err != nil {
		return err
	}
	doc.Status.UserInfo = user.Info()
	doc.ObjectMeta = meta.ObjectMeta{CreationTimestamp: meta.NewTime(time.Now())} // the answer is an object of its own, as in Kubernetes
	return nil
}

func reviewAccess(ctx context.Context, env registry.Env, doc *authz.SubjectAccessReview) (err error) {
	a, problems := doc.Spec.Attributes()
	doc.Status, err = reviewed(ctx, env, doc.TypeMeta, asked{a, doc.Spec.ResourceAttributes}, append(problems, named(doc.ObjectMeta)...))
	return err
}

// named rejects metadata: a review has no name and is not stored.
func named(m meta.ObjectMeta) []status.FieldError {
	m.ManagedFields = nil
	if reflect.DeepEqual(m, meta.ObjectMeta{}) {
		return nil
	}
	return []status.FieldError{{Type: meta.CauseFieldValueInvalid, Field: "metadata", Detail: "must be empty"}}
}

func reviewLocalAccess(ctx context.Context, env registry.Env, doc *authz.LocalSubjectAccessReview) (err error) {
	a, problems := doc.Spec.AttributesIn(doc.Namespace)
	rest := doc.ObjectMeta
	rest.Namespace = ""
	doc.Status, err = reviewed(ctx, env, doc.TypeMeta, asked{a, doc.Spec.ResourceAttributes}, append(problems, named(rest)...))
	return err
}

func reviewSelfAccess(ctx context.Context, env registry.Env, doc *authz.SelfSubjectAccessReview) error {
	user, err := caller(ctx)
	if err != nil {
		return err
	}
	a, problems := doc.Spec.Attributes(user)
	doc.Status, err = reviewed(ctx, env, doc.TypeMeta, asked{a, doc.Spec.ResourceAttributes}, append(problems, named(doc.ObjectMeta)...))
	return err
}

func reviewRules(ctx context.Context, env registry.Env, doc *authz.SelfSubjectRulesReview) error {
	user, err := caller(ctx)
	if err != nil {
		return err
	}
	if doc.Spec.Namespace == "" {
		return status.BadRequest("no namespace on request: spec.namespace is required")
	}
	doc.Status = authz.RulesOf(ctx, env.Authorizer, user, doc.Spec.Namespace).Status()
	return nil
}

// caller returns the user of the request.
func caller(ctx context.Context) (authn.User, error) {
	user, ok := authn.UserFrom(ctx)
	if !ok {
		return user, status.Unauthorized()
	}
	return user, nil
}

// asked is the question of a review, and the part of the document that it was made of.
type asked struct {
	authz.Attributes

	from *authz.ResourceAttributes
}

// reviewed asks the authorizer, unless the review is invalid.
func reviewed(ctx context.Context, env registry.Env, of meta.TypeMeta, a asked, problems []status.FieldError) (authz.AccessReviewStatus, error) {
	if len(problems) > 0 {
		return authz.AccessReviewStatus{}, status.Invalid(of.GroupVersionKind().GroupKind(), "", problems)
	}
	return authz.Review(ctx, env.Authorizer, a.Attributes).WithError(a.from.Unread()), nil
}
