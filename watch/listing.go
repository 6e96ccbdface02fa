package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// listing is the complete kind at one revision, read from the store.
type listing struct {
	tree     *ordered.Map[*Entry]
	byKey    map[string]*Entry
	revision storage.Revision
}

// list reads the whole kind at a revision (0 means now) in pages.
func (c *Cache) list(ctx context.Context, at storage.Revision) (*listing, error) {
	first := storage.ListRequest{Prefix: c.prefix, At: at, Limit: storePage}
	page, err := c.dispatcher.store.List(ctx, first)
	if err != nil {
		return nil, err
	}
	l := &listing{tree: ordered.New[*Entry](), byKey: make(map[string]*Entry), revision: page.Revision}
	put := func(entry *Entry) bool {
		l.tree.Set(entry.key, entry)
		l.byKey[entry.key] = entry
		return true
	}
	if err := c.page(&page, put); err != nil || !page.More {
		return l, err
	}
	first.At, first.After = page.Revision, page.Records[len(page.Records)-1].Key
	return l, c.pages(ctx, first, put)
}

// pages yields the entries of a list request and of the following pages, until the end or until
// yield returns false.
func (c *Cache) pages(ctx context.Context, request storage.ListRequest, yield func(*Entry) bool) error {
	stopped := false
	for {
		page, err := c.dispatcher.store.List(ctx, request)
		if err != nil {
			return err
		}
		err = c.page(&page, func(entry *Entry) bool {
			stopped = !yield(entry)
			return !stopped
		})
		if err != nil || stopped || !page.More {
			return err
		}
		request.After = page.Records[len(page.Records)-1].Key
	}
}

func (c *Cache) page(page *storage.Page, yield func(*Entry) bool) error {
	entries := c.decodePage(page.Records)
	for i, record := range page.Records {
		var entry *Entry
		var failed *DecodeError
		if entries != nil {
			entry, failed = c.check(record, entries[i], nil)
		} else {
			entry, failed = c.decode(record)
		}
		if failed != nil {
			return failed
		}
		if !yield(entry) {
			return nil
		}
	}
	return nil
}

// decodePage converts the records of a page together. It returns nil if they are to be converted one
// by one.
func (c *Cache) decodePage(records []storage.Record) []*Entry {
	if c.config.DecodeAll == nil {
		return nil
	}
	entries, err := c.config.DecodeAll(records)
	if err != nil || len(entries) != len(records) {
		return nil
	}
	return entries
}

// decode converts a record to an entry.
func (c *Cache) decode(record storage.Record) (*Entry, *DecodeError) {
	entry, err := c.config.Decode(record)
	return c.check(record, entry, err)
}

// check checks the properties of an entry that the cache relies on.
func (c *Cache) check(record storage.Record, entry *Entry, err error) (*Entry, *DecodeError) {
	switch {
	case err != nil:
	case entry == nil:
		err = errors.New("no entry and no error")
	case entry.key != record.Key || entry.revision != record.Revision:
		err = fmt.Errorf("the entry is %q at revision %s", entry.key, entry.revision)
	case len(entry.values()) != len(c.config.Fields):
		err = fmt.Errorf("the entry has %d field values for %d declared fields", len(entry.values()), len(c.config.Fields))
	}
	if err != nil {
		return nil, &DecodeError{StorageName: c.config.StorageName, Key: record.Key, Revision: record.Revision, Err: err}
	}
	entry.fields = c.config.names
	return entry, nil
}

// decoded is one change of a commit with its entry, which is nil for a deletion.
type decoded struct {
	key      string
	entry    *Entry
	revision storage.Revision
	at       int64
}

// decodeChanges decodes a batch's changes to this kind.
func (c *Cache) decodeChanges(batch *storage.Batch) ([]decoded, *DecodeError) {
	changes := make([]decoded, 0, 1) // rule 1: a commit changes one object of a kind
	for i := range batch.Changes {
		ch := &batch.Changes[i]
		if storage.ResourcePrefixOf(ch.Key) != c.prefix {
			continue
		}
		d := decoded{key: ch.Key, revision: batch.Revision, at: batch.Time.UnixNano()}
		if !ch.Deleted {
			entry, failed := c.decode(storage.Record{Key: ch.Key, Value: ch.Value, Revision: batch.Revision})
			if failed != nil {
				return nil, failed
			}
			d.key, d.entry = entry.key, entry
		}
		changes = append(changes, d)
	}
	return changes, nil
}

// loading collects the changes to a kind while it is being listed. It keeps only the newest change
// of a key; earlier ones are in the store's history, not in the log. So the size of the kind bounds
// its size.
type loading struct {
	newest map[string]decoded
	least  storage.Revision // a listing below this misses changes that were lost
	failed *DecodeError     // the newest change that could not be decoded
}

// note stores a batch for later.
func (l *loading) note(c *Cache, batch *storage.Batch) {
	changes, failed := c.decodeChanges(batch)
	if failed != nil {
		l.failed = failed
		return
	}
	if l.newest == nil {
		l.newest = make(map[string]decoded)
	}
	for _, ch := range changes {
		l.newest[ch.key] = ch
	}
}

// complete applies the noted changes to the listing, which is then complete at the newest noted
// revision.
func (l *loading) complete(to *listing) error {
	from := to.revision
	if l.failed != nil && l.failed.Revision > from {
		return l.failed
	}
	for key, ch := range l.newest {
		if ch.revision <= from {
			continue
		}
		if ch.entry == nil {
			to.tree.Delete(key)
			delete(to.byKey, key)
		} else {
			to.tree.Set(key, ch.entry)
			to.byKey[key] = ch.entry
		}
		to.revision = max(to.revision, ch.revision)
	}
	return nil
}
