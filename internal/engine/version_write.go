package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// A write through a version other than the stored one is a difference, as that of a typed hook is
// (design rule 7). What the version shows of the stored object is compared with what the requester
// makes of it, both in the stored form, and the stored object changes by that difference. So what the
// version cannot say stays.

// toStored returns the stored object with the change that the requester made to t, an object in the
// form of the request.
func (w *write) toStored(ctx context.Context, t registry.Tree) (registry.Tree, error) {
	r := w.kind
	next, err := ToStored(ctx, r.Resource, t)
	if err != nil {
		return nil, err
	}
	schema := r.base.Schema
	if w.entry != nil {
		if w.shown == nil {
			if w.shown, err = ToStored(ctx, r.Resource, w.object.old); err != nil {
				return nil, err
			}
		}
		next = schema.Merge(w.stored.old, w.shown, next)
	}
	return schema.Default(tree.With(next, t["metadata"], "metadata")), nil
}

// resetStored reverts what the requester may not change on this path and what the version of the
// request shows elsewhere than the stored form: a status that is part of its spec, for example.
func (w *write) resetStored(ctx context.Context) error {
	base := w.kind.base
	reset := func(_ context.Context, old, sent registry.Tree) (registry.Tree, error) {
		return base.Reset(old, sent), nil
	}
	switch sub, ok := base.Endpoint(w.target.Subresource); {
	case w.object != w.sent: // a document
		return nil
	case w.target.Subresource != "":
		if !ok || sub.merge == nil {
			return nil
		}
		reset = sub.merge
	case base.Reset == nil:
		return nil
	}
	sent, err := w.toStored(ctx, w.object.new)
	if err != nil {
		return err
	}
	next, err := reset(ctx, tree.Without(w.stored.old, "metadata", "resourceVersion"), sent)
	if err != nil {
		return err
	}
	return w.follow(ctx, sent, next)
}

// follow makes the change from one stored form to another in the object as the requester sees it.
func (w *write) follow(ctx context.Context, from, to registry.Tree) error {
	if json.Equal(tree.Without(from, "metadata"), tree.Without(to, "metadata")) {
		return nil
	}
	shown, err := allFromStored(ctx, w.kind.Resource, []registry.Tree{from, to})
	if err != nil {
		return err
	}
	next := w.kind.Schema.Merge(w.object.new, shown[0], shown[1])
	w.object.new = tree.With(next, w.object.new["metadata"], "metadata")
	return nil
}

// convert computes what is stored when w.object.new is written. The rules of the stored kind
// that fill in fields see the stored form, whatever version was written. A field that the stored form
// cannot keep is rejected.
func convert(ctx context.Context, w *write) error {
	r := w.kind
	switch {
	case r.Stored == nil:
		w.stored.new = w.object.new
		return nil
	}
	w.own = false
	switch {
	case r.straight():
		return w.convertStraight(ctx)
	case w.entry != nil && json.Equal(w.object.new, w.object.old):
		w.stored.new = w.stored.old
		return nil
	}
	next, err := w.toStored(ctx, w.object.new)
	if err != nil {
		return err
	}
	if err := w.checkKept(ctx, next); err != nil {
		return err
	}
	full, err := w.fillStored(ctx, next)
	if err != nil {
		return err
	}
	if err := w.follow(ctx, next, full); err != nil {
		return err
	}
	w.stored.new = tree.With(full, w.object.new["metadata"], "metadata")
	return nil
}

// fillStored asks the hooks of the stored kind for what the server decides.
func (w *write) fillStored(ctx context.Context, t registry.Tree) (registry.Tree, error) {
	base := w.kind.base
	t, err := base.defaulted(ctx, t)
	if err != nil {
		return nil, err
	}
	if base.Hooks.Complete == nil {
		return t, nil
	}
	return base.completed(ctx, t, w.stored.old)
}

// checkKept rejects what the requester sent and the stored form does not keep. It warns of values
// that come back as others.
func (w *write) checkKept(ctx context.Context, next registry.Tree) error {
	r := w.kind
	back, err := FromStored(ctx, r.Resource, next)
	if err != nil {
		return err
	}
	c := comparison{}
	c.object(tree.Without(w.object.new, "metadata"), tree.Without(back, "metadata"), "")
	if c.lost != "" {
		return status.Invalid(r.GroupKind(), w.name(), []status.FieldError{{
			Type: meta.CauseFieldValueForbidden, Field: c.lost,
			Detail: fmt.Sprintf("would be lost: objects are stored as %s, which does not keep it", r.base.APIVersion()),
		}})
	}
	if c.changed != "" {
		registry.Warn(ctx, fmt.Sprintf("%s is kept as another value, because objects are stored as %s", c.changed, r.base.APIVersion()))
	}
	return nil
}

// comparison finds what did not survive a way there and back.
type comparison struct {
	lost    string // the first path that is there no more
	changed string // the first value that is another
}

func (c *comparison) object(sent, back map[string]any, path string) {
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if c.lost != "" {
			return
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		v, there := back[name]
		if !there {
			if !json.IsZero(sent[name]) {
				c.lost = at
			}
			continue
		}
		c.value(sent[name], v, at)
	}
}

func (c *comparison) value(sent, back any, path string) {
	switch sent := sent.(type) {
	case map[string]any:
		if b, ok := back.(map[string]any); ok {
			c.object(sent, b, path)
			return
		}
	case []any:
		if b, ok := back.([]any); ok {
			c.list(sent, b, path)
			return
		}
	}
	if c.changed == "" && !json.Equal(sent, back) {
		c.changed = path
	}
}

// maxCompared bounds the lists whose items are looked for in other places than their own.
const maxCompared = 256

func (c *comparison) list(sent, back []any, path string) {
	if len(back) < len(sent) {
		c.lost = path
		return
	}
	for i, item := range sent {
		one := comparison{}
		one.value(item, back[i], fmt.Sprintf("%s[%d]", path, i))
		if one == (comparison{}) {
			continue
		}
		if len(back) <= maxCompared && slices.ContainsFunc(back, func(b any) bool {
			other := comparison{}
			other.value(item, b, path)
			return other == comparison{}
		}) {
			continue // it has moved
		}
		if c.changed == "" {
			c.changed = one.changed
		}
		if one.lost != "" {
			c.lost = one.lost
			return
		}
	}
}
