package watch

import (
	"context"

	"github.com/kindwright/kindwright/meta"
)

// Bindable is an authenticator, an authorizer or an admission plugin that has to know objects of the
// server that it works for: roles, accounts, configurations. T is what it becomes.
//
// Such a value is made before there is a server, and may be given to several. Each server calls Bind
// once, while it is made, and uses what that returns in place of the value. Until everything that it
// observes has been loaded, and whenever an observer does not know the latest changes, the server
// answers for it as if it had failed: nobody is authenticated, nothing is allowed, no write is admitted.
// The readiness check of its name says so too.
type Bindable[T any] interface {
	// Name is a word for logs and checks, such as "rbac".
	Name() string

	// Bind returns the value for one server. It must not read objects yet: the server has not started.
	Bind(b Binding) (T, error)
}

// Binding is a bound value's view of its server.
type Binding interface {
	// Observe has o told of all objects of a resource, and of each change before the write that made it
	// is answered; see [Observation]. The entries are in the form that objects are stored in. It is for
	// Bind alone. New fails for a resource that the server does not have, unless o is from [IfServed].
	Observe(of meta.GroupResource, o Observer) error

	// Get returns one object in a served version, as new as every write that was answered. The error is
	// a NotFound if there is none. An observer must not call it.
	Get(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*Entry, error)
}

// IfServed returns an observer that a server does without while it lacks the resource. It is told of
// all objects, as any other, from the time at which the server has it.
func IfServed(o Observer) Observer { return ifServed{o} }

type ifServed struct{ Observer }

// EveryObject returns an observer that is of no use while an object of its resource exists that cannot
// be read and that it has not been told of: then [Observation.Err] says so. It is for those that forbid,
// such as policies, since too much is allowed without one of them. Others do with what can be read.
func EveryObject(o Observer) Observer { return everyObject{o} }

type everyObject struct{ Observer }

// Required reports whether a server that lacks the resource cannot use what the observer is for.
func Required(o Observer) bool {
	_, optional := o.(ifServed)
	return !optional
}
