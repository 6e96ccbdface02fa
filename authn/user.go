package authn

import (
	"context"
	"slices"
)

// Names and groups that the library itself gives a meaning to. Credentials must not be able to
// claim the first two of the groups below by themselves; see [User.Groups].
const (
	// UserAnonymous is the name of a caller without any credential (AUTHN-02).
	UserAnonymous = "system:anonymous"

	// GroupUnauthenticated is the only group of an anonymous caller (AUTHN-02).
	GroupUnauthenticated = "system:unauthenticated"

	// GroupAuthenticated is a group of everybody who proved who they are; [Middleware] adds it
	// (AUTHN-20).
	GroupAuthenticated = "system:authenticated"

	// GroupMasters may do everything; package authz allows its members before any other authorizer
	// is asked (AUTHZ-16). Only a credential can put a user into it (security vector Z16).
	GroupMasters = "system:masters"
)

// User is who sent a request, as far as an [Authenticator] could prove it. A User is a plain value;
// whoever receives one from a request must not change its slices and maps, since they are shared by
// everything that handles the request.
type User struct {
	// Name is unique among all users and never empty for a user that an Authenticator returned.
	Name string

	// UID tells apart two users who had the same name at different times. It may be empty.
	UID string

	// Groups the user belongs to, in the order in which the credential named them.
	Groups []string

	// Extra holds further facts from the credential, for authorizers, admission and audit. Keys are
	// lower-case.
	Extra map[string][]string

	// Audiences are those that the credential is meant for, of the ones that [AudiencesFrom] told.
	// It is nil when the authenticator does not know about audiences.
	Audiences []string

	// Method says how the caller proved the identity ("x509", "token", "anonymous", …), for the
	// audit log and for nothing else: no decision about rights reads it. It is empty when the
	// authenticator did not say.
	Method string
}

// In reports whether the user belongs to the group.
func (u User) In(group string) bool { return slices.Contains(u.Groups, group) }

// IsAnonymous reports whether the user is one that proved nothing: it bears the anonymous name or
// the group of the unauthenticated.
func (u User) IsAnonymous() bool {
	return u.Name == UserAnonymous || u.In(GroupUnauthenticated)
}

// UserKey is the context key of the user. Its value is a *User that nobody changes. It is for contexts that carry more
// than the user; all others come from [WithUser].
type UserKey struct{}

// WithUser returns a context that carries who is asking. [Middleware] calls it; in-process callers,
// who send no credential over a wire, call it themselves (security vector A13).
func WithUser(ctx context.Context, u User) context.Context {
	return &userContext{Context: ctx, user: u}
}

// UserFrom returns who is asking. ok is false when nobody authenticated the request: callers must
// then refuse.
func UserFrom(ctx context.Context) (u User, ok bool) {
	known, ok := ctx.Value(UserKey{}).(*User)
	if !ok {
		return User{}, false
	}
	return *known, true
}

// userContext is a context with a user.
type userContext struct {
	context.Context
	user User
}

// Value returns the user, and leaves other keys to the context around it.
func (c *userContext) Value(key any) any {
	if _, ok := key.(UserKey); ok {
		return &c.user
	}
	return c.Context.Value(key)
}
