package authn

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// TokenReview is the question whose bearer token this is, of authentication.{domain}/v1
// (REVIEW-06). A service that is given tokens of this server POSTs them; the document is answered,
// never stored.
type TokenReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TokenReviewSpec   `json:"spec" protobuf:"bytes,2,opt,name=spec" optional:"" doc:"What is asked."`
	Status TokenReviewStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// TokenReviewSpec names the token.
type TokenReviewSpec struct {
	Token     string   `json:"token,omitempty" protobuf:"bytes,1,opt,name=token" doc:"The bearer token. It must not be empty."`
	Audiences []string `json:"audiences,omitempty" protobuf:"bytes,2,rep,name=audiences" list:"atomic" doc:"The names of the service that was given the token. The token must be meant for one of them. Without any, it must be meant for this server."`
}

// TokenReviewStatus is the answer.
type TokenReviewStatus struct {
	Authenticated bool     `json:"authenticated,omitempty" protobuf:"varint,1,opt,name=authenticated" doc:"Whether the token is that of a user."`
	User          UserInfo `json:"user,omitempty" protobuf:"bytes,2,opt,name=user" doc:"The user whose token it is."`
	Audiences     []string `json:"audiences,omitempty" protobuf:"bytes,4,rep,name=audiences" list:"atomic" doc:"Those of the audiences asked for that the token is meant for."`
	Error         string   `json:"error,omitempty" protobuf:"bytes,3,opt,name=error" doc:"Why the token was not accepted, as far as strangers are told."`
}

// ReviewToken asks an authenticator about the token of a review, as [Middleware] would if a request
// carried it. Nothing but the token reaches the authenticator: neither the certificate of the one
// who asks nor any value of ctx, which may hold who that is. What the authenticator has against a
// token stays unsaid, as it does in a 401.
//
// Where audiences are asked for, the authenticator must vouch for one of them with
// [User].Audiences; a token of an authenticator that knows no audiences is then not accepted.
func ReviewToken(ctx context.Context, a Authenticator, spec TokenReviewSpec) TokenReviewStatus {
	if why := CheckToken(spec.Token); why != "" {
		return TokenReviewStatus{Error: "the token " + why}
	}
	ctx = WithAudiences(valueless{ctx}, spec.Audiences)
	r := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Authorization": {"Bearer " + spec.Token}}, Body: http.NoBody,
	}).WithContext(ctx)
	u, err := (&middleware{authenticator: a}).authenticate(r)
	if err != nil || u.IsAnonymous() {
		return TokenReviewStatus{Error: "the token was not accepted"}
	}
	if len(spec.Audiences) == 0 {
		return TokenReviewStatus{Authenticated: true, User: u.Info()}
	}
	meant := slices.DeleteFunc(slices.Clone(spec.Audiences), func(asked string) bool { return !slices.Contains(u.Audiences, asked) })
	if len(meant) == 0 {
		return TokenReviewStatus{Error: "the token is not known to be meant for the audiences asked for"}
	}
	return TokenReviewStatus{Authenticated: true, User: u.Info(), Audiences: meant}
}

// valueless is a context that keeps its deadline and says nothing else.
type valueless struct{ context.Context }

// Value hides all values.
func (valueless) Value(any) any { return nil }

// audiencesKey is the context key of the audiences asked for.
type audiencesKey struct{}

// WithAudiences returns a context that tells authenticators which audiences a credential should be
// meant for, in place of this server. None change nothing.
func WithAudiences(ctx context.Context, audiences []string) context.Context {
	if len(audiences) == 0 {
		return ctx
	}
	return context.WithValue(ctx, audiencesKey{}, slices.Clone(audiences))
}

// AudiencesFrom returns the audiences that a credential should be meant for. An authenticator that
// knows the audiences of credentials accepts one that is meant for any of these, and says in
// [User].Audiences for which. ok is false for the usual request, whose credential must be meant for
// this server.
func AudiencesFrom(ctx context.Context) (audiences []string, ok bool) {
	audiences, ok = ctx.Value(audiencesKey{}).([]string)
	return audiences, ok
}
