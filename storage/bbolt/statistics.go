package bbolt

import "github.com/kindwright/kindwright/storage"

// Statistics describes the contents of a store and its work since it was opened.
type Statistics struct {
	Revision  storage.Revision // the current revision
	Compacted storage.Revision // the oldest revision that can be read
	Keys      int              // including deleted ones with retained history
	Records   int              // of all retained keys and revisions
	FileBytes int64
	Commits   uint64 // commits that changed something
	Syncs     uint64 // transactions; Commits/Syncs is how many commits share a sync
}

// Statistics returns the current numbers. It is cheap and may be called at any time, even after
// Close.
func (db *DB) Statistics() Statistics {
	s := Statistics{Commits: db.commits.Load(), Syncs: db.syncs.Load()}
	s.FileBytes, _ = db.Size()
	db.mu.RLock()
	defer db.mu.RUnlock()
	s.Revision, s.Compacted = db.current, db.compacted
	s.Keys, s.Records = db.index.keys.Len(), db.index.versions
	return s
}

// Size returns the size of the file.
func (db *DB) Size() (bytes int64, ok bool) {
	info, err := db.file.Stat()
	if err != nil {
		return 0, false
	}
	return info.Size(), true
}
