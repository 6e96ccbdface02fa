package authn

import (
	"context"
	"slices"
	"time"
)

// Users and groups with a fixed meaning in the library. Credentials must not be able to claim the
// first two groups themselves; see [User.Groups].
const (
	// UserAnonymous is the name of a caller without any credential. Source: AUTHN-02.
	UserAnonymous = "system:anonymous"

	// GroupUnauthenticated is the only group of an anonymous caller. Source: AUTHN-02.
	GroupUnauthenticated = "system:unauthenticated"

	// GroupAuthenticated contains every caller with a valid credential; [Middleware] adds it.
	// Source: AUTHN-20.
	GroupAuthenticated = "system:authenticated"

	// GroupMasters may do everything: package authz allows its members before it asks any other
	// authorizer. Only a credential can put a user into it.
	// Source: AUTHZ-16, security vector Z16.
	GroupMasters = "system:masters"
)

// User is the sender of a request, as an [Authenticator] identified it. A User is a plain value.
// Its slices and maps are shared by everything that handles the request and must not be modified.
type User struct {
	// Name is unique among all users. It is never empty in a user that an Authenticator returned.
	Name string

	// UID distinguishes users who had the same name at different times. It may be empty.
	UID string

	// Groups are the groups of the user, in the order of the credential.
	Groups []string

	// Extra holds further facts from the credential for authorizers, admission and audit. Keys are
	// lower-case, or nobody could be impersonated with them; a webhook may give others.
	Extra map[string][]string

	// Audiences lists the audiences from [AudiencesFrom] for which the credential is valid. It is
	// nil if the authenticator does not support audiences.
	Audiences []string

	// Expires is when the proof of the user's identity ends. It is zero if the proof has no end or
	// the authenticator does not know it. A request is rejected after this time, and a stream that
	// the credential opened ends then.
	Expires time.Time

	// Method says how the caller was authenticated ("x509", "token", "anonymous", …). It is only
	// for the audit log and must not influence authorization. It is empty if the authenticator did
	// not set it.
	Method string

	// Issuer says who vouches for the caller: the issuer of a token, the issuer in a client
	// certificate, or the name of a front proxy. Like Method it is only for the audit log. It is empty
	// where the server itself knows the credential.
	Issuer string
}

// In reports whether the user belongs to the group.
func (u User) In(group string) bool { return slices.Contains(u.Groups, group) }

// IsAnonymous reports whether the user has the anonymous name or the group of the unauthenticated.
func (u User) IsAnonymous() bool {
	return u.Name == UserAnonymous || u.In(GroupUnauthenticated)
}

// Expired reports whether the proof of the user's identity has ended at a moment.
func (u User) Expired(now time.Time) bool {
	return !u.Expires.IsZero() && now.After(u.Expires)
}

// UserKey is the context key of the user. Its value is a *User that is never modified. Use it for
// contexts that carry more than the user; otherwise use [WithUser].
type UserKey struct{}

// WithUser returns a context that carries the user of a request. [Middleware] calls it. In-process
// callers, which send no credential, call it themselves.
// Source: security vector A13.
func WithUser(ctx context.Context, u User) context.Context {
	return &userContext{Context: ctx, user: u}
}

// UserFrom returns the user of a request. ok is false if the request was not authenticated; callers
// must then reject it.
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
