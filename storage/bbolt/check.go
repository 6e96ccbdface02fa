package bbolt

import (
	"context"

	"github.com/kindwright/kindwright/storage"
)

// Check reads the whole file as Open does, every page and every record, and
// requires that they add up and that the index knows each record. Commits and
// reads go on meanwhile; the pages they free are not used again before it ends, so
// the file may grow. Damage makes the store refuse commits (see [DB.Healthy]).
func (db *DB) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var current storage.Revision
	return db.read(func() error {
		current = db.current
		return nil
	}, func(r *reading) error {
		im, err := db.imageOf(r)
		if err != nil {
			return err
		}
		var says, counted state
		err = im.walkStore(func(s state) error {
			says = s
			return ctx.Err()
		}, func(rec record) error {
			counted.add(rec.pos, rec.checksum)
			if counted.records%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if rec.pos.rev <= current && !db.knows(rec) {
				return damaged("record %v is in the log and not in the index", rec.pos)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return says.matches(counted)
	})
}

// imageOf is the file as the transaction sees it. The meta pages are not read:
// they go on changing.
func (db *DB) imageOf(r *reading) (*image, error) {
	info, err := db.file.Stat()
	if err != nil {
		return nil, err
	}
	pageSize := int64(db.bolt.Info().PageSize)
	im := &image{file: db.file, size: info.Size(), pageSize: pageSize}
	im.begin(pageID(r.tx.Cursor().Bucket().Root()), pageID(r.tx.Size()/pageSize))
	return im, nil
}

// knows reports whether the index has a published record, or once had it and let
// go of it for compaction.
func (db *DB) knows(rec record) bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	e, ok := db.index.keys.Get(string(rec.key))
	return ok && e.has(rec.pos) || rec.pos.rev <= db.compacted
}
