package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The limits of Modify. The pause doubles from firstRetry to maxRetry, so Modify gives up after
// losing every race for about 15 seconds.
const (
	maxModifications = 20
	firstRetry       = 10 * time.Millisecond
	maxRetry         = time.Second
)

// Modify reads an object, calls change, and updates the object. If someone else has changed it in
// the meantime, Modify starts over with the new state. change may therefore be called several
// times, each time with a fresh object, and should decide from what it sees. Modify returns an
// error of change as it is. It does not write if nothing changed.
//
// Modify returns the object as stored. After 20 lost races the error satisfies status.IsConflict.
//
// With Subresource("status") it writes the status. Source: UPDATE-03.
func (c *Client[T]) Modify(ctx context.Context, key meta.Key, change func(obj *T) error, opts ...WriteOption) (*T, error) {
	if change == nil {
		return nil, errors.New("client: Modify: change is nil")
	}
	wait := firstRetry
	for try := 1; ; try++ {
		obj, raced, err := c.modify(ctx, key, change, opts)
		if !raced || try == maxModifications {
			return obj, err
		}
		c.log.V(1).Info("lost a race", "resource", c.resource.String(), "object", key.String(), "try", try)
		if err := pause.For(ctx, wait/2+rand.N(wait)); err != nil {
			return nil, err
		}
		wait = min(2*wait, maxRetry)
	}
}

// modify is one attempt of Modify. raced means that another attempt may succeed.
func (c *Client[T]) modify(ctx context.Context, key meta.Key, change func(obj *T) error, opts []WriteOption) (obj *T, raced bool, err error) {
	path, err := c.objectPath(key)
	if err != nil {
		return nil, false, err
	}
	data, err := c.get(ctx, key)
	if err != nil {
		return nil, false, err
	}
	object, before, err := c.views(data)
	if err != nil {
		return nil, false, err
	}
	if obj, err = c.decode(data); err != nil {
		return nil, false, err
	}
	if err := change(obj); err != nil {
		return nil, false, err
	}
	after, err := c.encode(obj)
	if err != nil || json.Equal(before, after) {
		return obj, false, err
	}
	if keyOf(after) != key || versionOf(after) != versionOf(before) {
		return nil, false, fmt.Errorf("client: modify %s %q: change must not modify the name, namespace or version", c.resource, key)
	}
	obj, err = c.write(ctx, http.MethodPut, path, merge[T](object, before, after), opts)
	return obj, status.IsConflict(err), err
}
