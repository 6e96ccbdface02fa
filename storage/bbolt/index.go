package bbolt

import (
	"iter"
	"sort"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// version is one record of a key, without its bytes.
type version struct {
	position
	deleted bool
}

// entry is all retained versions of one key; at least one.
type entry struct {
	key    string
	newest version
	more   *[]version // the older ones, oldest first; nil if there are none, as mostly
}

// older returns the versions before the newest one, oldest first.
func (e *entry) older() []version {
	if e.more == nil {
		return nil
	}
	return *e.more
}

// keep replaces the older versions.
func (e *entry) keep(older []version) {
	switch {
	case len(older) == 0:
		e.more = nil
	case e.more == nil:
		e.more = &older
	default:
		*e.more = older
	}
}

// at returns the version that a read at a revision sees. It is false if the key did not exist then.
func (e *entry) at(rev storage.Revision) (version, bool) {
	if e.newest.rev <= rev {
		return e.newest, !e.newest.deleted // most reads are of the current revision
	}
	older := e.older()
	i := sort.Search(len(older), func(i int) bool { return older[i].rev > rev })
	if i == 0 {
		return version{}, false
	}
	return older[i-1], !older[i-1].deleted
}

// superseded is a version that reads at or above a revision do not see: it was replaced there, or
// it is itself the deletion at that revision.
type superseded struct {
	by    storage.Revision
	entry *entry
	position
}

// index knows every record of the log by key, and which of them compaction may remove. It belongs
// to the writer; others read it with DB.mu held.
type index struct {
	keys     *ordered.Set[*entry] // in the order of their keys
	versions int                  // of all entries

	// garbage is every version that will be removed once its revision `by` is compacted. It is
	// ordered by `by`, and starts at first. A key's versions are in it oldest first. So compaction
	// takes them from the front and never searches.
	garbage []superseded
	first   int

	// wide is the commits of several revisions above the compacted one, in order.
	wide []extent
}

func newIndex() index {
	return index{keys: ordered.NewSet(func(a, b *entry) bool { return a.key < b.key })}
}

// get returns the entry of a key.
func (x *index) get(key string) (*entry, bool) { return x.keys.Get(&entry{key: key}) }

// ascend yields the entries from a key on, in the order of their keys.
func (x *index) ascend(from string) iter.Seq[*entry] { return x.keys.Ascend(&entry{key: from}) }

// newest returns the newest version of a key. It is false if the key has no record now.
func (x *index) newest(key string) (version, bool) {
	e, ok := x.get(key)
	if !ok || e.newest.deleted {
		return version{}, false
	}
	return e.newest, true
}

// push makes v the newest version of a key.
func (x *index) push(key string, v version) {
	e, ok := x.get(key)
	if !ok {
		x.insert(&entry{key: key, newest: v})
		return
	}
	x.replace(e, v)
}

func (x *index) insert(e *entry) {
	x.keys.Add(e)
	x.count(e)
}

// count is insert for an entry that something else adds to the keys.
func (x *index) count(e *entry) {
	x.versions++
	x.noteDeletion(e)
}

func (x *index) replace(e *entry, v version) {
	if !e.newest.deleted { // a deletion is in it already
		x.garbage = append(x.garbage, superseded{v.rev, e, e.newest.position})
	}
	e.keep(append(e.older(), e.newest))
	e.newest = v
	x.versions++
	x.noteDeletion(e)
}

func (x *index) noteDeletion(e *entry) {
	if e.newest.deleted {
		x.garbage = append(x.garbage, superseded{e.newest.rev, e, e.newest.position})
	}
}

// due reports whether there is anything to take at this compacted revision.
func (x *index) due(compacted storage.Revision) bool {
	return x.first < len(x.garbage) && x.garbage[x.first].by <= compacted
}

// take removes up to limit versions that no read can see any more, and appends their positions to
// dst.
func (x *index) take(compacted storage.Revision, limit int, dst []position) []position {
	for ; limit > 0 && x.due(compacted); limit-- {
		g := &x.garbage[x.first]
		dst = append(dst, g.position)
		x.dropOldest(g.entry)
		*g = superseded{}
		x.first++
	}
	if x.first > len(x.garbage)/2 {
		n := copy(x.garbage, x.garbage[x.first:])
		clear(x.garbage[n:])
		x.garbage, x.first = x.garbage[:n], 0
	}
	return dst
}

func (x *index) dropOldest(e *entry) {
	x.versions--
	if older := e.older(); len(older) > 0 {
		e.keep(older[1:])
	} else {
		x.keys.Remove(e)
	}
}

// noteExtent records the revisions of the newest commit.
func (x *index) noteExtent(e extent) {
	if e.wide() {
		x.wide = append(x.wide, e)
	}
}

// around returns the nearest revisions at or below rev, and at or above it, that are not inside of a
// commit. A commit is visible as a whole from its last revision on.
func (x *index) around(rev storage.Revision) (before, end storage.Revision) {
	i := sort.Search(len(x.wide), func(i int) bool { return x.wide[i].last > rev })
	if i == len(x.wide) || x.wide[i].first > rev {
		return rev, rev
	}
	return x.wide[i].first - 1, x.wide[i].last
}

// forget drops the extents of compacted commits.
func (x *index) forget(compacted storage.Revision) {
	n := sort.Search(len(x.wide), func(i int) bool { return x.wide[i].last > compacted })
	if x.wide = x.wide[n:]; len(x.wide) == 0 {
		x.wide = nil
	}
}

// drop removes a key with its only version.
func (x *index) drop(key string) {
	x.keys.Remove(&entry{key: key})
	x.versions--
}
