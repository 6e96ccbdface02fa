package watch

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// Unreadable is a stored object that cannot be read: its record is damaged, the key that it is
// encrypted with is missing, or this program does not know its form. The other objects of its kind are
// shown without it.
type Unreadable struct {
	Key      string
	Revision storage.Revision
	Err      error // a *DecodeError

	// last is the object as it was shown before, nil if it was not. Watchers and observers hold on to
	// it: they are told of the next state that can be read, or of the end.
	last *Entry
}

// unreadable are the objects of a kind that cannot be read, by storage key. A map that a snapshot may
// have is not changed but replaced. There are few.
type unreadable map[string]Unreadable

// with returns a copy that has one more.
func (u unreadable) with(one Unreadable) unreadable {
	out := maps.Clone(u)
	if out == nil {
		out = unreadable{}
	}
	out[one.Key] = one
	return out
}

// without returns a copy that lacks a key.
func (u unreadable) without(key string) unreadable {
	if _, ok := u[key]; !ok {
		return u
	}
	out := maps.Clone(u)
	delete(out, key)
	return out
}

// below returns those below a prefix, in the order of their keys.
func (u unreadable) below(prefix string) []Unreadable {
	var out []Unreadable
	for _, key := range slices.Sorted(maps.Keys(u)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, u[key])
		}
	}
	return out
}

// Unreadable returns what is known of an object that exists and cannot be read. ok is false for one that
// can be read, and for one that does not exist.
func (c *Cache) Unreadable(key string) (_ Unreadable, ok bool) {
	c = c.present()
	c.mu.RLock()
	defer c.mu.RUnlock()
	one, ok := c.unreadable[key]
	return one, ok
}

// Unreadable returns the objects below a prefix that exist at the revision of the snapshot and cannot be
// read, in the order of their keys. Of a snapshot that reads the store it returns those of now: any other
// one ends a walk with an error.
func (s *Snapshot) Unreadable(prefix string) []Unreadable { return s.unreadable.below(prefix) }

// Unreadable yields the objects of all kinds that cannot be read, in no particular order of kinds.
func (d *Dispatcher) Unreadable() iter.Seq[Unreadable] {
	d.mu.Lock()
	var all []Unreadable
	for _, c := range d.caches {
		c.mu.RLock()
		all = append(all, c.unreadable.below("")...)
		c.mu.RUnlock()
	}
	d.mu.Unlock()
	return slices.Values(all)
}

// spoil notes that an object cannot be read any more. The caller holds the cache's lock.
func (c *Cache) spoil(failed *DecodeError) {
	one := Unreadable{Key: failed.Key, Revision: failed.Revision, Err: failed, last: c.unreadable[failed.Key].last}
	if prev := c.set(failed.Key, nil); prev != nil {
		one.last = prev
	}
	c.unreadable = c.unreadable.with(one)
	c.complain(failed)
	c.tellUnreadable()
}

// Reassess replaces the reason why an object cannot be read, if it is still the record of that revision.
func (d *Dispatcher) Reassess(key string, rev storage.Revision, reason error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.caches {
		c.reassess(key, rev, reason)
	}
}

func (c *Cache) reassess(key string, rev storage.Revision, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.unreadable[key]
	if !ok || one.Revision != rev {
		return
	}
	one.Err = &DecodeError{StorageName: c.config.StorageName, Key: key, Revision: rev, Err: reason}
	c.unreadable = c.unreadable.with(one)
	c.tellUnreadable()
}

// tellUnreadable tells those who need every object which one they have not been told of. The caller
// holds the cache's lock.
func (c *Cache) tellUnreadable() {
	for _, o := range (*c.dispatcher.observed.Load())[c.prefix] {
		o.miss(c.unreadable)
	}
}

// miss takes note of objects that cannot be read.
func (o *Observation) miss(all unreadable) {
	if _, ok := o.observer.(everyObject); !ok {
		return
	}
	for _, one := range all {
		if one.last == nil {
			err := one.Err
			o.missing.Store(&err)
			return
		}
	}
	o.missing.Store(nil)
}

func (c *Cache) complain(failed *DecodeError) {
	c.config.Logger.Error(failed, "An object cannot be read. The others of its kind can.", "storageName", c.config.StorageName, "key", failed.Key)
}

// restore forgets that an object could not be read, and returns the entry that was shown before. The
// caller holds the cache's lock.
func (c *Cache) restore(key string) (last *Entry) {
	if one, ok := c.unreadable[key]; ok {
		last = one.last
		c.unreadable = c.unreadable.without(key)
		c.tellUnreadable()
	}
	return last
}

// lost makes a past state that cannot be read one that is not retained any more. Clients begin anew, and
// see what can be read.
func lost(failed *DecodeError) error { return errors.Join(storage.ErrCompacted, failed) }
