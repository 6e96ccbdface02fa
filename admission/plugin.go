package admission

import (
	"context"

	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// A Mutator may replace the object of a write. It returns the object to continue with, or an error
// that rejects the write. To change nothing it returns r.Object itself, as Allowed does. Otherwise
// it returns another tree, as Patched does. It never changes r.Object in place.
//
// What it adds is defaulted, pruned and validated like anything the client sent, and never counts
// as sent by the client. Fields that cannot change on the path of the write stay as they are,
// without an error: server fields such as the deletionTimestamp, status on the main path, and spec
// on the status path.
//
// Mutators also run for deletions. Those have no object, so the mutator returns nil, as Allowed and
// Patched do.
//
// A Mutator may be asked a second time about one write, with the object that later mutators have
// changed; see Reinvocation. It must leave what it has done already as it is.
//
// A Mutator is called concurrently for different requests, and must return when ctx ends.
type Mutator interface {
	Mutate(ctx context.Context, r *Request) (map[string]any, error)
}

// A Validator may reject a write by returning an error. It sees the final object and must not
// change it. It is called concurrently for different requests, and must return when ctx ends.
type Validator interface {
	Validate(ctx context.Context, r *Request) error
}

// Selective is a Mutator or a Validator that can tell that a request is none of its business before the
// objects of the request are there. The server asks where it would have to convert an object for
// plugins alone, as when a namespace ends whose objects a webhook would have to convert.
type Selective interface {
	// Concerns reports whether the plugin has to see the objects of r, which has none. It is called for
	// requests that the plugin handles, must be quick and must not block.
	Concerns(r *Request) bool
}

// MutatorFunc adapts a function to a Mutator.
type MutatorFunc func(ctx context.Context, r *Request) (map[string]any, error)

// Mutate calls f.
func (f MutatorFunc) Mutate(ctx context.Context, r *Request) (map[string]any, error) {
	return f(ctx, r)
}

// ValidatorFunc adapts a function to a Validator.
type ValidatorFunc func(ctx context.Context, r *Request) error

// Validate calls f.
func (f ValidatorFunc) Validate(ctx context.Context, r *Request) error { return f(ctx, r) }

var (
	_ Mutator   = MutatorFunc(nil)
	_ Validator = ValidatorFunc(nil)
)

// Plugin is one named rule. Either side may be nil. Log messages about the plugin contain its name.
type Plugin struct {
	Name string

	// Rules select the writes that the plugin handles: a write that any rule selects. Without rules
	// the plugin handles every write.
	Rules []Rule

	// Handles, if not nil, must agree as well. It is called for every write that the rules select,
	// before the request is made. It must be quick and must neither block nor allocate.
	Handles func(t Target) bool

	// After names plugins that a chain must call before this one, if it has them. NewChain rejects
	// another order.
	After []string

	Mutator   Mutator
	Validator Validator

	// Bind creates the mutator and validator of a plugin that reads objects of its server. A plugin
	// has either Bind or the two sides. Bind is called once for each server, while the server is
	// created. Either result may be nil. See watch.Bindable for what applies until those objects
	// are known. A result that is an io.Closer is closed when that server has ended; writes that are
	// still on their way may call it meanwhile.
	Bind func(b watch.Binding) (Mutator, Validator, error)
}

// Denied is the answer of a plugin that rejects r: 403 Forbidden with reason as its explanation.
func Denied(r *Request, reason string) error {
	return status.Forbidden(r.GroupResource(), r.NameInErrors(), reason)
}
