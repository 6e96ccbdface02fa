package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Reader reads the objects of a server.
type Reader interface {
	// Get reads one object, or the object behind a subresource.
	Get(ctx context.Context, t Target, lr ListRequest) (*watch.Entry, error)

	// List reads a collection.
	List(ctx context.Context, t Target, lr ListRequest) (*List, error)

	// Watch follows the changes of a collection until the caller breaks or an error ends it, the
	// context's among others. A watch that has fallen too far behind ends with an error of which
	// watch.Expired is true.
	Watch(ctx context.Context, t Target, wr WatchRequest) iter.Seq2[watch.Event, error]
}

// Writer changes the objects of a server. Every write takes the steps that it takes over HTTP, except
// authorization.
type Writer interface {
	Create(ctx context.Context, t Target, body []byte, o WriteOptions) (*Result, error)
	Update(ctx context.Context, t Target, body []byte, o WriteOptions) (*Result, error)
	Patch(ctx context.Context, t Target, p PatchRequest, o WriteOptions) (*Result, error)
	Delete(ctx context.Context, t Target, o DeleteOptions) (*Result, error)
	DeleteCollection(ctx context.Context, t Target, lr ListRequest, o DeleteOptions) (int, error)
}

// Objects are the objects of a server, for code that runs in its process. They travel as JSON. For and
// From put Go structs in front of them.
type Objects interface {
	Reader
	Writer

	// ResourcesOf returns the resources whose objects have a Go type.
	ResourcesOf(t reflect.Type) []meta.GroupVersionResource
}

// serverUser is who writes with AsSystem.
var serverUser = authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// resourceOf finds the one resource whose objects have a Go type.
func resourceOf(o Objects, t reflect.Type) (meta.GroupVersionResource, error) {
	switch found := o.ResourcesOf(t); len(found) {
	case 0:
		return meta.GroupVersionResource{}, fmt.Errorf("registry: the server has no kind of Go type %s; give it to kindwright.Serve, and start the server first", t)
	case 1:
		return found[0], nil
	default:
		return meta.GroupVersionResource{}, fmt.Errorf("registry: Go type %s belongs to more than one kind: %s and %s", t, found[0], found[1])
	}
}

// What a caller forgot to give.
var (
	errNilObjects = errors.New("registry: From: the objects are nil; give it Server.Engine")
	errNilContext = errors.New("registry: the context is nil")
	errNilChange  = errors.New("registry: Modify: the function is nil")
)

// errNoObjects is what a Front of For answers outside a server.
var errNoObjects = errors.New("registry: the context is not that of a hook, an admission plugin or a subresource; use From")
