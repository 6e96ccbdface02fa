package watch

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// Difference is an object that a live view shows in another state than the store has it in.
type Difference struct {
	StorageName string
	Key         string
	Shown       storage.Revision // 0: the view does not have the object
	Stored      storage.Revision // 0: the store does not have it
}

// mostDifferences is how many differences of a kind are reported.
const mostDifferences = 10

// Verify compares the live view of each kind with the store, at one revision, by the keys and revisions
// of all objects: a revision stands for one state of its object. The store is read page by page, and
// nothing waits for it.
//
// A kind that differs has missed a change, or has applied one that is none, which is a bug here or in
// the store. It is listed again: its watchers end with storage.ErrCompacted and begin anew, observers
// are told of all objects. Verify returns up to ten differences of each such kind. It does nothing
// if the store has not changed since the last call that found none.
//
// An error means that a kind could not be compared: that of [Cache.Fresh], or the store's.
func (d *Dispatcher) Verify(ctx context.Context) ([]Difference, error) {
	revision, err := d.sync(ctx)
	if err != nil || uint64(revision) == d.verified.Load() {
		return nil, err
	}
	d.mu.Lock()
	kinds := slices.DeleteFunc(slices.Collect(maps.Values(d.caches)), func(c *Cache) bool { return c.loading != nil })
	d.mu.Unlock()
	var found []Difference
	for _, c := range kinds {
		differences, failed := c.verify(ctx, revision)
		if len(differences) > 0 {
			d.rebuild(c)
		}
		found = append(found, differences...)
		if !errors.Is(failed, ErrGone) {
			err = errors.Join(err, failed)
		}
	}
	if err == nil && len(found) == 0 {
		d.verified.Store(uint64(revision))
	}
	return found, err
}

// Verified returns the revision at which Verify has last found no difference, or 0.
func (d *Dispatcher) Verified() storage.Revision { return storage.Revision(d.verified.Load()) }

// verify compares the kind with the store once it has reached a revision.
func (c *Cache) verify(ctx context.Context, least storage.Revision) ([]Difference, error) {
	for {
		if err := c.WaitFor(ctx, least); err != nil {
			return nil, err
		}
		s := c.Snapshot()
		found, err := s.differences(ctx)
		if !errors.Is(err, storage.ErrCompacted) {
			c.compared(len(found) > 0, err)
			return found, err
		}
		if least, err = c.dispatcher.sync(ctx); err != nil { // compacted meanwhile: compare a newer state
			return nil, err
		}
	}
}

// compared counts a comparison.
func (c *Cache) compared(differs bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.comparisons++
	}
	if differs {
		c.divergences++
	}
}

// differences compares a snapshot in memory with the store at its revision.
func (s *Snapshot) differences(ctx context.Context) ([]Difference, error) {
	shown, stop := iter.Pull2(s.revisions())
	defer stop()
	var found []Difference
	note := func(key string, shown, stored storage.Revision) {
		if shown != stored && len(found) < mostDifferences {
			found = append(found, Difference{s.cache.config.StorageName, key, shown, stored})
		}
	}
	request := storage.ListRequest{Prefix: s.cache.prefix, At: s.revision, Limit: storePage}
	key, revision, ok := shown()
	for more := true; more; {
		page, err := s.cache.dispatcher.store.List(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			for ; ok && key < r.Key; key, revision, ok = shown() {
				note(key, revision, 0)
			}
			if !ok || key != r.Key {
				note(r.Key, 0, r.Revision)
				continue
			}
			note(key, revision, r.Revision)
			key, revision, ok = shown()
		}
		if more = page.More; more {
			request.After = page.Records[len(page.Records)-1].Key
		}
	}
	for ; ok; key, revision, ok = shown() {
		note(key, revision, 0)
	}
	return found, nil
}

// revisions yields the keys and revisions of all objects in the order of keys, with those that cannot be
// read.
func (s *Snapshot) revisions() iter.Seq2[string, storage.Revision] {
	return func(yield func(string, storage.Revision) bool) {
		unread := s.unreadable.below("")
		for entry := range s.Ascend("", "") {
			for len(unread) > 0 && unread[0].Key < entry.key {
				if !yield(unread[0].Key, unread[0].Revision) {
					return
				}
				unread = unread[1:]
			}
			if !yield(entry.key, entry.revision) {
				return
			}
		}
		for _, one := range unread {
			if !yield(one.Key, one.Revision) {
				return
			}
		}
	}
}

// rebuild makes Run list a kind again.
func (d *Dispatcher) rebuild(c *Cache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken[c] = struct{}{}
	if d.interrupt != nil {
		d.interrupt()
	}
}

// mend lists the kinds again that differ from the store. It runs instead of the watch, so nothing is
// applied meanwhile. The watch then repeats changes that a list has already: they are skipped.
func (d *Dispatcher) mend(ctx context.Context) error {
	for {
		c := d.nextBroken()
		if c == nil {
			return nil
		}
		l, err := c.list(ctx, 0)
		if err != nil {
			return err
		}
		c.reload(l)
		d.mu.Lock()
		delete(d.broken, c)
		d.mu.Unlock()
	}
}

func (d *Dispatcher) nextBroken() *Cache {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.broken {
		if d.caches[c.prefix] == c {
			return c
		}
		delete(d.broken, c)
	}
	return nil
}

// watching returns a context for the watch over the store, which rebuild ends.
func (d *Dispatcher) watching(ctx context.Context) (context.Context, context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	d.interrupt = cancel
	if len(d.broken) > 0 {
		cancel()
	}
	return ctx, cancel
}
