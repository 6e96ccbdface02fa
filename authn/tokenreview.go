package authn

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// TokenReview asks who a bearer token belongs to, in authentication.{domain}/v1. A service that
// receives tokens of this server POSTs them; the server fills in the document and never stores it.
// Source: REVIEW-06.
type TokenReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TokenReviewSpec   `json:"spec" protobuf:"bytes,2,opt,name=spec" optional:"" doc:"What is asked."`
	Status TokenReviewStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// TokenReviewSpec is the token to check.
type TokenReviewSpec struct {
	Token     string   `json:"token,omitempty" protobuf:"bytes,1,opt,name=token" doc:"The bearer token. It must not be empty."`
	Audiences []string `json:"audiences,omitempty" protobuf:"bytes,2,rep,name=audiences" list:"atomic" doc:"The names of the service that was given the token. The token must be meant for one of them. Without any, it must be meant for this server."`
}

// TokenReviewStatus is the result.
type TokenReviewStatus struct {
	Authenticated bool     `json:"authenticated,omitempty" protobuf:"varint,1,opt,name=authenticated" doc:"Whether the token is that of a user."`
	User          UserInfo `json:"user,omitempty" protobuf:"bytes,2,opt,name=user" doc:"The user whose token it is."`
	Audiences     []string `json:"audiences,omitempty" protobuf:"bytes,4,rep,name=audiences" list:"atomic" doc:"Those of the audiences asked for that the token is meant for. If none were asked for, those of the server."`
	Error         string   `json:"error,omitempty" protobuf:"bytes,3,opt,name=error" doc:"Why the token was not accepted, as far as strangers are told."`
}

// ReviewToken authenticates the token of a review, as [Middleware] would if a request carried it.
// The authenticator receives only the token: neither the certificate of the reviewer nor any value
// of ctx, which may hold the reviewer's identity. As with a 401, the result does not say why a
// token was rejected.
//
// If spec names audiences, the authenticator must confirm one of them in [User].Audiences. A token of
// which the authenticator knows no audiences is meant for the server: for its own audiences, if it has
// any.
func ReviewToken(ctx context.Context, a Authenticator, spec TokenReviewSpec, own ...string) TokenReviewStatus {
	if why := CheckToken(spec.Token); why != "" {
		return TokenReviewStatus{Error: "the token " + why}
	}
	ctx = WithAudiences(valueless{ctx}, spec.Audiences)
	r := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Authorization": {"Bearer " + spec.Token}}, Body: http.NoBody,
	}).WithContext(ctx)
	u, err := Identify(a, r)
	if err != nil || u.IsAnonymous() {
		return TokenReviewStatus{Error: "invalid bearer token"}
	}
	known := u.Audiences
	if len(known) == 0 {
		known = own
	}
	meant := MatchingAudiences(spec.Audiences, known)
	if len(spec.Audiences) == 0 {
		if meant = MatchingAudiences(own, known); len(meant) == 0 {
			meant = slices.Clone(own) // which the authenticator knows by other names
		}
	}
	if len(meant) == 0 && len(spec.Audiences) > 0 {
		return TokenReviewStatus{Error: "the token is not known to be meant for the audiences asked for"}
	}
	return TokenReviewStatus{Authenticated: true, User: u.Info(), Audiences: meant}
}

// MatchingAudiences returns those of a list of audiences that are in the other one, in their order. Both may
// have thousands: whoever may ask for tokens and for reviews chooses them.
func MatchingAudiences(list, of []string) (out []string) {
	const few = 16
	if len(list) <= few || len(of) <= few {
		for _, name := range list {
			if slices.Contains(of, name) {
				out = append(out, name)
			}
		}
		return out
	}
	has := make(map[string]bool, len(of))
	for _, name := range of {
		has[name] = true
	}
	for _, name := range list {
		if has[name] {
			out = append(out, name)
		}
	}
	return out
}

// valueless is a context that keeps only the deadline of another.
type valueless struct{ context.Context }

// Value hides all values.
func (valueless) Value(any) any { return nil }

// audiencesKey is the context key of the requested audiences.
type audiencesKey struct{}

// WithAudiences returns a context with the audiences for which a credential must be valid, instead
// of this server. An empty list changes nothing.
func WithAudiences(ctx context.Context, audiences []string) context.Context {
	if len(audiences) == 0 {
		return ctx
	}
	return context.WithValue(ctx, audiencesKey{}, slices.Clone(audiences))
}

// AudiencesFrom returns the audiences for which a credential must be valid. An authenticator that
// supports audiences accepts a credential for any of them and lists the matching ones in
// [User].Audiences. ok is false for ordinary requests, whose credential must be meant for this
// server.
func AudiencesFrom(ctx context.Context) (audiences []string, ok bool) {
	audiences, ok = ctx.Value(audiencesKey{}).([]string)
	return audiences, ok
}
