package storagetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// model is the simplest form of the contract. It keeps every version of every key forever and
// answers every question by looking at all of them.
type model struct {
	first     storage.Revision
	current   storage.Revision
	compacted storage.Revision
	versions  map[string][]storage.Change
	commits   []modelCommit
}

type modelCommit struct {
	revision storage.Revision // the last one
	changes  []storage.Change
}

func newModel(first storage.Revision) *model {
	return &model{first: first, current: first, compacted: first, versions: map[string][]storage.Change{}}
}

// at returns the record of a key at a revision, or nil if there is none.
func (m *model) at(key string, rev storage.Revision) *storage.Record {
	var found *storage.Record
	for _, c := range m.versions[key] {
		if c.Revision > rev {
			break
		}
		if found = nil; !c.Deleted {
			found = &storage.Record{Key: c.Key, Value: c.Value, Revision: c.Revision}
		}
	}
	return found
}

func (m *model) revisionOf(key string) storage.Revision {
	if r := m.at(key, m.current); r != nil {
		return r.Revision
	}
	return 0
}

// conflict returns the error with which a commit must be rejected, or nil if it must succeed.
func (m *model) conflict(ops []storage.Op) *storage.ConflictError {
	for _, op := range ops {
		if actual := m.revisionOf(op.Key); !op.Expect.Holds(actual) {
			return &storage.ConflictError{Key: op.Key, Expected: op.Expect, Actual: actual}
		}
	}
	return nil
}

// changes returns the changes of a commit that was acknowledged with a revision, in their order.
func (m *model) changes(ops []storage.Op, last storage.Revision) []storage.Change {
	var changes []storage.Change
	for i, op := range ops {
		c := storage.Change{Key: op.Key, Revision: storage.RevisionOf(ops, i, last), Prev: m.at(op.Key, m.current)}
		switch {
		case op.Type == storage.OpPut:
			c.Value = op.Value
		case op.Type == storage.OpDelete && c.Prev != nil:
			c.Deleted = true
		default:
			continue
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b storage.Change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Key, b.Key))
	})
	return changes
}

// commit applies changes at the revisions that the backend assigned.
func (m *model) commit(last storage.Revision, changes []storage.Change) {
	for _, c := range changes {
		m.versions[c.Key] = append(m.versions[c.Key], c)
	}
	m.commits = append(m.commits, modelCommit{last, changes})
	m.current = last
}

// around returns the nearest revisions at or below rev, and at or above it, that are not inside of a
// commit.
func (m *model) around(rev storage.Revision) (before, end storage.Revision) {
	for _, c := range m.commits {
		if c.changes[0].Revision <= rev && rev < c.revision {
			return c.changes[0].Revision - 1, c.revision
		}
	}
	return rev, rev
}

// list returns everything below a prefix and after a key at a revision.
func (m *model) list(prefix, after string, at storage.Revision) []storage.Record {
	var records []storage.Record
	for key := range m.versions {
		if strings.HasPrefix(key, prefix) && key > after {
			if r := m.at(key, at); r != nil {
				records = append(records, *r)
			}
		}
	}
	slices.SortFunc(records, func(a, b storage.Record) int { return strings.Compare(a.Key, b.Key) })
	return records
}

// watch returns the commits after a revision that changed keys below a prefix, with those changes.
func (m *model) watch(prefix string, after storage.Revision) []modelCommit {
	var commits []modelCommit
	first, _ := slices.BinarySearchFunc(m.commits, after+1, func(c modelCommit, rev storage.Revision) int {
		return cmp.Compare(c.revision, rev)
	})
	for _, c := range m.commits[first:] {
		var changes []storage.Change
		for _, change := range c.changes {
			if strings.HasPrefix(change.Key, prefix) && change.Revision > after {
				changes = append(changes, change)
			}
		}
		if len(changes) > 0 {
			commits = append(commits, modelCommit{c.revision, changes})
		}
	}
	return commits
}
