package memory

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// listStep is how many keys are visited before others get the lock. A page must not block all
// commits while it walks over a hundred thousand deleted keys.
const listStep = 4096

// List returns one page. It visits the keys of the page, and the keys between them that do not
// exist at the listed revision.
func (db *DB) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	for {
		page, err := db.list(ctx, r)
		if r.At == 0 && errors.Is(err, storage.ErrCompacted) {
			continue // the revision was compacted between two steps; list at a newer one
		}
		return page, err
	}
}

func (db *DB) list(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	l := listing{request: r, after: r.After}
	for {
		if err := ctx.Err(); err != nil {
			return storage.Page{}, err
		}
		db.mu.RLock()
		err := db.readable(&l.request)
		complete := err != nil || l.step(db.keys)
		db.mu.RUnlock()
		if err != nil {
			return storage.Page{}, err
		}
		if complete {
			return storage.Page{Records: l.records, Revision: l.request.At, More: l.more}, nil
		}
	}
}

// readable returns the revision of a list, or the error why it cannot be read.
func (db *DB) readable(r *storage.ListRequest) error {
	switch {
	case db.closed:
		return storage.ErrClosed
	case r.At == 0 || r.At == db.current:
		r.At = db.current
		return nil
	case r.At < db.compacted:
		return storage.ErrCompacted
	case r.At > db.current:
		return storage.ErrFutureRevision
	}
	_, r.At = db.log.around(r.At)
	return nil
}

// listing is a page being made.
type listing struct {
	request storage.ListRequest
	after   string // the last key visited, or where to start
	records []storage.Record
	more    bool
}

// step visits up to listStep keys and reports whether the page is complete.
func (l *listing) step(keys index) (complete bool) {
	visited := 0
	for key, h := range l.rest(keys) {
		if !strings.HasPrefix(key, l.request.Prefix) {
			return true
		}
		if r := h.at(l.request.At); r != nil {
			if len(l.records) == l.request.Limit {
				l.more = true
				return true
			}
			l.records = append(l.records, *r)
		}
		l.after = key
		if visited++; visited == listStep {
			return false
		}
	}
	return true
}

func (l *listing) rest(keys index) iter.Seq2[string, *history] {
	if l.after < l.request.Prefix || l.after == "" {
		return keys.Ascend(l.request.Prefix)
	}
	return keys.After(l.after)
}

// index is the part of the ordered map that a listing reads.
type index interface {
	Ascend(from string) iter.Seq2[string, *history]
	After(key string) iter.Seq2[string, *history]
}
