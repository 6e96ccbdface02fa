package json

import "sync"

// fieldsV1 is the member of an entry of managedFields that says which fields its manager owns.
const fieldsV1 = "fieldsV1"

// Kept holds the trees of values of fieldsV1, by their text. They are a large part of most objects, few of them differ, and a
// write leaves nearly all of them as they are. The zero value is ready for use, also by many goroutines.
//
// Documents share the trees, so nobody may modify them. Repeated names in such a value are reported when it is first decoded
// alone, so only documents that are known to have none may be decoded with it.
type Kept struct {
	mu    sync.RWMutex
	trees map[string]any
	bytes int // of the texts
}

// The limits of a Kept: what one text, and all of them, may take.
const (
	maxKeptText  = 16 << 10
	maxKeptBytes = 128 << 10
)

// value reads the value at the position of d.
func (k *Kept) value(d *decoder) (any, *SyntaxError) {
	d.peek()
	start := d.pos
	if err := d.skip(d.maxDepth - len(d.path)); err != nil {
		return nil, err
	}
	text := d.data[start:d.pos]
	k.mu.RLock()
	tree, ok := k.trees[string(text)]
	k.mu.RUnlock()
	if ok {
		return tree, nil
	}
	d.pos = start
	shared := d.shared
	d.shared = false // the tree outlives the document
	tree, err := d.value()
	d.shared = shared
	if err == nil && len(text) <= maxKeptText {
		k.keep(string(text), tree)
	}
	return tree, err
}

// keep adds a tree. When there is no room, it begins anew.
func (k *Kept) keep(text string, tree any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.trees[text]; ok {
		return
	}
	if k.bytes += len(text); k.trees == nil || k.bytes > maxKeptBytes {
		k.trees, k.bytes = map[string]any{}, len(text)
	}
	k.trees[text] = tree
}
