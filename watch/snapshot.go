package watch

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// Snapshot is the exact set of objects of one kind at one revision. It never changes, and holding
// one costs memory only for changes since. Most snapshots are in memory. A snapshot of an older
// revision that was not pinned reads the store page by page (see [Cache.SnapshotAt]).
//
// A snapshot in memory is safe for concurrent use. One that reads the store belongs to one
// goroutine and to the context passed to SnapshotAt.
type Snapshot struct {
	cache    *Cache
	revision storage.Revision

	// In memory: the tree, and the value of Cache.copied at the time of the snapshot.
	tree   *ordered.Set[*Entry]
	copied uint64

	indexes []index // of the tree
	clock   *atomic.Uint64

	unreadable unreadable // of the kind at the revision, or now

	// From the store (tree is nil): the context for reads, and the first error of a walk. The
	// context belongs to the request that the snapshot serves.
	ctx context.Context
	err error
}

// Revision returns the revision of the snapshot, which is the resourceVersion of a list made from
// it.
func (s *Snapshot) Revision() storage.Revision { return s.revision }

// Ascend yields the objects whose storage keys begin with prefix and are greater than after, in key
// order. An empty prefix means the whole kind, an empty after the start; after need not be an
// existing key. In memory it does not allocate per object.
//
// A snapshot that reads the store can fail midway. The sequence then ends early; check
// [Snapshot.Err] after the loop.
func (s *Snapshot) Ascend(prefix, after string) iter.Seq[*Entry] {
	if s.tree == nil {
		return s.read(prefix, after)
	}
	return func(yield func(*Entry) bool) {
		from := after + "\x00" // the first key after it
		if after < prefix {
			from = prefix
		}
		some := handful{prefix: prefix}
		for entry := range s.tree.Ascend(placeOf(from)) {
			if some.add(entry); some.n == len(some.entries) && !some.show(entry.key, yield) {
				return
			}
		}
		if some.n > 0 {
			some.show(some.entries[some.n-1].key, yield)
		}
	}
}

// handful buffers a few entries of a walk in key order. If the last of them has the prefix, all
// have it, so most keys of a long list need not be checked. Checking a key costs as much as copying
// a small object, because keys are scattered over memory.
type handful struct {
	prefix  string
	entries [32]*Entry
	n       int
}

func (h *handful) add(e *Entry) {
	h.entries[h.n] = e
	h.n++
}

// show yields the entries with the prefix and empties the buffer. It reports whether the walk goes
// on. last is the key of the last entry.
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

// Err returns the error that ended a walk over the store: storage.ErrCompacted if the revision has
// been compacted or an object of it cannot be read, or the context's or the store's error. It is nil for
// a snapshot in memory.
func (s *Snapshot) Err() error { return s.err }

// Len returns the number of objects whose storage keys begin with prefix; see [Snapshot.Count].
func (s *Snapshot) Len(prefix string) int { return s.Count(prefix, "") }

// Stored reports whether the snapshot reads the store, so that each walk decodes what it yields.
func (s *Snapshot) Stored() bool { return s.tree == nil }

// Count returns how many objects Ascend(prefix, after) would yield, without visiting them. It is -1
// if the number is unknown: the snapshot reads the store, and the log does not reach back to its
// revision.
func (s *Snapshot) Count(prefix, after string) int {
	if s.tree == nil {
		return s.cache.countAt(s.revision, prefix, after)
	}
	return count(s.tree, prefix, after)
}

// count is how many keys of a tree begin with prefix and come after the key after.
func count(tree *ordered.Set[*Entry], prefix, after string) int {
	end := tree.Len()
	if next, ok := afterPrefix(prefix); ok {
		end = tree.Rank(placeOf(next))
	}
	start := prefix
	if after >= prefix && after != "" {
		start = after + "\x00"
	}
	return max(0, end-tree.Rank(placeOf(start)))
}

// countAt counts what there was at a revision: what there is now, less what the log says was created
// since, plus what was deleted. It returns -1 if the log does not reach back to the revision.
func (c *Cache) countAt(revision storage.Revision, prefix, after string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.err != nil || revision < c.log.floor {
		return -1
	}
	n := count(c.tree, prefix, after)
	for _, ch := range c.log.after(revision) {
		switch {
		case ch.prev == nil && among(ch.next.key, prefix, after):
			n--
		case ch.next == nil && among(ch.prev.key, prefix, after):
			n++
		}
	}
	return n
}

func among(key, prefix, after string) bool { return key > after && strings.HasPrefix(key, prefix) }

// afterPrefix returns the smallest string greater than every string with the prefix; ok is false if
// there is none.
func afterPrefix(prefix string) (next string, ok bool) {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1}), true
		}
	}
	return "", false
}

// storePage is the largest number of records to request from the store per page.
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
		var failed error
		s.err = s.cache.pages(s.ctx, request, func(entry *Entry, unread *DecodeError) bool {
			if unread == nil {
				return yield(entry)
			}
			if known, ok := s.unreadable[unread.Key]; ok && known.Revision == unread.Revision {
				return true // whoever walks has been told
			}
			failed = lost(unread)
			return false
		})
		s.err = cmp.Or(s.err, failed)
	}
}
