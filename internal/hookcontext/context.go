package hookcontext

import "context"

type objectsKey struct{}

type subresourceKey struct{}

type startKey struct{}

type dryRunKey struct{}

type admittedKey struct{}

type uncountedKey struct{}

// WithObjects returns a context that has the objects of a server. Their type is that of package registry.
func WithObjects(ctx context.Context, objects any) context.Context {
	return context.WithValue(ctx, objectsKey{}, objects)
}

// Objects returns the objects of the server, nil outside one.
func Objects(ctx context.Context) any { return ctx.Value(objectsKey{}) }

// WithSubresource returns a context that has the subresource which an object is written through.
func WithSubresource(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, subresourceKey{}, name)
}

// Subresource returns the subresource which an object is written through, "" for the object itself.
func Subresource(ctx context.Context) string {
	name, _ := ctx.Value(subresourceKey{}).(string)
	return name
}

// WithStart returns a context of what a server does before it serves anybody.
func WithStart(ctx context.Context) context.Context { return context.WithValue(ctx, startKey{}, true) }

// Starts reports whether a write is one of a server that starts. What clients have configured does not
// judge it: a webhook that is gone, or a policy that denies everything, could never be repaired if the
// server did not start.
func Starts(ctx context.Context) bool { return ctx.Value(startKey{}) != nil }

// WithAdmitted returns a context of the writes that a subresource consists of, such as the deletion of an eviction. What
// clients have configured has judged what was asked for, and does not judge its parts.
func WithAdmitted(ctx context.Context) context.Context {
	return context.WithValue(ctx, admittedKey{}, true)
}

// IsExempt reports whether what clients have configured does not judge a write: one of a server that starts, or a part
// of what it has judged.
func IsExempt(ctx context.Context) bool { return Starts(ctx) || ctx.Value(admittedKey{}) != nil }

// WithUncounted returns a context of a write after which an object has the generation and the owners that it had.
// A pod that is bound is an example: the scheduler has not changed what anybody asked for.
func WithUncounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, uncountedKey{}, true)
}

// IsUncounted reports whether a write leaves the generation and the owners of an object as they are.
func IsUncounted(ctx context.Context) bool { return ctx.Value(uncountedKey{}) != nil }

// WithDryRun returns a context of a write that nothing is stored for.
func WithDryRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, dryRunKey{}, true)
}

// IsDryRun reports whether nothing is stored for a write.
func IsDryRun(ctx context.Context) bool { return ctx.Value(dryRunKey{}) != nil }
