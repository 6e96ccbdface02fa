package authz

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/authn"
)

// Decision is an authorizer's answer. The zero value allows nothing.
type Decision int

// The three answers. Any other value is treated as an error.
const (
	// NoOpinion leaves the decision to the next authorizer; when nobody has an opinion the request
	// is refused.
	NoOpinion Decision = iota

	// Allow ends the search: the request is served.
	Allow

	// Deny ends the search: the request is refused, whatever later authorizers would say.
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
// The reason is a sentence for the caller and for the audit log; it may be empty. An error means
// that no decision could be made: the request is refused and the error is logged, never sent. An
// authorizer that wants others to be asked when it cannot decide returns [NoOpinion] without an
// error.
//
// Authorize must respect ctx, must bound its own waiting for other systems, and may be called by
// many goroutines at once.
type Authorizer interface {
	Authorize(ctx context.Context, a Attributes) (d Decision, reason string, err error)
}

// Func is an [Authorizer] made from a function.
type Func func(ctx context.Context, a Attributes) (Decision, string, error)

// Authorize calls the function.
func (f Func) Authorize(ctx context.Context, a Attributes) (Decision, string, error) {
	return f(ctx, a)
}

var _ Authorizer = Func(nil)

// Union asks authorizers in order. The first that allows or denies decides (AUTHZ-03). When nobody
// has an opinion neither has the union, and its reason is that of the last one that gave any.
//
// It fails closed (security vector Z10): an authorizer that returns an error, panics or answers
// with an unknown decision ends the search with [Deny] and an error. Going on would let a later,
// more generous authorizer allow what the failing one might have denied.
func Union(z ...Authorizer) Authorizer {
	return union(z)
}

type union []Authorizer

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

// decide asks one authorizer and turns everything that is not a proper decision into Deny with an
// error.
func decide(ctx context.Context, z Authorizer, a Attributes) (d Decision, reason string, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, reason, err = Deny, "", fmt.Errorf("authorizer panicked: %v", p)
		}
	}()
	d, reason, err = z.Authorize(ctx, a)
	switch {
	case err != nil:
		return Deny, "", fmt.Errorf("authorizer: %w", err)
	case d != NoOpinion && d != Allow && d != Deny:
		return Deny, "", fmt.Errorf("authorizer answered with %s", d)
	}
	return d, reason, nil
}

// AlwaysAllow allows everything (AUTHZ-02). It suits tests and servers whose callers are all
// trusted.
func AlwaysAllow() Authorizer { return constant{Allow, ""} }

// AlwaysDeny denies everything but what was allowed before it, such as system:masters.
func AlwaysDeny() Authorizer { return constant{Deny, "everything is forbidden"} }

type constant struct {
	decision Decision
	reason   string
}

func (c constant) Authorize(context.Context, Attributes) (Decision, string, error) {
	return c.decision, c.reason, nil
}

// Masters allows everything to members of group system:masters and has no opinion about others. It
// stands first, so that no other authorizer can lock them out (AUTHZ-16).
func Masters() Authorizer { return masters{} }

type masters struct{}

func (masters) Authorize(_ context.Context, a Attributes) (Decision, string, error) {
	if a.User.In(authn.GroupMasters) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}
