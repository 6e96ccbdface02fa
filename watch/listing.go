package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// listing is the complete kind at one revision, read from the store.
type listing struct {
	tree     *ordered.Set[*Entry]
	byKey    map[string]*Entry
	revision storage.Revision

	unreadable unreadable
	misfit     *DecodeError // the first object that this program does not know how to read
}

// set stores the newest state of a key: an entry, none, or one that cannot be read.
func (l *listing) set(ch decoded) {
	l.unreadable = l.unreadable.without(ch.key)
	if ch.failed != nil {
		if l.misfit == nil && !errors.Is(ch.failed, storage.ErrUnreadable) {
			l.misfit = ch.failed
		}
		l.unreadable = l.unreadable.with(Unreadable{Key: ch.key, Revision: ch.revision, Err: ch.failed})
	}
	if ch.entry == nil {
		l.tree.Remove(placeOf(ch.key))
		delete(l.byKey, ch.key)
		return
	}
	l.tree.Add(ch.entry)
	l.byKey[ch.key] = ch.entry
}

// list reads the whole kind at a revision (0 means now) in pages.
func (c *Cache) list(ctx context.Context, at storage.Revision) (*listing, error) {
	first := storage.ListRequest{Prefix: c.prefix, At: at, Limit: storePage}
	page, err := c.dispatcher.store.List(ctx, first)
	if err != nil {
		return nil, err
	}
	l := &listing{tree: newTree(), revision: page.Revision}
	put := func(entry *Entry, failed *DecodeError) bool {
		if failed == nil {
			l.tree.Load(entry) // pages are in the order of keys
		} else {
			l.set(decoded{key: failed.Key, revision: failed.Revision, failed: failed})
		}
		return true
	}
	if c.page(&page, put); page.More {
		first.At, first.After = page.Revision, page.Records[len(page.Records)-1].Key
		err = c.pagesAhead(ctx, first, put)
	}
	l.byKey = make(map[string]*Entry, l.tree.Len()) // one that grows takes twice as long
	for entry := range l.tree.Ascend(placeOf("")) {
		l.byKey[entry.key] = entry
	}
	return l, err
}

// pagesAhead is pages for a walk to the end: while put takes a page, the next one is decoded and the
// one after it is read.
func (c *Cache) pagesAhead(ctx context.Context, request storage.ListRequest, put func(*Entry, *DecodeError) bool) error {
	var working sync.WaitGroup
	defer working.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages, failed := make(chan chan []loaded, 1), error(nil)
	working.Go(func() {
		defer close(pages)
		for more := true; more; {
			page, err := c.dispatcher.store.List(ctx, request)
			if err != nil {
				failed = err
				return
			}
			if more = page.More; more {
				request.After = page.Records[len(page.Records)-1].Key
			}
			made := make(chan []loaded, 1)
			select {
			case pages <- made: // with room for one, two pages are decoded at once
				working.Go(func() { made <- c.load(page.Records) })
			case <-ctx.Done():
				failed = ctx.Err()
				return
			}
		}
	})
	for made := range pages {
		for _, one := range <-made {
			put(one.entry, one.failed)
		}
	}
	return failed
}

// loaded is an entry, or why there is none.
type loaded struct {
	entry  *Entry
	failed *DecodeError
}

// load decodes all records of a page.
func (c *Cache) load(records []storage.Record) []loaded {
	all := make([]loaded, 0, len(records))
	c.page(&storage.Page{Records: records}, func(entry *Entry, failed *DecodeError) bool {
		all = append(all, loaded{entry, failed})
		return true
	})
	return all
}

// pages yields the entries of a list request and of the following pages, until the end or until
// yield returns false. Where a record cannot be read, yield gets the reason.
func (c *Cache) pages(ctx context.Context, request storage.ListRequest, yield func(*Entry, *DecodeError) bool) error {
	for {
		page, err := c.dispatcher.store.List(ctx, request)
		if err != nil {
			return err
		}
		if !c.page(&page, yield) || !page.More {
			return nil
		}
		request.After = page.Records[len(page.Records)-1].Key
	}
}

// page yields the entries of one page. It reports whether yield wants more.
func (c *Cache) page(page *storage.Page, yield func(*Entry, *DecodeError) bool) bool {
	entries := c.decodePage(page.Records)
	for i, record := range page.Records {
		var entry *Entry
		var failed *DecodeError
		if entries != nil {
			entry, failed = c.check(record, entries[i], nil)
		} else {
			entry, failed = c.decode(record)
		}
		if !yield(entry, failed) {
			return false
		}
	}
	return true
}

// decodePage converts the records of a page together. It returns nil if they are to be converted one
// by one.
func (c *Cache) decodePage(records []storage.Record) []*Entry {
	if c.config.DecodeAll == nil || slices.ContainsFunc(records, func(r storage.Record) bool { return r.Err != nil }) {
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
	if record.Err != nil {
		return c.check(record, nil, record.Err)
	}
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
	case entry.fields() != len(c.config.Fields):
		err = fmt.Errorf("the entry has %d field values for %d declared fields", entry.fields(), len(c.config.Fields))
	}
	if err != nil {
		return nil, &DecodeError{StorageName: c.config.StorageName, Key: record.Key, Revision: record.Revision, Err: err}
	}
	if len(c.config.Fields) > 0 {
		entry.names = c.config.names
	}
	return entry, nil
}

// decoded is one change of a commit with its entry, which is nil for a deletion.
type decoded struct {
	key      string
	entry    *Entry
	failed   *DecodeError // why there is no entry
	revision storage.Revision
	at       int64
}

// decodeChanges decodes a batch's changes to this kind.
func (c *Cache) decodeChanges(batch *storage.Batch) []decoded {
	at := batch.Time
	if at.IsZero() { // the store does not know it: the changes age from now on
		at = time.Now()
	}
	changes := make([]decoded, 0, 1) // most commits change one object of a kind
	for i := range batch.Changes {
		ch := &batch.Changes[i]
		if storage.ResourcePrefixOf(ch.Key) != c.prefix {
			continue
		}
		d := decoded{key: ch.Key, revision: ch.Revision, at: at.UnixNano()}
		if !ch.Deleted {
			if d.entry, d.failed = c.decode(storage.Record{Key: ch.Key, Value: ch.Value, Revision: ch.Revision, Err: ch.Err}); d.failed == nil {
				d.key = d.entry.key
			}
		}
		changes = append(changes, d)
	}
	return changes
}

// loading collects the changes to a kind while it is being listed. It keeps only the newest change
// of a key; earlier ones are in the store's history, not in the log. So the size of the kind bounds
// its size.
type loading struct {
	newest map[string]decoded
	least  storage.Revision // a listing below this misses changes that were lost
}

// note stores a batch for later.
func (l *loading) note(c *Cache, batch *storage.Batch) {
	if l.newest == nil {
		l.newest = make(map[string]decoded)
	}
	for _, ch := range c.decodeChanges(batch) {
		l.newest[ch.key] = ch
	}
}

// complete applies the noted changes to the listing, which is then complete at the newest noted
// revision.
func (l *loading) complete(to *listing) {
	from := to.revision
	for _, ch := range l.newest {
		if ch.revision > from {
			to.set(ch)
			to.revision = max(to.revision, ch.revision)
		}
	}
}
