package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Client reads and writes the objects of one kind as *T. T is a struct whose JSON has metadata,
// usually by embedding meta.TypeMeta and meta.ObjectMeta; metadata are found in the JSON, so
// apimachinery's do as well.
//
// Every method takes a context that bounds all it does, waiting included. Errors that the server
// answered with are *status.Error; others come from the connection, the context or the arguments.
// All methods are safe for concurrent use.
type Client[T any] struct {
	caller
	memory memory
	wrong  error // what every call returns
}

// For returns a client for a kind, over any http.Client:
//
//	client.For(srv.Client(), Widgets)                                  // in process: apitest, InProcess
//	client.For(httpClient, Widgets, client.At("https://127.0.0.1:6443")) // over HTTP; credentials are the http.Client's
//
// An http.Client with a Timeout cuts watches, which then go on from where they were.
func For[T any](h *http.Client, kind Kind[T], opts ...Option) *Client[T] {
	place, misplaced := placeOf(kind.ClientResource())
	cfg, misconfigured := newConfig(opts)
	c := &Client[T]{wrong: notConfigured(h, misplaced, misconfigured)}
	c.caller = caller{config: cfg, place: place, http: h}
	if cfg != nil {
		c.memory.budget = cfg.memory
	}
	return c
}

// Get reads one object: the newest state, unless an option allows less. An absent one is
// status.IsNotFound.
func (c *Client[T]) Get(ctx context.Context, key meta.Key, opts ...ReadOption) (*T, error) {
	data, err := c.get(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	return c.decode(data)
}

func (c *Client[T]) get(ctx context.Context, key meta.Key, opts ...ReadOption) ([]byte, error) {
	path, err := c.objectPath(key)
	if err != nil {
		return nil, err
	}
	return c.getAt(ctx, path, key, url.Values{}, opts)
}

// getAt reads an object, or what is below it. It adds to q.
func (c *caller) getAt(ctx context.Context, path []string, key meta.Key, q url.Values, opts []ReadOption) ([]byte, error) {
	r, err := newRead(0, opts)
	if err != nil {
		return nil, err
	}
	switch r.match {
	case exact:
		return nil, fmt.Errorf("client: get %s %q: Exactly is for lists", c.resource, key)
	case notOlderThan:
		q.Set("resourceVersion", r.version)
	}
	return c.do(ctx, call{method: http.MethodGet, path: path, query: q})
}

func (c *Client[T]) objectPath(key meta.Key) ([]string, error) {
	if c.wrong != nil {
		return nil, c.wrong
	}
	return c.object(key)
}

func (c *Client[T]) collectionPath(namespace string) ([]string, error) {
	if c.wrong != nil {
		return nil, c.wrong
	}
	return c.collection(namespace)
}

// Create stores a new object, in the namespace that its metadata name, and returns it as it was
// stored. Whether the server answers 200, 201 or 202 makes no difference (CREATE-02). A name that
// is taken is status.IsAlreadyExists; an answer that got lost (an error that is no *status.Error,
// or status.IsTimeout) may mean that the object exists now.
func (c *Client[T]) Create(ctx context.Context, obj *T, opts ...WriteOption) (*T, error) {
	tree, err := c.encode(obj)
	if err != nil {
		return nil, err
	}
	key := keyOf(tree)
	if key.Namespace == "" && !c.clusterScoped {
		return nil, fmt.Errorf("client: create %s %q: the namespace is missing", c.resource, key.Name)
	}
	path, err := c.collectionPath(key.Namespace)
	if err != nil {
		return nil, err
	}
	return c.write(ctx, http.MethodPost, path, tree, opts)
}

// Update replaces an object by obj and returns it as it is stored then. obj should come from this
// client: it has the version it was read at, and if the object has changed since then the error is
// status.IsConflict (UPDATE-02); Modify tries again. Without a version in obj it replaces whatever
// is there, where the kind allows it.
//
// Fields that T does not know are kept: what is sent is the object as the server sent it, with what
// changed in obj. Where that is no longer remembered, Update asks the server for it first
// (UPDATE-04, WithMemory).
func (c *Client[T]) Update(ctx context.Context, obj *T, opts ...WriteOption) (*T, error) {
	after, err := c.encode(obj)
	if err != nil {
		return nil, err
	}
	path, err := c.objectPath(keyOf(after))
	if err != nil {
		return nil, err
	}
	whole, err := c.whole(ctx, after)
	if err != nil {
		return nil, err
	}
	return c.write(ctx, http.MethodPut, path, whole, opts)
}

// UpdateStatus is Update for what the controller of a kind writes: of obj only the status counts.
func (c *Client[T]) UpdateStatus(ctx context.Context, obj *T, opts ...WriteOption) (*T, error) {
	return c.Update(ctx, obj, append(opts[:len(opts):len(opts)], Subresource("status"))...)
}

// whole completes what a struct knows of an object by what the server sent.
func (c *Client[T]) whole(ctx context.Context, after map[string]any) (map[string]any, error) {
	key, version := keyOf(after), versionOf(after)
	if version == "" {
		return after, nil
	}
	data, known := c.memory.get(identity{key.Namespace, key.Name, version})
	if !known {
		var err error
		if data, err = c.get(ctx, key); err != nil {
			return nil, err
		}
	}
	object, before, err := c.views(data)
	if err != nil {
		return nil, err
	}
	if versionOf(object) != version {
		return after, nil // the server will say that it is too late
	}
	return carryMap(object, before, after), nil
}

// Patch changes an object without reading it first, and returns it as it is stored then. The server
// applies the patch to the newest state.
func (c *Client[T]) Patch(ctx context.Context, key meta.Key, p Patch, opts ...WriteOption) (*T, error) {
	path, err := c.objectPath(key)
	if err != nil {
		return nil, err
	}
	data, err := c.patchAt(ctx, path, key, p, newWrite(opts))
	if err != nil {
		return nil, err
	}
	return c.decode(data)
}

// patchAt patches an object, or what is below it.
func (c *caller) patchAt(ctx context.Context, path []string, key meta.Key, p Patch, w write) ([]byte, error) {
	body, err := p.encode(c.place, key)
	if err != nil {
		return nil, fmt.Errorf("client: patch %s %q: %w", c.resource, key, err)
	}
	for name, value := range p.parameters() {
		w.query.Set(name, value)
	}
	return c.do(ctx, call{method: http.MethodPatch, path: w.below(path), query: w.query, contentType: p.contentType, body: body})
}

// Delete deletes one object. It returns when the deletion is accepted: an object with finalizers is
// still there then, until those who put them have taken them off. An absent one is
// status.IsNotFound.
func (c *Client[T]) Delete(ctx context.Context, key meta.Key, opts ...DeleteOption) error {
	path, err := c.objectPath(key)
	if err != nil {
		return err
	}
	return c.delete(ctx, path, nil, opts)
}

// DeleteCollection deletes all objects of a selection. Namespaced kinds are deleted in one
// namespace at a time.
func (c *Client[T]) DeleteCollection(ctx context.Context, s Selection, opts ...DeleteOption) error {
	path, err := c.collectionPath(s.Namespace)
	if err != nil {
		return err
	}
	return c.delete(ctx, path, s.query(), opts)
}

func (c *Client[T]) delete(ctx context.Context, path []string, query url.Values, opts []DeleteOption) error {
	body, err := deleteBody(opts)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, call{method: http.MethodDelete, path: path, query: query, body: body})
	return err
}

// write sends an object and returns what was stored.
func (c *Client[T]) write(ctx context.Context, method string, path []string, tree map[string]any, opts []WriteOption) (*T, error) {
	body, err := json.AppendTree(nil, c.named(tree))
	if err != nil {
		return nil, fmt.Errorf("client: encode one of %s: %w", c.resource, err)
	}
	w := newWrite(opts)
	data, err := c.do(ctx, call{method: method, path: w.below(path), query: w.query, body: body})
	if err != nil {
		return nil, err
	}
	return c.decode(data)
}
