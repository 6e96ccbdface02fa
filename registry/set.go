package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Served is one resource as part of a running server: its description and its live view. Cache is nil for virtual
// resources.
type Served struct {
	Resource *Resource
	Cache    *watch.Cache

	expiry *expiry // nil for resources whose objects live until they are deleted

	base      *Served    // the stored form; nil when this is it
	stale     *staleKeys // shared by all forms
	ownership *ownership // likewise
	shelf     *shelf     // what was made of its objects
}

// Set is the resources of a server at one moment: an immutable snapshot. A request takes one and uses it throughout,
// so that dispatch, discovery and documentation agree with each other (DISC-09).
type Set struct {
	generation uint64
	served     map[meta.GroupVersionResource]*Served
	ordered    []*Served
}

// Generation counts the changes of the server's set; it tells caches of derived documents when to start again.
func (s *Set) Generation() uint64 { return s.generation }

// Lookup returns the resource that URLs call by these words.
func (s *Set) Lookup(r meta.GroupVersionResource) (*Served, bool) {
	served, ok := s.served[r]
	return served, ok
}

// All returns the resources ordered by group, version (VER-18) and plural name. The slice must not be changed.
func (s *Set) All() []*Served { return s.ordered }

// with returns a set of the next generation with more resources, or says which name clashes with what.
func (s *Set) with(more ...*Served) (*Set, error) {
	next := s.copyOf()
	for _, m := range more {
		for _, have := range next.ordered {
			if why := clash(have.Resource, m.Resource); why != "" {
				return nil, fmt.Errorf("kind %s (%s): %s", m.Resource.Names.Kind, m.Resource.APIVersion(), why)
			}
		}
		next.served[m.Resource.GroupVersionResource()] = m
		next.ordered = append(next.ordered, m)
	}
	next.sort()
	return next, nil
}

// without returns a set of the next generation without the named resources, and those that were taken out.
func (s *Set) without(gone ...meta.GroupResource) (*Set, []*Served) {
	next := &Set{generation: s.generation + 1, served: map[meta.GroupVersionResource]*Served{}}
	var out []*Served
	for _, have := range s.ordered {
		if slices.Contains(gone, have.Resource.GroupResource()) || have.base != nil && slices.Contains(gone, have.base.Resource.GroupResource()) {
			out = append(out, have)
			continue
		}
		next.served[have.Resource.GroupVersionResource()] = have
		next.ordered = append(next.ordered, have)
	}
	return next, out
}

// link gives every added form the resource it is a form of, which must be in the set, and puts the stored forms first.
func (s *Set) link(added []*Served) error {
	for _, a := range added {
		if a.Resource.Stored == nil {
			continue
		}
		i := slices.IndexFunc(s.ordered, func(b *Served) bool { return b.Resource == a.Resource.Stored.Resource })
		if i < 0 {
			return fmt.Errorf("kind %s (%s): the resource it is a form of is not served", a.Resource.Names.Kind, a.Resource.APIVersion())
		}
		a.base, a.stale, a.ownership = s.ordered[i], s.ordered[i].stale, s.ordered[i].ownership
	}
	slices.SortStableFunc(added, func(a, b *Served) int { return cmp.Compare(boolInt(a.base != nil), boolInt(b.base != nil)) })
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *Set) copyOf() *Set {
	next := &Set{generation: s.generation + 1, served: make(map[meta.GroupVersionResource]*Served, len(s.served)+1)}
	for k, v := range s.served {
		next.served[k] = v
	}
	next.ordered = slices.Clone(s.ordered)
	return next
}

func (s *Set) sort() {
	slices.SortFunc(s.ordered, func(a, b *Served) int {
		return cmp.Or(
			strings.Compare(a.Resource.Group, b.Resource.Group),
			meta.CompareVersions(a.Resource.Version, b.Resource.Version),
			strings.Compare(a.Resource.Names.Plural, b.Resource.Names.Plural),
		)
	})
}

// clash says which word of b is taken by a, "" if none. Words are claimed inside a group version; the place in the store
// is claimed in the whole server, or two kinds would read each other's objects.
func clash(a, b *Resource) string {
	if a.GroupVersionResource() == b.GroupVersionResource() {
		return fmt.Sprintf("%s is served already", a.GroupResource())
	}
	if a.Virtual == nil && b.Virtual == nil && a.StorageName == b.StorageName && a.base() != b.base() {
		return fmt.Sprintf("storage name %q belongs to %s (%s); to serve another form of the same objects use Kind.Also", b.StorageName, a.GroupResource(), a.APIVersion())
	}
	if a.Group != b.Group || a.Version != b.Version {
		return ""
	}
	type word struct{ what, have, want string }
	for _, w := range []word{
		{"kind", a.Names.Kind, b.Names.Kind},
		{"singular", a.Names.Singular, b.Names.Singular},
		{"list kind", a.Names.ListKind, b.Names.ListKind},
		{"kind", a.Names.ListKind, b.Names.Kind},
		{"list kind", a.Names.Kind, b.Names.ListKind},
	} {
		if w.have == w.want {
			return fmt.Sprintf("%s %q is taken by %s", w.what, w.want, a.GroupResource())
		}
	}
	for _, s := range b.Names.ShortNames {
		if slices.Contains(a.Names.ShortNames, s) || s == a.Names.Plural || s == a.Names.Singular {
			return fmt.Sprintf("short name %q is taken by %s", s, a.GroupResource())
		}
	}
	return ""
}

// staleKeys remembers the objects whose stored bytes differ from their live form because they were written under an
// earlier schema: a write that changes nothing in the live form must still reach the store (design rule 9).
type staleKeys struct {
	mu   sync.Mutex
	keys map[string]storage.Revision
}

func (s *staleKeys) note(key string, rev storage.Revision, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, known := s.keys[key]; known && at > rev {
		return // a previous state, read again for the sake of a watch
	}
	if !stale {
		delete(s.keys, key)
		return
	}
	if s.keys == nil {
		s.keys = map[string]storage.Revision{}
	}
	s.keys[key] = rev
}

func (s *staleKeys) has(key string, rev storage.Revision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.keys[key]
	return ok && at == rev
}
