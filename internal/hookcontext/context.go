package hookcontext

import "context"

type objectsKey struct{}

type subresourceKey struct{}

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
