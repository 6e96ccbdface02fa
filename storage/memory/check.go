package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// Check verifies the invariants of [DB] and returns an error for the first that does not hold. It
// blocks commits while it reads everything.
func (db *DB) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return storage.ErrClosed
	}
	if db.compacted > db.current {
		return fmt.Errorf("compacted revision %d is above the current one, %d", db.compacted, db.current)
	}
	versions, err := db.checkKeys()
	if err != nil {
		return err
	}
	if err := db.checkLog(versions); err != nil {
		return err
	}
	return db.watches.Check(db.missed)
}

// checkKeys returns the number of versions above compacted.
func (db *DB) checkKeys() (versions int, err error) {
	for key, h := range db.keys.Ascend("") {
		if len(h.versions) == 0 {
			return 0, fmt.Errorf("key %q has no versions", key)
		}
		for i, v := range h.versions {
			switch {
			case v.revision > db.current || i > 0 && v.revision <= h.versions[i-1].revision:
				return 0, fmt.Errorf("key %q has revision %d out of order", key, v.revision)
			case v.record != nil && (v.record.Key != key || v.record.Revision != v.revision):
				return 0, fmt.Errorf("key %q holds record %q of revision %d at revision %d", key, v.record.Key,
					v.record.Revision, v.revision)
			case v.record == nil && i > 0 && h.versions[i-1].record == nil:
				return 0, fmt.Errorf("key %q is deleted twice, the second time at revision %d", key, v.revision)
			case v.revision > db.compacted:
				versions++
			}
		}
	}
	return versions, nil
}

// checkLog requires that the keys' histories contain each retained commit's changes, and nothing
// else.
func (db *DB) checkLog(versions int) error {
	last := db.compacted
	for _, b := range db.log.batches[db.log.after(db.compacted):] {
		if b.Revision <= last || b.Revision > db.current || len(b.Changes) == 0 || b.Changes[0].Revision <= last {
			return fmt.Errorf("the log has revision %d with %d changes after revision %d", b.Revision, len(b.Changes), last)
		}
		last = b.Revision
		for _, c := range b.Changes {
			if c.Revision > b.Revision {
				return fmt.Errorf("key %q changed at revision %d, after its commit at %d", c.Key, c.Revision, b.Revision)
			}
			h, ok := db.keys.Get(c.Key)
			if !ok {
				return fmt.Errorf("key %q changed at revision %d and has no history", c.Key, b.Revision)
			}
			if r := h.at(c.Revision); (r == nil) != c.Deleted || r != nil && r.Revision != c.Revision {
				return fmt.Errorf("key %q: the log and its history differ at revision %d", c.Key, b.Revision)
			}
			versions--
		}
	}
	if versions != 0 {
		return fmt.Errorf("%d more changes in the keys' histories than in the log", versions)
	}
	return nil
}

// missed returns the first change below a prefix after a revision.
func (db *DB) missed(prefix string, after storage.Revision) (storage.Change, bool) {
	for _, b := range db.log.batches[db.log.after(after):] {
		for _, c := range b.Changes {
			if strings.HasPrefix(c.Key, prefix) {
				return c, true
			}
		}
	}
	return storage.Change{}, false
}
