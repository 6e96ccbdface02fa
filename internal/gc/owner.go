package gc

import (
	"context"
	"sync"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/meta"
)

// await keeps an owner in foreground deletion until no dependent blocks it (GC-02). The first call
// queues all dependents, which deletes them.
func (s *session) await(ctx context.Context, o *object) error {
	if err := s.engine.Complete(ctx, o.served, o.entry.Revision()); err != nil {
		return err
	}
	if s.beginWait(o) {
		s.spread(o.uid())
	}
	defer func() {
		if now, ok := o.served.Cache.Get(o.entry.Key()); !ok || now.UID() != o.uid() {
			s.endWait(o.uid()) // it was deleted before the wait was recorded
		}
	}()
	blocked, err := s.blocked(ctx, o)
	if err != nil {
		return err
	}
	if blocked {
		return s.breakCircle(ctx, o)
	}
	if err := s.unseen(ctx, o.uid()); err != nil {
		return err
	}
	return s.release(ctx, o, meta.FinalizerDeleteDependents)
}

// beginWait records that an owner waits. It reports whether that was unknown before.
func (c *Collector) beginWait(o *object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits := c.waiting[o.uid()]; waits {
		return false
	}
	c.waiting[meta.UID(append([]byte(nil), o.uid()...))] = wait{key: o.entry.Key()}
	return true
}

// endWait records that an owner does not wait, or no longer waits.
func (c *Collector) endWait(owner meta.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, owner)
}

// blocked looks for a dependent that blocks the owner. It starts from the last one found and then
// checks all of them. So each dependent is read about twice, however many there are and in whatever
// order they are deleted.
func (s *session) blocked(ctx context.Context, o *object) (bool, error) {
	after, again := s.lastBlocker(o.uid())
	for round := 0; ; {
		key, ok := s.suspect(o, after, again)
		switch {
		case ok:
			blocks, err := s.blocks(ctx, key, o)
			if blocks || err != nil {
				return blocks, err
			}
			after, again = key, false
		case round == 0 && after != "":
			round, after, again = 1, "", false
		default:
			return false, nil
		}
	}
}

// lastBlocker returns the dependent to check first.
func (c *Collector) lastBlocker(owner meta.UID) (key string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[owner]
	return w.blocker, w.blocker != ""
}

// suspect records the next dependent as the one that blocks the owner, before it is read: from then
// on any change of it requeues the owner. If itself is set, the dependent of the given key comes
// first.
func (c *Collector) suspect(o *object, key string, itself bool) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, waits := c.waiting[o.uid()]
	if !waits {
		return "", false // the owner is gone
	}
	if itself {
		if _, there := c.index.names.Get(indexed(o.uid(), key)); there {
			return key, true
		}
	}
	next, ok := c.index.first(o.uid(), key)
	if ok {
		w.blocker = next
		c.waiting[o.uid()] = w
	}
	return next, ok
}

// blocks reports whether a dependent blocks the deletion of its owner. The dependent must have a
// blocking reference that means this owner. A dependent that cannot be read is an error, since it
// may have one.
func (s *session) blocks(ctx context.Context, key string, owner *object) (bool, error) {
	if key == owner.entry.Key() {
		return false, nil // otherwise it would wait for itself
	}
	d, err := s.read(ctx, key)
	if err != nil || d == nil {
		return false, err
	}
	for _, ref := range d.owners {
		if ref.UID == owner.uid() && blocking(ref) && s.means(d, ref, owner) {
			return true, nil
		}
	}
	return false, nil
}

func blocking(ref meta.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// means reports whether a reference with the uid of the owner also has its kind, name and
// namespace.
func (s *session) means(d *object, ref meta.OwnerReference, owner *object) bool {
	gv, err := meta.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false
	}
	at := owner.entry.Facts()
	if ref.Name != at.Name || at.Namespace != "" && at.Namespace != d.entry.Namespace() {
		return false
	}
	if served, ok := s.present().named[gv.WithKind(ref.Kind)]; ok {
		return served.Resource.StorageName == owner.served.Resource.StorageName
	}
	return owner.served.Resource.GroupKind() == (meta.GroupKind{Group: gv.Group, Kind: ref.Kind})
}

// breakCircle checks whether a waiting owner blocks itself by way of others. If so, its own
// references on that path stop blocking. The last owner in a circle to wait finds the others
// waiting, so one of them always finds the circle.
func (s *session) breakCircle(ctx context.Context, o *object) error {
	owners, found := make([]meta.OwnerReference, len(o.owners)), false
	seen := map[meta.UID]bool{}
	for i, ref := range o.owners {
		owners[i] = ref
		if !blocking(ref) || ref.UID == o.uid() {
			continue
		}
		leads, err := s.leadsTo(ctx, o, ref, o.uid(), seen)
		if err != nil {
			return err
		}
		if leads {
			no := false
			owners[i].BlockOwnerDeletion, found = &no, true
		}
	}
	if !found {
		return nil
	}
	return s.setOwners(ctx, o, owners)
}

// leadsTo walks up from a reference, along blocking references of waiting owners, and reports
// whether it reaches a uid. seen holds the owners visited before; none of them leads there.
func (s *session) leadsTo(ctx context.Context, o *object, ref meta.OwnerReference, uid meta.UID, seen map[meta.UID]bool) (bool, error) {
	type step struct {
		of  *object
		ref meta.OwnerReference
	}
	for way := []step{{o, ref}}; len(way) > 0; {
		at := way[len(way)-1]
		way = way[:len(way)-1]
		if at.ref.UID == uid {
			return true, nil
		}
		if seen[at.ref.UID] {
			continue
		}
		seen[at.ref.UID] = true
		v, owner, err := s.weigh(ctx, at.of, at.ref)
		if err != nil && ctx.Err() != nil {
			return false, err
		}
		if err != nil || v != ending {
			continue // it does not wait
		}
		for _, up := range owner.owners {
			if blocking(up) && up.UID != owner.uid() {
				way = append(way, step{owner, up})
			}
		}
	}
	return false, nil
}

// strippers is how many references to one owner are removed concurrently.
const strippers = 8

// orphan removes the references to an owner from its dependents, and then releases the owner
// (GC-03).
func (s *session) orphan(ctx context.Context, o *object) error {
	if err := s.engine.Complete(ctx, o.served, o.entry.Revision()); err != nil {
		return err
	}
	var first error
	for after := ""; ; {
		keys := s.some(o.uid(), after)
		if len(keys) == 0 {
			break
		}
		if err := s.stripAll(ctx, keys, o.uid()); err != nil && first == nil {
			first = err
		}
		after = keys[len(keys)-1]
	}
	if first != nil {
		return first
	}
	if s.hasDependents(o.uid()) {
		return errRace
	}
	if err := s.unseen(ctx, o.uid()); err != nil {
		return err
	}
	for one := range s.engine.Unreadable() { // it may be a dependent, and would be collected once it can be read
		return one.Err
	}
	// The owner may have been one of its own dependents.
	now, err := s.readFrom(ctx, o.served, o.entry.Key())
	if err != nil || now == nil || now.uid() != o.uid() {
		return err
	}
	return s.release(ctx, now, meta.FinalizerOrphanDependents)
}

// some returns the keys of the next dependents, at most a chunk.
func (c *Collector) some(owner meta.UID, after string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []string
	for key := range c.index.dependents(owner, after) {
		if keys = append(keys, key); len(keys) == chunk {
			break
		}
	}
	return keys
}

// stripAll removes the references to an owner from several objects, as far as it can. It returns
// one of the errors.
func (s *session) stripAll(ctx context.Context, keys []string, owner meta.UID) error {
	var running sync.WaitGroup
	var mu sync.Mutex
	var first error
	rest := keys
	next := func(err error) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		if len(rest) == 0 || ctx.Err() != nil {
			return "", false
		}
		key := rest[0]
		rest = rest[1:]
		return key, true
	}
	for range min(strippers, len(keys)) {
		running.Go(func() {
			for key, ok := next(nil); ok; key, ok = next(s.strip(ctx, key, owner)) {
			}
		})
	}
	running.Wait()
	return first
}

// strip removes the references to an owner from one object.
func (s *session) strip(ctx context.Context, key string, owner meta.UID) (err error) {
	defer guard.Recover(&err, "a rule about "+key)
	for {
		o, err := s.read(ctx, key)
		if err != nil || o == nil {
			return err
		}
		var kept []meta.OwnerReference
		for _, ref := range o.owners {
			if ref.UID != owner {
				kept = append(kept, ref)
			}
		}
		if len(kept) == len(o.owners) {
			return nil
		}
		if err := s.setOwners(ctx, o, kept); err != errRace || ctx.Err() != nil { //nolint:errorlint // it is this package's own
			return err
		}
	}
}
