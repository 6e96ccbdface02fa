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
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// settleStored works out what is stored when w.object.new is written. A form changes in the stored object what it changes in the
// form, as a typed hook does (design rule 7): what the form cannot say stays. What the stored form cannot say is refused.
func (w *write) settleStored(ctx context.Context) error {
	r := w.resource()
	switch {
	case r.Stored == nil:
		w.stored.new = w.object.new
		return nil
	case w.entry != nil && json.Equal(w.object.new, w.object.old):
		w.stored.new = w.stored.old
		return nil
	}
	stored := r.base()
	next, err := r.toStored(ctx, w.object.new)
	if err != nil {
		return err
	}
	if w.entry != nil {
		before, err := r.toStored(ctx, w.object.old)
		if err != nil {
			return err
		}
		next = carry(stored.Schema, w.stored.old, before, next)
	}
	next = stored.Schema.Default(tree.With(next, w.object.new["metadata"], "metadata"))
	back, err := r.fromStored(ctx, next)
	if err != nil {
		return err
	}
	c := comparison{}
	c.object(tree.Without(w.object.new, "metadata"), tree.Without(back, "metadata"), "")
	if c.lost != "" {
		return status.Invalid(r.GroupKind(), w.name(), []status.FieldError{{
			Type: meta.CauseFieldValueForbidden, Field: c.lost,
			Detail: fmt.Sprintf("would be lost: objects are stored as %s, which does not keep it", stored.APIVersion()),
		}})
	}
	if c.changed != "" {
		registry.Warn(ctx, fmt.Sprintf("%s is kept as another value, because objects are stored as %s", c.changed, stored.APIVersion()))
	}
	w.stored.new = next
	return nil
}

// carry applies to t the difference between before and after. Maps are compared member by member, and lists whose items have
// keys item by item. Of other lists an item that was there before stays as t has it; the rest is as in after.
func carry(s *openapi.Schema, t, before, after map[string]any) map[string]any {
	if json.Equal(before, after) {
		return t
	}
	out := maps.Clone(t)
	if out == nil {
		out = map[string]any{}
	}
	for name := range before {
		if _, still := after[name]; !still {
			delete(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		b, had := before[name]
		if had && json.Equal(after[name], b) {
			continue
		}
		var below *openapi.Schema
		if s != nil {
			below, _ = s.Property(name)
		}
		out[name] = carryValue(below, t[name], b, after[name])
	}
	return out
}

func carryValue(s *openapi.Schema, t, before, after any) any {
	switch after := after.(type) {
	case map[string]any:
		b, had := before.(map[string]any)
		if have, ok := t.(map[string]any); ok && had {
			return carry(s, have, b, after)
		}
	case []any:
		b, had := before.([]any)
		if have, ok := t.([]any); ok && had {
			return carryList(s, have, b, after)
		}
	}
	return after
}

func carryList(s *openapi.Schema, t, before, after []any) []any {
	var items *openapi.Schema
	keyed := s != nil && len(s.ListMapKeys) > 0
	identity := func(item any) string { text, _ := json.AppendTree(nil, item); return string(text) }
	if s != nil && s.Items != nil {
		items = s.Items
		if keyed {
			identity = func(item any) string { return keyOf(s.ListMapKeys, item) }
		}
	}
	if !keyed && len(t) != len(before) { // nobody knows which is which
		return after
	}
	had, have := map[string]any{}, map[string]any{}
	for i, item := range before {
		had[identity(item)] = item
		if !keyed {
			have[identity(item)] = t[i]
		}
	}
	if keyed {
		for _, item := range t {
			have[identity(item)] = item
		}
	}
	out := make([]any, len(after))
	for i, item := range after {
		out[i] = item
		id := identity(item)
		if b, ok := had[id]; ok {
			if kept, ok := have[id]; ok {
				out[i] = carryValue(items, kept, b, item)
				if json.Equal(b, item) {
					out[i] = kept
				}
			}
		}
	}
	return out
}

// keyOf is what an item of a list is known by.
func keyOf(keys []string, item any) string {
	m, _ := item.(map[string]any)
	var id []byte
	for _, k := range keys {
		id, _ = json.AppendTree(append(id, ','), m[k])
	}
	return string(id)
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
