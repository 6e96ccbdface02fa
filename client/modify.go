package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The patience of Modify: with a pause that doubles from the first to the greatest, it lasts for
// about a quarter of a minute of losing every race.
const (
	maxModifications = 20
	firstRetry       = 10 * time.Millisecond
	maxRetry         = time.Second
)

// Modify reads an object, has change change it, and updates it; if somebody else was faster, all of
// it begins anew with what they made (UPDATE-03). change may thus be called several times, each
// time with a fresh object, and should decide by what it finds there. An error of change ends it
// and is returned as it is. If nothing changed, nothing is written.
//
// It returns the object as it is stored then. An object that changes faster than Modify can read it
// is status.IsConflict after 20 tries.
//
// With Subresource("status") it is the status that is written.
func (c *Client[T]) Modify(ctx context.Context, key meta.Key, change func(obj *T) error, opts ...WriteOption) (*T, error) {
	wait := firstRetry
	for try := 1; ; try++ {
		obj, raced, err := c.modify(ctx, key, change, opts)
		if !raced || try == maxModifications {
			return obj, err
		}
		c.log.V(1).Info("lost a race", "resource", c.resource.String(), "object", key.String(), "try", try)
		if err := pause(ctx, wait/2+rand.N(wait)); err != nil {
			return nil, err
		}
		wait = min(2*wait, maxRetry)
	}
}

// modify is one try of Modify. raced says that another try may do better.
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
		return nil, false, fmt.Errorf("client: modify %s %q: its name, namespace or version was changed", c.resource, key)
	}
	obj, err = c.write(ctx, http.MethodPut, path, carryMap(object, before, after), opts)
	return obj, status.IsConflict(err), err
}
