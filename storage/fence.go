package storage

import (
	"context"
	"errors"
	"slices"
)

// ErrFenced means that a commit came with a context of [WithFence] whose condition no longer holds.
// Nothing was committed, and nothing will be with this context.
var ErrFenced = errors.New("the term of this process is over")

// Fence is a condition for every commit of a context: the record of a key must have a revision. It is how a
// process that was a leader, and does not know yet that it is no longer one, is kept from writing.
type Fence struct {
	Key string
	At  Revision

	// Lost, if not nil, is called by each commit that the fence refuses, before the commit returns.
	Lost func()
}

// WithFence returns a context with which [Store].Commit commits only if the fence holds; otherwise
// it returns ErrFenced. The key is one of the outermost Store that the context reaches. The fence is
// one more operation of the commit. A commit that changes the key itself has conditions of its own,
// so the fence does not apply.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, &f)
}

type fenceKey struct{}

// fenced adds the fence of a context to operations, and returns the context without it: a store
// below may have other keys.
func fenced(ctx context.Context, ops []Op) (context.Context, []Op, *Fence) {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	if f == nil || slices.ContainsFunc(ops, func(o Op) bool { return o.Key == f.Key }) {
		return ctx, ops, nil
	}
	ops = append(slices.Clip(ops), Check(f.Key, Expect(f.At)))
	return context.WithValue(ctx, fenceKey{}, (*Fence)(nil)), ops, f
}

// refused turns the conflict of a fence into ErrFenced.
func (f *Fence) refused(err error) error {
	lost, ok := errors.AsType[*ConflictError](err)
	if f == nil || !ok || lost.Key != f.Key {
		return err
	}
	if f.Lost != nil {
		f.Lost()
	}
	return ErrFenced
}
