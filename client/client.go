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
// usually because it embeds meta.TypeMeta and meta.ObjectMeta. The client finds the metadata in the
// JSON, so types with apimachinery's metadata work as well.
//
// Every method takes a context that bounds everything it does, including waiting. An error that the
// server sent is a *status.Error; other errors come from the connection, the context or the
// arguments. All methods are safe for concurrent use.
type Client[T any] struct {
	caller
	memory memory
	wrong  error // the error of every call, or nil
}

// For returns a client for a kind, over any http.Client:
//
//	client.For(srv.Client(), Widgets)                                  // in process: apitest, InProcess
//	client.For(httpClient, Widgets, client.At("https://127.0.0.1:6443")) // over HTTP; credentials are the http.Client's
//
// If the http.Client has a Timeout, it interrupts watches. They resume from the last version they
// saw.
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

// Get reads one object. It returns the newest state unless an option allows an older one. If the
// object does not exist, the error satisfies status.IsNotFound.
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

// getAt reads an object or one of its subresources. It adds to q.
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

// Create stores a new object in the namespace of its metadata and returns it as stored. It accepts
// 200, 201 and 202 alike. If the name is taken, the error satisfies status.IsAlreadyExists.
//
// If the response was lost, the object may exist now. In that case the error is not a *status.Error
// or satisfies status.IsTimeout. Source: CREATE-02.
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

// Update replaces an object by obj and returns it as stored. obj should come from this client, so
// that it has the version at which it was read. If the object has changed since then, the error
// satisfies status.IsConflict; Modify retries. If obj has no version, Update replaces the current
// state, if the kind allows that.
//
// Update keeps fields that T does not know: it sends the object as the server sent it, with the
// changes made in obj. If the client no longer remembers that text, it reads the object first (see
// WithMemory). Source: UPDATE-02, UPDATE-04.
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

// UpdateStatus is Update for the status subresource: the server takes only the status from obj.
func (c *Client[T]) UpdateStatus(ctx context.Context, obj *T, opts ...WriteOption) (*T, error) {
	return c.Update(ctx, obj, append(opts[:len(opts):len(opts)], Subresource("status"))...)
}

// whole adds to a struct's fields those that only the server's text has.
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
		return after, nil // the server will report the conflict
	}
	return merge[T](object, before, after), nil
}

// Patch changes an object without reading it first and returns it as stored. The server applies the
// patch to the newest state.
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

// patchAt patches an object or one of its subresources.
func (c *caller) patchAt(ctx context.Context, path []string, key meta.Key, p Patch, w write) ([]byte, error) {
	body, err := p.encode(c.place, key)
	if err != nil {
		return nil, fmt.Errorf("client: patch %s %q: %w", c.resource, key, err)
	}
	for name, value := range p.parameters() {
		w.query.Set(name, value)
	}
	return c.do(ctx, call{method: http.MethodPatch, path: w.below(path), query: w.query, contentType: string(p.contentType), body: body})
}

// Delete deletes one object. It returns when the server has accepted the deletion. An object with
// finalizers remains until their controllers have removed them. If the object does not exist, the
// error satisfies status.IsNotFound.
func (c *Client[T]) Delete(ctx context.Context, key meta.Key, opts ...DeleteOption) error {
	path, err := c.objectPath(key)
	if err != nil {
		return err
	}
	return c.delete(ctx, path, nil, opts)
}

// DeleteCollection deletes all selected objects. For namespaced kinds the selection must name a
// namespace.
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

// write sends an object and returns the stored one.
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
