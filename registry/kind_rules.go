package registry

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/internal/typed"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// Rules are what a kind decides about its objects, as functions of their Go type. Each may be nil. They
// are called concurrently for different requests. The context is that of the request:
// authn.UserFrom(ctx) says who is asking, For[U](ctx) reads other objects, and Warn(ctx, …) adds a
// warning to the answer.
//
// What a rule changes in the struct is changed in the object; everything else stays as it was sent.
// The rules below stand in the order in which a write asks them.
type Rules[T any] struct {
	// Name says what is wrong with a name, "" if nothing. Default: a DNS subdomain.
	// Source: NAME-11.
	Name func(name string) string

	// Default fills in values that tags cannot express. It runs on every write, more than once, so it
	// must be idempotent.
	Default func(ctx context.Context, obj *T)

	// Keep takes back what only subresources may change, in a write to the object itself; a kind with a
	// status has that taken back anyway. old is nil for a new object.
	Keep func(obj, old *T)

	// Complete decides what is the server's to decide, such as an address from a pool. It runs after
	// mutating admission, once for each try of a write. Nobody becomes the manager of what it changes.
	// old is nil for a new object, which has its uid. An error refuses the write, as one of admission
	// does.
	Complete func(ctx context.Context, obj, old *T) error

	// Expressions are rules on the object as a whole, in the Common Expression Language. They are
	// published, so clients know them too. Rules on fields and structs are tags:
	// `rule:"self.min <= self.max"`. They run before Validate.
	// Source: CEL-01.
	Expressions []openapi.Rule

	// Validate reports what is wrong with an object that is about to be stored: defaulted, pruned, and
	// valid by its schema in structure. All errors are reported together. ValidateCreate and
	// ValidateUpdate are given the same obj afterwards; what a rule changes in it is not stored.
	Validate func(ctx context.Context, obj *T, f *status.Fields)

	// ValidateCreate does so for a new object, in addition to Validate.
	ValidateCreate func(ctx context.Context, obj *T, f *status.Fields)

	// ValidateUpdate does so for the replacement of old by obj, in addition to Validate.
	ValidateUpdate func(ctx context.Context, obj, old *T, f *status.Fields)

	// Grace gives objects time to end: DELETE stores when they are to be gone, and they stay until
	// then or until a DELETE with a grace period of 0. It returns the seconds that obj is given;
	// asked is what the request says, nil if nothing. 0 removes the object at once, if nothing else
	// holds it. See GraceSeconds and Deletion.Expire.
	// Source: DEL-08.
	Grace func(obj *T, asked *int64) int64

	// BeforeDelete may refuse a deletion. A *status.Error, such as status.Conflict(…), is sent as it
	// is; anything else is an internal error.
	BeforeDelete func(ctx context.Context, obj *T) error
}

// GraceSeconds is a rule that gives all objects of a kind the same time to end, unless a request says
// otherwise:
//
//	registry.Rules[Pod]{Grace: registry.GraceSeconds[*Pod](30)}
//
// For Hooks.Grace the type is Tree.
func GraceSeconds[T any](n int64) func(obj T, asked *int64) int64 {
	return func(_ T, asked *int64) int64 {
		if asked != nil {
			return *asked
		}
		return n
	}
}

// ruled returns the schema with the expressions, which it leaves unchanged.
func (u Rules[T]) ruled(s *openapi.Schema) *openapi.Schema {
	if len(u.Expressions) == 0 {
		return s
	}
	out := *s
	out.Rules = slices.Concat(s.Rules, u.Expressions)
	return &out
}

// hooks are the rules on trees.
func (u Rules[T]) hooks() Hooks {
	var h Hooks
	if u.Default != nil {
		h.Default = func(ctx context.Context, t Tree) (Tree, error) {
			return typed.Change(t, func(obj *T) error { u.Default(ctx, obj); return nil })
		}
	}
	if u.Complete != nil {
		h.Complete = u.complete
	}
	u.judge(&h)
	if u.Grace != nil {
		h.Grace = func(t Tree, asked *int64) int64 {
			obj, err := typed.Decode[T](t)
			if err != nil { // an object that its type cannot hold has nothing to say
				return GraceSeconds[Tree](0)(t, asked)
			}
			return u.Grace(obj, asked)
		}
	}
	if u.BeforeDelete != nil {
		h.BeforeDelete = func(ctx context.Context, old Tree) error {
			obj, err := typed.Decode[T](old)
			if err != nil {
				return err
			}
			return u.BeforeDelete(ctx, obj)
		}
	}
	return h
}

// judge sets the hooks that validate. Validate becomes a part of the other two, since the rules of a write
// share one view of the object: to make it is most of what they cost.
func (u Rules[T]) judge(h *Hooks) {
	if u.Validate != nil || u.ValidateCreate != nil {
		h.ValidateCreate = func(ctx context.Context, t Tree, f *status.Fields) {
			obj := u.validate(ctx, t, f)
			if obj != nil && u.ValidateCreate != nil {
				u.ValidateCreate(ctx, obj, f)
			}
		}
	}
	if u.Validate != nil || u.ValidateUpdate != nil {
		h.ValidateUpdate = func(ctx context.Context, t, old Tree, f *status.Fields) {
			obj := u.validate(ctx, t, f)
			if obj == nil || u.ValidateUpdate == nil {
				return
			}
			if before := validated[T](old, f); before != nil {
				u.ValidateUpdate(ctx, obj, before, f)
			}
		}
	}
}

// validate makes a view of an object and asks Validate. It returns the view, or nil if there can be none.
func (u Rules[T]) validate(ctx context.Context, t Tree, f *status.Fields) *T {
	obj := validated[T](t, f)
	if obj != nil && u.Validate != nil {
		u.Validate(ctx, obj, f)
	}
	return obj
}

func (u Rules[T]) complete(ctx context.Context, t, old Tree) (Tree, error) {
	before, err := typed.Optional[T](old)
	if err != nil {
		return nil, err
	}
	return typed.Change(t, func(obj *T) error { return u.Complete(ctx, obj, before) })
}

// keep joins Keep to what a kind takes back anyway.
func (u Rules[T]) keep(reset func(old, sent Tree) Tree) func(old, sent Tree) Tree {
	if u.Keep == nil {
		return reset
	}
	return func(old, sent Tree) Tree {
		if reset != nil {
			sent = reset(old, sent)
		}
		before, err := typed.Optional[T](old)
		if err != nil {
			return sent // which validation refuses
		}
		kept, err := typed.Change(sent, func(obj *T) error { u.Keep(obj, before); return nil })
		if err != nil {
			return sent
		}
		return kept
	}
}
