package cel

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Values of trees without a schema, as policies read them. The language has its own, which take two
// allocations and 150 bytes for each object on the way to a field. These take a pointer, and leave what
// is seldom asked to the ones of the language.

// treeAdapter makes values of the parts of a tree.
type treeAdapter struct{}

// NativeToValue returns the value of a part.
func (treeAdapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case ref.Val:
		return v
	case string:
		return types.String(v)
	case map[string]any:
		return &treeMap{v}
	case []any:
		return &treeList{v}
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// treeMap is an object of a tree.
type treeMap struct{ members map[string]any }

// inLanguage returns the same object as a value of the language.
func (m *treeMap) inLanguage() traits.Mapper {
	return types.NewStringInterfaceMap(treeAdapter{}, m.members)
}

// Find returns a member. A key that is no text finds nothing.
func (m *treeMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, ok := m.members[string(name)]
	if !ok {
		return nil, false
	}
	return treeAdapter{}.NativeToValue(v), true
}

// Get returns a member.
func (m *treeMap) Get(key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (m *treeMap) Contains(key ref.Val) ref.Val {
	_, found := m.Find(key)
	return types.Bool(found)
}

func (m *treeMap) Type() ref.Type                   { return types.MapType }
func (m *treeMap) Value() any                       { return m.members }
func (m *treeMap) Size() ref.Val                    { return types.Int(len(m.members)) }
func (m *treeMap) IsZeroValue() bool                { return len(m.members) == 0 }
func (m *treeMap) Equal(other ref.Val) ref.Val      { return m.inLanguage().Equal(other) }
func (m *treeMap) Iterator() traits.Iterator        { return m.inLanguage().Iterator() }
func (m *treeMap) Fold(f traits.Folder)             { types.ToFoldableMap(m.inLanguage()).Fold(f) }
func (m *treeMap) ConvertToType(t ref.Type) ref.Val { return m.inLanguage().ConvertToType(t) }

func (m *treeMap) String() string { return fmt.Sprint(m.inLanguage()) }

func (m *treeMap) ConvertToNative(t reflect.Type) (any, error) {
	return m.inLanguage().ConvertToNative(t)
}

// treeList is a list of a tree.
type treeList struct{ items []any }

func (l *treeList) inLanguage() traits.Lister { return types.NewDynamicList(treeAdapter{}, l.items) }

// Get returns an item.
func (l *treeList) Get(index ref.Val) ref.Val {
	if i, ok := index.(types.Int); ok && i >= 0 && int(i) < len(l.items) {
		return treeAdapter{}.NativeToValue(l.items[i])
	}
	return l.inLanguage().Get(index) // an index of another type, or out of range
}

func (l *treeList) Type() ref.Type                   { return types.ListType }
func (l *treeList) Value() any                       { return l.items }
func (l *treeList) Size() ref.Val                    { return types.Int(len(l.items)) }
func (l *treeList) IsZeroValue() bool                { return len(l.items) == 0 }
func (l *treeList) Iterator() traits.Iterator        { return &treeIterator{items: l.items} }
func (l *treeList) Add(other ref.Val) ref.Val        { return l.inLanguage().Add(other) }
func (l *treeList) Contains(item ref.Val) ref.Val    { return l.inLanguage().Contains(item) }
func (l *treeList) Equal(other ref.Val) ref.Val      { return l.inLanguage().Equal(other) }
func (l *treeList) Fold(f traits.Folder)             { types.ToFoldableList(l.inLanguage()).Fold(f) }
func (l *treeList) ConvertToType(t ref.Type) ref.Val { return l.inLanguage().ConvertToType(t) }

func (l *treeList) String() string { return fmt.Sprint(l.inLanguage()) }

func (l *treeList) ConvertToNative(t reflect.Type) (any, error) {
	return l.inLanguage().ConvertToNative(t)
}

// treeIterator iterates over the items of a list.
type treeIterator struct {
	nameIterator // for what nobody asks of an iterator

	items []any
	next  int
}

func (it *treeIterator) HasNext() ref.Val { return types.Bool(it.next < len(it.items)) }

func (it *treeIterator) Next() ref.Val {
	if it.next >= len(it.items) {
		return nil
	}
	it.next++
	return treeAdapter{}.NativeToValue(it.items[it.next-1])
}
