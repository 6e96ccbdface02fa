package gc

import (
	"iter"
	"strings"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/meta"
)

// index maps each owner's uid to the storage keys of the objects that name it. A copy is free: the
// two share what neither has changed since. The caller holds a lock.
type index struct {
	names *ordered.Map[struct{}] // by indexed
}

func newIndex() index { return index{ordered.New[struct{}]()} }

// between ends a uid. A NUL in a uid is written as escaped, so no uid can pass for another one with a
// part of a key.
const between, escaped = "\x00\x01", "\x00\xff"

func indexed(owner meta.UID, key string) string {
	return strings.ReplaceAll(string(owner), "\x00", escaped) + between + key
}

func (x index) add(owner meta.UID, key string) { x.names.Set(indexed(owner, key), struct{}{}) }

func (x index) remove(owner meta.UID, key string) { x.names.Delete(indexed(owner, key)) }

// dependents yields the keys, after a given key, of the objects that name an owner. The index must
// not change meanwhile.
func (x index) dependents(owner meta.UID, after string) iter.Seq[string] {
	prefix := indexed(owner, "")
	return func(yield func(string) bool) {
		for name := range x.names.After(prefix + after) {
			key, ok := strings.CutPrefix(name, prefix)
			if !ok || !yield(key) {
				return
			}
		}
	}
}

// first returns the first key that dependents yields.
func (x index) first(owner meta.UID, after string) (string, bool) {
	for key := range x.dependents(owner, after) {
		return key, true
	}
	return "", false
}

// below yields the owner and the key of all dependents whose keys have a prefix. It scans the whole
// index.
func (x index) below(prefix string) iter.Seq2[meta.UID, string] {
	return func(yield func(meta.UID, string) bool) {
		for name := range x.names.Ascend("") {
			owner, key, _ := strings.Cut(name, between)
			if strings.HasPrefix(key, prefix) && !yield(meta.UID(strings.ReplaceAll(owner, escaped, "\x00")), key) {
				return
			}
		}
	}
}
