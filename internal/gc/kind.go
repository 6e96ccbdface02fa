package gc

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// kinds is a set of resources, indexed for the collector's lookups.
type kinds struct {
	generation uint64
	stored     map[string]*engine.Served                // the stored forms, by storage name
	named      map[meta.GroupVersionKind]*engine.Served // every form that is served, and the stored ones
	versions   map[meta.GroupKind][]*engine.Served      // likewise, by kind

	// leftovers are the storage names of kinds that are not served but have stored objects. They
	// are searched for only once: objects of such kinds do not change.
	searching chan struct{} // holds the one who searches: a lock would not end with a context
	searched  bool
	leftovers []string
}

// present returns the kinds that are served now.
func (s *session) present() *kinds {
	set := s.engine.Set()
	if k := s.kinds.Load(); k != nil && k.generation == set.Generation() {
		return k
	}
	k := &kinds{
		generation: set.Generation(), searching: make(chan struct{}, 1), stored: map[string]*engine.Served{},
		named: map[meta.GroupVersionKind]*engine.Served{}, versions: map[meta.GroupKind][]*engine.Served{},
	}
	name := func(served *engine.Served) {
		r := served.Resource
		if _, known := k.named[r.GroupVersionKind()]; known || served.Cache == nil {
			return // a kind that stores no objects has no owners
		}
		k.named[r.GroupVersionKind()] = served
		k.versions[r.GroupKind()] = append(k.versions[r.GroupKind()], served)
	}
	for _, served := range set.All() {
		name(served)
	}
	for served := range set.Stored() {
		k.stored[served.Resource.StorageName] = served
		name(served) // including versions that clients can no longer request: their objects exist
	}
	s.kinds.Store(k)
	return k
}

// unseen fails when a kind that is not served has objects that name an owner. The collector can
// only decide about them when the kind is served again.
func (s *session) unseen(ctx context.Context, owner meta.UID) error {
	names, err := s.present().unserved(ctx, s.engine.Store())
	if err != nil {
		return err
	}
	for _, name := range names {
		request := storage.ListRequest{Prefix: storage.ResourcePrefix(name), Limit: chunk}
		for more := true; more; {
			page, err := s.engine.Store().List(ctx, request)
			if err != nil {
				return err
			}
			for _, rec := range page.Records {
				if bytes.Contains(rec.Value, []byte(owner)) {
					return fmt.Errorf("%w: %s, has an object that names the owner %s", errUnserved, name, owner)
				}
				request.After = rec.Key
			}
			more = page.More
		}
	}
	return nil
}

// unserved finds the leftovers. It takes one read for each kind that has stored objects.
func (k *kinds) unserved(ctx context.Context, store *storage.Store) ([]string, error) {
	select {
	case k.searching <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-k.searching }()
	if k.searched {
		return k.leftovers, nil
	}
	k.leftovers = nil
	for name, err := range store.StorageNames(ctx) {
		if err != nil {
			return nil, err
		}
		if _, served := k.stored[name]; !served {
			k.leftovers = append(k.leftovers, name)
		}
	}
	k.searched = true
	return k.leftovers, nil
}
