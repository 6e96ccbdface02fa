package bbolt

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// History returns past changes below a prefix; see [storage.Backend]. It reads the file a limited
// number of records at a time, between which writers continue.
func (db *DB) History(ctx context.Context, h storage.HistoryRequest) (storage.HistoryPage, error) {
	h.Limit = min(h.Limit, historyRecords)
	page := storage.HistoryPage{Revision: h.After}
	for {
		if err := ctx.Err(); err != nil {
			return storage.HistoryPage{}, err
		}
		err := db.read(func() error { return db.readable(&h) }, func(r *reading) (err error) {
			page.Revision, page.Batches, err = r.history(h, nil)
			return err
		})
		if err != nil {
			return storage.HistoryPage{}, err
		}
		if len(page.Batches) > 0 || page.Revision >= h.Until {
			page.More = page.Revision < h.Until
			return page, nil
		}
		h.After = page.Revision
	}
}

// readable checks the revisions of a request and fills in the current one. The caller holds db.mu.
func (db *DB) readable(h *storage.HistoryRequest) error {
	if h.Until == 0 {
		h.Until = db.current
	}
	switch {
	case max(h.After, h.Until) > db.current:
		return storage.ErrFutureRevision
	case h.After < db.compacted:
		return storage.ErrCompacted
	}
	return nil
}

// history appends the commits that a request asks for, or the first of them, to dst, and returns how
// far it read. The transaction must have all of them. A commit is read as a whole, or not at all.
func (r *reading) history(h storage.HistoryRequest, dst []storage.Batch) (storage.Revision, []storage.Batch, error) {
	previous, err := newReading(r.tx) // r itself must not move
	if err != nil {
		return h.After, dst, err
	}
	defer func() { r.touched += previous.touched }()
	begin := len(dst)
	reached, records, bytes := h.After, 0, 0
	rec, ok, err := r.seek(position{rev: h.After + 1})
	for ; err == nil && ok; rec, ok, err = r.next() {
		last := rec.extent.last
		begun := len(dst) > begin && dst[len(dst)-1].Revision == last
		if rec.pos.rev > h.Until && !begun {
			break
		}
		if last != reached && (records >= h.Limit || bytes >= historyBytes) {
			return reached, inOrder(dst, begin), nil
		}
		reached = last
		records++
		if !strings.HasPrefix(string(rec.key), h.Prefix) { // does not allocate
			continue
		}
		var c storage.Change
		if c, err = previous.change(&rec, h.Prev); err != nil {
			break
		}
		bytes += len(c.Value)
		if !begun {
			dst = append(dst, storage.Batch{Revision: last, Time: time.Unix(0, rec.nanos)})
		}
		b := &dst[len(dst)-1]
		b.Changes = append(b.Changes, c)
	}
	if err != nil {
		return h.After, dst[:begin], err
	}
	if n := len(dst); n > begin {
		return max(h.Until, dst[n-1].Revision), inOrder(dst, begin), nil
	}
	return h.Until, dst, nil
}

// inOrder sorts the changes of batches. In files that began with format 2, they may have the order
// of the operations.
func inOrder(batches []storage.Batch, from int) []storage.Batch {
	byRevision := func(a, b storage.Change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Key, b.Key))
	}
	for _, b := range batches[from:] {
		if !slices.IsSortedFunc(b.Changes, byRevision) {
			slices.SortFunc(b.Changes, byRevision)
		}
	}
	return batches
}

// change is a record as a watch sees it, with the record that it replaced if prev is set.
func (r *reading) change(rec *record, prev bool) (storage.Change, error) {
	c := storage.Change{Key: string(rec.key), Value: clone(rec.value), Deleted: rec.deleted, Revision: rec.pos.rev}
	if !prev || rec.prev.rev == 0 {
		return c, nil
	}
	value, err := r.value(rec.prev, c.Key)
	c.Prev = &storage.Record{Key: c.Key, Value: value, Revision: rec.prev.rev}
	return c, err
}
