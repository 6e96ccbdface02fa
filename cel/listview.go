package cel

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// listView is a list. Sets and keyed lists are equal in any order, and adding to them replaces what
// they have already.
// Source: CEL-16.
type listView struct {
	items  []any // of a tree; or values that an expression added
	schema *openapi.Schema
	work   *load // of the evaluation that reads it; may be nil
}

// isKeyed reports whether the list has no item twice.
func (l *listView) isKeyed() bool {
	return l.schema.ListType == openapi.ListSet || l.schema.ListType == openapi.ListMap
}

func (l *listView) Type() ref.Type                   { return types.ListType }
func (l *listView) Value() any                       { return l.items }
func (l *listView) Size() ref.Val                    { return types.Int(len(l.items)) }
func (l *listView) ConvertToType(t ref.Type) ref.Val { return convert(l, t) }
func (l *listView) at(i int) ref.Val                 { return view(l.items[i], l.schema.Items, l.work) }

// ConvertToNative returns a list of text for functions that need one, and the tree for others.
func (l *listView) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() != reflect.Slice {
		return nil, fmt.Errorf("type conversion error from '%s' to '%s'", l.Type(), t)
	}
	if l.schema.Items.Type != openapi.String {
		return l.items, nil
	}
	texts := make([]string, len(l.items))
	for i := range l.items {
		item := l.at(i)
		text, ok := item.(types.String)
		if !ok {
			return nil, fmt.Errorf("expected all elements to be of type string, but got %s", item.Type().TypeName())
		}
		texts[i] = string(text)
	}
	return texts, nil
}

func (l *listView) Get(index ref.Val) ref.Val {
	i, ok := index.(types.Int)
	if !ok {
		if d, isDouble := index.(types.Double); isDouble && float64(d) == float64(int64(d)) {
			i, ok = types.Int(d), true
		} else if u, isUint := index.(types.Uint); isUint {
			i, ok = types.Int(u), true //nolint:gosec // a large one is negative, and out of bounds
		}
	}
	if !ok {
		return types.ValOrErr(index, "unsupported index: %v", index)
	}
	if i < 0 || int(i) >= len(l.items) {
		return types.NewErr("index out of bounds: %v", index)
	}
	return l.at(int(i))
}

func (l *listView) Contains(v ref.Val) ref.Val {
	if types.IsUnknownOrError(v) {
		return v
	}
	var failed ref.Val
	for i := range l.items {
		switch same := l.at(i).Equal(v).(type) {
		case types.Bool:
			if same {
				return types.True
			}
		default:
			if failed == nil {
				failed = types.MaybeNoSuchOverloadErr(same)
			}
		}
	}
	if failed != nil {
		return failed
	}
	return types.False
}

func (l *listView) Iterator() traits.Iterator { return &itemIterator{list: l} }

func (l *listView) Equal(other ref.Val) ref.Val {
	lister, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size() != lister.Size() {
		return types.False
	}
	if l.isKeyed() {
		return l.sameItems(lister)
	}
	for i := range l.items {
		l.work.look(i)
		if same := l.at(i).Equal(lister.Get(types.Int(i))); same != types.True {
			return same
		}
	}
	return types.True
}

// sameItems compares in any order.
func (l *listView) sameItems(other traits.Lister) ref.Val {
	byKey := make(map[string]int, len(l.items))
	for i, item := range l.items {
		byKey[l.key(item)] = i
	}
	for j, item := range rawItems(other) {
		l.work.look(j)
		i, ok := byKey[l.key(item)]
		if !ok {
			return types.False
		}
		if l.schema.ListType == openapi.ListMap {
			if same := l.at(i).Equal(other.Get(types.Int(j))); same != types.True {
				return same
			}
		}
	}
	return types.True
}

// rawItems returns the items of a list as a tree has them.
func rawItems(list traits.Lister) []any {
	if l, ok := list.(*listView); ok {
		return l.items
	}
	var items []any
	for it := list.Iterator(); it.HasNext() == types.True; {
		items = append(items, raw(it.Next()))
	}
	return items
}

// Add appends another list. A set takes only what it does not have; in a keyed list, an item
// replaces the one with the same keys.
func (l *listView) Add(other ref.Val) ref.Val {
	lister, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	items := slices.Clone(l.items)
	keyed := l.isKeyed()
	byKey := map[string]int{}
	if keyed {
		for i, item := range l.items {
			byKey[l.key(item)] = i
		}
	}
	for j, item := range rawItems(lister) {
		l.work.look(j)
		if keyed {
			key := l.key(item)
			if i, taken := byKey[key]; taken {
				items[i] = item
				continue
			}
			byKey[key] = len(items)
		}
		items = append(items, item)
	}
	return &listView{items: items, schema: l.schema, work: l.work}
}

// key returns what tells an item from the others.
func (l *listView) key(item any) string {
	object, ok := item.(map[string]any)
	if l.schema.ListType == openapi.ListSet || !ok {
		return string(appendKey(nil, item))
	}
	var key []byte
	for _, name := range l.schema.ListMapKeys {
		key = append(appendKey(key, object[name]), 0)
	}
	return string(key)
}

func appendKey(key []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return strconv.AppendQuote(key, v)
	case int64:
		return strconv.AppendInt(key, v, 10)
	case ref.Val:
		return fmt.Appendf(key, "%s:%v", v.Type().TypeName(), v.Value())
	}
	out, err := json.AppendTree(key, v)
	if err != nil {
		return fmt.Appendf(key, "%T:%v", v, v)
	}
	return out
}

// itemIterator iterates over the items of a list.
type itemIterator struct {
	nameIterator
	list *listView
	i    int
}

func (it *itemIterator) HasNext() ref.Val { return types.Bool(it.i < len(it.list.items)) }

func (it *itemIterator) Next() ref.Val {
	it.i++
	return it.list.at(it.i - 1)
}
