package patch

import (
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// identify returns the identity of a list item. Items with the same identity are the same item.
type identify func(item any) (string, error)

// list merges the items of a patch into a list. patch is nil if the patch gives an order but no
// items. order is nil if it gives no order.
func (s *strategic) list(original, patch, order []any, schema *openapi.Schema) ([]any, error) {
	how := strategyOf(schema)
	var items *openapi.Schema
	if schema != nil {
		items = schema.Items
	}
	if !how.merges {
		merged, err := s.replaced(original, patch, items)
		if err != nil || order == nil {
			return merged, err
		}
		return s.inOrder(merged, patch, order, original, s.identities(how, items))
	}
	objects, err := s.hold(original, patch)
	if err != nil {
		return nil, err
	}
	if !objects {
		merged, err := s.union(original, patch)
		if err != nil {
			return nil, err
		}
		return s.inOrder(merged, patch, order, original, itself)
	}
	return s.items(original, patch, order, items, s.identities(how, items))
}

// replaced returns a list that is not merged: the list of the patch or, if the patch has none, the
// original. Instead of items that there are, those of the patch are taken as they are: kube-apiserver
// does not look for directives in them, and reports these as unknown fields. Where there are none, items
// with a directive are left out.
func (s *strategic) replaced(original, patch []any, items *openapi.Schema) ([]any, error) {
	switch {
	case patch == nil:
		return original, nil
	case len(original) > 0:
		return patch, nil
	}
	out := make([]any, 0, len(patch))
	for _, item := range patch {
		object, ok := item.(map[string]any)
		if !ok {
			out = append(out, item)
			continue
		}
		if _, marked := object[directiveMarker]; marked {
			continue
		}
		fresh, _, err := s.object(nil, object, items)
		if err != nil {
			return nil, err
		}
		out = append(out, fresh)
	}
	return out, nil
}

// hold reports whether the items of lists to be merged are objects. It rejects lists of lists,
// because their items have no identity.
func (s *strategic) hold(lists ...[]any) (objects bool, err error) {
	seen := [2]bool{}
	for _, list := range lists {
		for _, item := range list {
			switch item.(type) {
			case []any:
				return false, s.invalid("lists of lists cannot be merged")
			case map[string]any:
				seen[1] = true
			default:
				seen[0] = true
			}
		}
	}
	if seen[0] && seen[1] {
		return false, s.invalid("a list of objects cannot be merged with a list of scalars")
	}
	return seen[1], nil
}

// itself returns the identity of a scalar, which is its value.
func itself(item any) (string, error) {
	text, err := json.AppendTree(nil, item)
	return string(text), err
}

// identities returns the function that identifies objects by the values of their keys. The default
// stands in for a missing key.
func (s *strategic) identities(how strategy, items *openapi.Schema) identify {
	return func(item any) (string, error) {
		object, ok := item.(map[string]any)
		if !ok {
			return itself(item)
		}
		if len(how.keys) == 0 {
			return "", s.invalid("the schema defines no merge key for the items of this list")
		}
		var text []byte
		for _, key := range how.keys {
			value := object[key]
			if value == nil && items != nil {
				if child, ok := items.Property(key); ok {
					value = child.DefaultValue
				}
			}
			if value == nil || !scalar(value) {
				return "", s.invalid("an item of a list has no value for its merge key " + key)
			}
			var err error
			if text, err = json.AppendTree(append(text, ','), value); err != nil {
				return "", err
			}
		}
		return string(text), nil
	}
}

// union appends the scalars of a patch that the list does not contain yet.
func (s *strategic) union(original, patch []any) ([]any, error) {
	out := make([]any, 0, len(original)+len(patch))
	seen := make(map[any]bool, len(original)+len(patch))
	for _, item := range slices.Concat(original, patch) {
		if !seen[item] {
			seen[item] = true
			out = append(out, item)
		}
	}
	return out, nil
}

// items merges a list of objects.
func (s *strategic) items(original, patch, order []any, items *openapi.Schema, id identify) ([]any, error) {
	sent, gone, replaces, err := s.special(patch, id)
	if err != nil {
		return nil, err
	}
	if replaces {
		return s.replaced(nil, sent, items)
	}
	merged := make([]any, 0, len(original)+len(sent))
	at := make(map[string]int, len(original)+len(sent))
	for _, item := range original {
		key, err := id(item)
		if err != nil {
			return nil, err
		}
		if gone[key] {
			continue
		}
		if _, twice := at[key]; !twice {
			at[key] = len(merged)
		}
		merged = append(merged, item)
	}
	if original != nil {
		original = slices.Clone(merged)
	}
	for _, item := range sent {
		key, err := id(item)
		if err != nil {
			return nil, err
		}
		i, found := at[key]
		// A list that the object does not have is taken from the patch unchanged, even with
		// duplicate keys.
		if !found || original == nil {
			i = len(merged)
			at[key] = i
			merged = append(merged, nil)
		}
		old, _ := merged[i].(map[string]any)
		if merged[i], _, err = s.object(old, item.(map[string]any), items); err != nil {
			return nil, err
		}
	}
	if original == nil && order == nil {
		return merged, nil
	}
	return s.inOrder(merged, sent, order, original, id)
}

// special separates the directives from the other items of a list. It returns the remaining items,
// the identities of the items to delete, and whether the remaining items replace the list.
func (s *strategic) special(patch []any, id identify) (sent []any, gone map[string]bool, replaces bool, err error) {
	sent, gone = make([]any, 0, len(patch)), map[string]bool{}
	for _, item := range patch {
		switch directive := item.(map[string]any)[directiveMarker]; directive {
		case nil, "merge":
			sent = append(sent, item)
		case "replace":
			replaces = true
		case "delete":
			key, err := id(item)
			if err != nil {
				return nil, nil, false, err
			}
			gone[key] = true
		default:
			return nil, nil, false, malformed("%s must be replace, merge or delete", directiveMarker)
		}
	}
	return sent, gone, replaces, nil
}

// inOrder sorts a merged list. Items of the patch are in the order given by order, or else by the
// patch. Other items keep their order. When both are interleaved, an item that exists only in the
// object comes first if it preceded the next item of the patch in the original.
func (s *strategic) inOrder(merged, sent, order, original []any, id identify) ([]any, error) {
	checked := order != nil
	if order == nil {
		order = sent
	}
	rank, err := ranks(order, id)
	if err != nil {
		return nil, err
	}
	if checked {
		if err := agree(sent, rank, id); err != nil {
			return nil, err
		}
	}
	stood, err := ranks(original, id)
	if err != nil {
		return nil, err
	}
	type placed struct {
		item        any
		rank, stood int // -1 if absent
	}
	var ours, others []placed
	for _, item := range merged {
		key, err := id(item)
		if err != nil {
			return nil, err
		}
		p := placed{item, -1, -1}
		if i, ok := stood[key]; ok {
			p.stood = i
		}
		if i, ok := rank[key]; ok {
			p.rank = i
			ours = append(ours, p)
		} else {
			others = append(others, p)
		}
	}
	slices.SortStableFunc(ours, func(a, b placed) int { return a.rank - b.rank })
	out := make([]any, 0, len(merged))
	for len(ours) > 0 && len(others) > 0 {
		if o := others[0]; o.stood >= 0 && ours[0].stood >= 0 && o.stood < ours[0].stood {
			out, others = append(out, o.item), others[1:]
		} else {
			out, ours = append(out, ours[0].item), ours[1:]
		}
	}
	for _, p := range slices.Concat(ours, others) {
		out = append(out, p.item)
	}
	return out, nil
}

// agree rejects an order that omits items of the patch or contradicts their order.
func agree(sent []any, rank map[string]int, id identify) error {
	last := -1
	for _, item := range sent {
		if object, ok := item.(map[string]any); ok && object[directiveMarker] != nil {
			continue
		}
		key, err := id(item)
		if err != nil {
			return err
		}
		at, ok := rank[key]
		if !ok || at < last {
			return malformed("the items of a list do not follow the order in %s", elementOrder[:len(elementOrder)-1])
		}
		last = at
	}
	return nil
}

// ranks maps the identity of each item to its first index.
func ranks(list []any, id identify) (map[string]int, error) {
	out := make(map[string]int, len(list))
	for i, item := range list {
		key, err := id(item)
		if err != nil {
			return nil, err
		}
		if _, twice := out[key]; !twice {
			out[key] = i
		}
	}
	return out, nil
}
