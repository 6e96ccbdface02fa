package authz

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/guard"
)

// Decision is an authorizer's result. The zero value allows nothing.
type Decision int

// The three decisions. Any other value is treated as an error.
const (
	// NoOpinion leaves the decision to the next authorizer. If none has an opinion, the request is
	// rejected.
	NoOpinion Decision = iota

	// Allow ends the search and serves the request.
	Allow

	// Deny ends the search and rejects the request. Later authorizers are not asked.
	Deny
)

// String returns "no opinion", "allow" or "deny".
func (d Decision) String() string {
	switch d {
	case NoOpinion:
		return "no opinion"
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	}
	return fmt.Sprintf("unknown decision %d", int(d))
}

// Authorizer decides whether a request may be served.
//
// The reason is a sentence for the caller and the audit log; it may be empty. An error means that
// no decision was possible: the request is rejected and the error is logged, never sent. An error
// that wraps [ErrUnavailable] asks the client to retry. If others should be asked instead, return
// [NoOpinion] without an error.
//
// Authorize must respect ctx, must limit how long it waits for other systems, and must be safe for
// concurrent use.
type Authorizer interface {
	Authorize(ctx context.Context, a Attributes) (d Decision, reason string, err error)
}

// ErrUnavailable is wrapped by the error of an authorizer that cannot decide now but can later, for
// example because it does not know its roles yet. See [Failure].
var ErrUnavailable = errors.New("authorization is not available")

// Func is an [Authorizer] made from a function.
type Func func(ctx context.Context, a Attributes) (Decision, string, error)

// Authorize calls the function.
func (f Func) Authorize(ctx context.Context, a Attributes) (Decision, string, error) {
	return f(ctx, a)
}

var _ Authorizer = Func(nil)

// Union asks authorizers in order. The first one that allows or denies decides. If none has an
// opinion, neither has the union, and its reason is the last one given.
//
// Union fails closed: if an authorizer returns an error, panics or returns an unknown decision, the
// search ends with [Deny] and an error. A later, more generous authorizer might otherwise allow
// what the failing one would have denied.
// Source: AUTHZ-03, security vector Z10.
func Union(z ...Authorizer) Authorizer {
	return union(z)
}

type union []Authorizer

// Unwrap returns the members, so that a server can bind those that read its objects.
func (list union) Unwrap() []Authorizer { return list }

func (list union) Authorize(ctx context.Context, a Attributes) (Decision, string, error) {
	var last string
	for _, z := range list {
		d, reason, err := decide(ctx, z, a)
		if err != nil || d != NoOpinion {
			return d, reason, err
		}
		if reason != "" {
			last = reason
		}
	}
	return NoOpinion, last, nil
}

// decide asks one authorizer and converts everything but a valid decision to Deny with an error.
func decide(ctx context.Context, z Authorizer, a Attributes) (d Decision, reason string, err error) {
	defer func() {
		if err != nil {
			d, reason = Deny, ""
		}
	}()
	defer guard.Recover(&err, "authorizer")
	d, reason, err = z.Authorize(ctx, a)
	switch {
	case err != nil:
		err = fmt.Errorf("authorizer: %w", err)
	case d != NoOpinion && d != Allow && d != Deny:
		err = fmt.Errorf("authorizer answered with %s", d)
	}
	return d, reason, err
}

// AlwaysAllow allows everything. It is for tests and for servers that trust all their callers.
// Source: AUTHZ-02.
func AlwaysAllow() Authorizer { return constant{Allow, ""} }

// AlwaysDeny denies everything that an earlier authorizer has not allowed, such as requests of
// system:masters.
func AlwaysDeny() Authorizer { return constant{Deny, "Everything is forbidden."} }

type constant struct {
	decision Decision
	reason   string
}

func (c constant) Authorize(context.Context, Attributes) (Decision, string, error) {
	return c.decision, c.reason, nil
}

// AllowAuthenticated allows everything to authenticated users and has no opinion about anonymous ones.
// It is for servers whose users are all trusted, but which everybody can reach.
// Source: AUTHZ-02.
func AllowAuthenticated() Authorizer { return authenticated{} }

type authenticated struct{}

var _ RuleResolver = authenticated{}

func (authenticated) Authorize(_ context.Context, a Attributes) (Decision, string, error) {
	if !known(a.User) {
		return NoOpinion, "", nil
	}
	return Allow, "", nil
}

// Rules lists what Authorize allows, for kubectl auth can-i --list.
func (authenticated) Rules(_ context.Context, u authn.User, _ string) (Rules, error) {
	if !known(u) {
		return Rules{}, nil
	}
	every := []string{"*"}
	return Rules{
		Resources: []ResourceRule{{Verbs: every, APIGroups: every, Resources: every}},
		Paths:     []NonResourceRule{{Verbs: every, NonResourceURLs: every}},
	}, nil
}

// known reports whether a user has proved who they are.
func known(u authn.User) bool { return !u.IsAnonymous() && u.In(authn.GroupAuthenticated) }

// Masters allows everything to members of group system:masters and has no opinion about others. Put
// it first, so that no other authorizer can lock them out. Source: AUTHZ-16.
func Masters() Authorizer { return masters{} }

type masters struct{}

func (masters) Authorize(_ context.Context, a Attributes) (Decision, string, error) {
	if a.User.In(authn.GroupMasters) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}
