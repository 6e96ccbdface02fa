package watch

import (
	"context"
	"iter"
	"strings"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// Snapshot is all objects of one kind at one revision, exactly. It never changes, and holding one
// costs memory only for what has changed since. Most snapshots are in memory; one of an older
// revision that nobody pinned reads the store page by page (see [Cache.SnapshotAt]).
//
// A snapshot in memory may be used by any number of goroutines. One that reads the store belongs to
// a single goroutine, and to the context it was asked for with.
type Snapshot struct {
	cache    *Cache
	revision storage.Revision

	// In memory: the tree, and the value of Cache.copied when it was taken.
	tree   *ordered.Map[*Entry]
	copied uint64

	// From the store (tree is nil): the context that reads use, and the first error one ended with.
	// The context is the request's that asked for the snapshot, which is all a snapshot lives for.
	ctx context.Context
	err error
}

// Revision returns the revision of the snapshot, the resourceVersion of a list made from it.
func (s *Snapshot) Revision() storage.Revision { return s.revision }

// Ascend yields the objects whose storage keys begin with prefix and come after the key after, in
// the order of keys. An empty prefix means all of the kind, an empty after means from the start;
// after need not be a key that exists. Of a snapshot in memory nothing is allocated per object.
//
// A snapshot that reads the store can fail half way: the sequence then ends early and
// [Snapshot.Err] says why. Ask it after the loop.
func (s *Snapshot) Ascend(prefix, after string) iter.Seq[*Entry] {
	if s.tree == nil {
		return s.read(prefix, after)
	}
	return func(yield func(*Entry) bool) {
		walk := s.tree.After(after)
		if after < prefix {
			walk = s.tree.Ascend(prefix)
		}
		some := handful{prefix: prefix}
		for key, entry := range walk {
			if some.add(entry); some.n == len(some.entries) && !some.show(key, yield) {
				return
			}
		}
		if some.n > 0 {
			some.show(some.entries[some.n-1].key, yield)
		}
	}
}

// handful is a few entries of a walk in the order of their keys. When the last of them has the
// prefix, all have: most keys of a long list need not be looked at, and to look costs as much as to
// copy a small object, for they are all over the memory.
type handful struct {
	prefix  string
	entries [32]*Entry
	n       int
}

func (h *handful) add(e *Entry) {
	h.entries[h.n] = e
	h.n++
}

// show yields the entries with the prefix and forgets all. It reports whether the walk goes on.
// last is the key of the last entry.
func (h *handful) show(last string, yield func(*Entry) bool) bool {
	entries := h.entries[:h.n]
	h.n = 0
	all := strings.HasPrefix(last, h.prefix)
	for _, entry := range entries {
		if !all && !strings.HasPrefix(entry.key, h.prefix) || !yield(entry) {
			return false
		}
	}
	return all
}

// Err returns what ended a walk over the store early: storage.ErrCompacted when the revision was
// compacted meanwhile, a *DecodeError, or the context's or the store's error. It is nil for a
// snapshot in memory.
func (s *Snapshot) Err() error { return s.err }

// Len returns how many objects have a storage key beginning with prefix; see [Snapshot.Count].
func (s *Snapshot) Len(prefix string) int { return s.Count(prefix, "") }

// Count returns how many objects Ascend(prefix, after) would yield, without looking at them. It is
// -1 when that is not known because the snapshot reads the store.
func (s *Snapshot) Count(prefix, after string) int {
	if s.tree == nil {
		return -1
	}
	end := s.tree.Len()
	if next, ok := afterPrefix(prefix); ok {
		end = s.tree.Rank(next)
	}
	start := prefix
	if after >= prefix && after != "" {
		start = after + "\x00"
	}
	return max(0, end-s.tree.Rank(start))
}

// afterPrefix returns the smallest string that is greater than every string with the prefix; ok is
// false when there is none.
func afterPrefix(prefix string) (next string, ok bool) {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1}), true
		}
	}
	return "", false
}

// storePage is how many records a page asked of the store holds at most.
const storePage = 500

// read yields entries decoded from pages of the store at the snapshot's revision.
func (s *Snapshot) read(prefix, after string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		request := storage.ListRequest{Prefix: s.cache.prefix, After: after, At: s.revision, Limit: storePage}
		if strings.HasPrefix(prefix, s.cache.prefix) {
			request.Prefix = prefix
		} else if !strings.HasPrefix(s.cache.prefix, prefix) {
			return
		}
		if !strings.HasPrefix(after, request.Prefix) {
			if after > request.Prefix {
				return
			}
			request.After = ""
		}
		s.err = s.cache.pages(s.ctx, request, yield)
	}
}
