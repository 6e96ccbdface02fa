package bbolt

import (
	"context"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

const (
	// pageRecords limits a page. Finding its records holds the lock for about a millisecond.
	pageRecords = 10_000
	// pageBytes is the number of bytes of values after which a page ends early.
	pageBytes = 16 << 20
)

// List returns a page of the records at a revision: at most 10,000, and fewer if their values
// exceed 16 MiB.
func (db *DB) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	if err := ctx.Err(); err != nil {
		return storage.Page{}, err
	}
	var found []place
	var page storage.Page
	err := db.read(func() (err error) {
		if page.Revision, err = db.listable(r.At); err != nil {
			return err
		}
		found, page.More = db.index.find(r, page.Revision, min(r.Limit, pageRecords))
		return nil
	}, func(tx *reading) (err error) {
		page.Records, err = tx.records(found, pageBytes)
		return err
	})
	if err != nil {
		return storage.Page{}, err
	}
	page.More = page.More || len(page.Records) < len(found)
	return page, nil
}

// listable returns the revision to list, which is not inside of a commit; at 0 it is the current
// one. The caller holds db.mu.
func (db *DB) listable(at storage.Revision) (storage.Revision, error) {
	switch {
	case at == 0:
		return db.current, nil
	case at > db.current:
		return 0, storage.ErrFutureRevision
	case at < db.compacted:
		return 0, storage.ErrCompacted
	}
	_, at = db.index.around(at)
	return at, nil
}

// place is the position of a key's record.
type place struct {
	key string
	at  position
}

// find returns the places of the first records of a list at a revision, and whether there are more.
func (x *index) find(r storage.ListRequest, rev storage.Revision, limit int) (found []place, more bool) {
	begin := r.Prefix
	if r.After != "" {
		begin = r.After + "\x00" // the first key after it
	}
	for e := range x.ascend(begin) {
		if !strings.HasPrefix(e.key, r.Prefix) {
			return found, false
		}
		v, ok := e.at(rev)
		if !ok {
			continue
		}
		if len(found) == limit {
			return found, true
		}
		found = append(found, place{e.key, v.position})
	}
	return found, false
}

// records reads the records at places, as many as fit into a number of bytes, but at least one.
func (r *reading) records(found []place, bytes int) ([]storage.Record, error) {
	records := make([]storage.Record, 0, len(found))
	for _, p := range found {
		value, err := r.value(p.at, p.key)
		if err != nil {
			return nil, err
		}
		if bytes -= len(value); bytes < 0 && len(records) > 0 {
			break
		}
		records = append(records, storage.Record{Key: p.key, Value: value, Revision: p.at.rev})
	}
	return records, nil
}
