package registry

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
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
	records   *records   // shared by all forms: what stored records can be read as
	broken    *broken    // objects that have no form here
	presence  *presence  // ends when clients can no longer ask for it
}

// newServed makes the running part of a resource. What forms share with their stored form is put in place by Set.link.
func (e *Engine) newServed(r *Resource) *Served {
	return &Served{
		Resource: r, stale: &staleKeys{}, ownership: &ownership{}, shelf: &shelf{e.shapes},
		records: &records{}, broken: &broken{}, presence: newPresence(),
	}
}

// Ended returns a context that is done once clients can no longer ask for the resource: their streams of it end.
func (s *Served) Ended() context.Context { return s.presence.now() }

// stored returns the stored form.
func (s *Served) stored() *Served {
	if s.base != nil {
		return s.base
	}
	return s
}

// presence is the time for which a resource can be asked for; it can begin again.
type presence struct {
	mu  sync.Mutex
	ctx context.Context
	end context.CancelFunc
}

func newPresence() *presence {
	p := &presence{}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

func (p *presence) now() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctx
}

// set begins or ends it.
func (p *presence) set(there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !there:
		p.end()
	case p.ctx.Err() != nil:
		p.ctx, p.end = context.WithCancel(context.Background())
	}
}

// Set is the resources of a server at one moment: an immutable snapshot. A request takes one and uses it throughout,
// so that dispatch, discovery and documentation agree with each other (DISC-09).
//
// Besides what clients can ask for, it holds what is only kept: a stored form whose version is not served while others are,
// and forms that records may have been written in. The engine's own work goes on with those, and the Go API reaches them.
type Set struct {
	generation uint64
	every      []*Served // by group, version and plural name
	hidden     map[*Served]bool

	named   map[meta.GroupVersionResource]*Served // of every
	ordered []*Served                             // every one that is not hidden
}

// newSet makes the set of a generation.
func newSet(generation uint64, every []*Served, hidden map[*Served]bool) *Set {
	s := &Set{generation: generation, every: every, hidden: hidden, named: make(map[meta.GroupVersionResource]*Served, len(every))}
	slices.SortFunc(s.every, func(a, b *Served) int {
		return cmp.Or(
			strings.Compare(a.Resource.Group, b.Resource.Group),
			meta.CompareVersions(a.Resource.Version, b.Resource.Version),
			strings.Compare(a.Resource.Names.Plural, b.Resource.Names.Plural),
		)
	})
	for _, one := range every {
		s.named[one.Resource.GroupVersionResource()] = one
		if !hidden[one] {
			s.ordered = append(s.ordered, one)
		}
	}
	return s
}

// Generation counts the changes of the server's set; it tells caches of derived documents when to start again.
func (s *Set) Generation() uint64 { return s.generation }

// Lookup returns the resource that URLs call by these words.
func (s *Set) Lookup(r meta.GroupVersionResource) (*Served, bool) {
	served, ok := s.named[r]
	if !ok || s.hidden[served] {
		return nil, false
	}
	return served, true
}

// ofKind returns what clients can ask for of a kind.
func (s *Set) ofKind(kind meta.GroupVersionKind) (*Served, bool) {
	for _, one := range s.ordered {
		if one.Resource.GroupVersionKind() == kind {
			return one, true
		}
	}
	return nil, false
}

// All returns the resources that clients can ask for, ordered by group, version (VER-18) and plural name. The slice must not
// be changed.
func (s *Set) All() []*Served { return s.ordered }

// Stored returns the resources that have objects, each once and in its stored form, whether clients can ask for that form
// or for others alone. This is what has to be walked to find all objects there are.
func (s *Set) Stored() iter.Seq[*Served] {
	return func(yield func(*Served) bool) {
		for _, one := range s.every {
			if one.base == nil && one.Resource.Virtual == nil && !yield(one) {
				return
			}
		}
	}
}

// with returns a set of the next generation with more resources, or says which name clashes with what. A resource that is
// kept and hidden is served again when its description is added again; of added, what is new is returned.
func (s *Set) with(resources []*Resource, make func(*Resource) *Served, serves func(*Resource) bool) (next *Set, added []*Served, err error) {
	every, hidden := slices.Clone(s.every), maps.Clone(s.hidden)
	for _, r := range resources {
		have, named := s.named[r.GroupVersionResource()]
		if named && hidden[have] {
			if have.Resource == r {
				delete(hidden, have)
				continue
			}
			if have.base != nil { // kept for old records; the new description takes its place
				every = slices.DeleteFunc(every, func(o *Served) bool { return o == have })
				delete(hidden, have)
			}
		}
		for _, o := range every {
			if why := clash(o.Resource, r); why != "" {
				return nil, nil, fmt.Errorf("kind %s (%s): %s", r.Names.Kind, r.APIVersion(), why)
			}
		}
		one := make(r)
		every, added = append(every, one), append(added, one)
		if r.Unserved || !serves(r) {
			hidden[one] = true
		}
	}
	return newSet(s.generation+1, every, hidden), added, nil
}

// without returns a set of the next generation without the named resources, and those that were taken out.
func (s *Set) without(gone ...meta.GroupResource) (*Set, []*Served) {
	var every, out []*Served
	hidden := maps.Clone(s.hidden)
	for _, have := range s.every {
		if slices.Contains(gone, have.Resource.GroupResource()) || slices.Contains(gone, have.stored().Resource.GroupResource()) {
			out = append(out, have)
			delete(hidden, have)
			continue
		}
		every = append(every, have)
	}
	return newSet(s.generation+1, every, hidden), out
}

// withoutVersions returns a set of the next generation in which the named versions are hidden, and those that were taken out
// of it because nothing of them is left that clients could ask for. changed tells whether there is any difference.
func (s *Set) withoutVersions(gone []meta.GroupVersionResource) (next *Set, out []*Served, changed bool) {
	hidden := maps.Clone(s.hidden)
	for _, have := range s.ordered {
		if slices.Contains(gone, have.Resource.GroupVersionResource()) {
			hidden[have], changed = true, true
		}
	}
	visible := map[*Served]bool{}
	for _, have := range s.every {
		visible[have.stored()] = visible[have.stored()] || !hidden[have]
	}
	var every []*Served
	for _, have := range s.every {
		if visible[have.stored()] {
			every = append(every, have)
			continue
		}
		out = append(out, have)
		delete(hidden, have)
	}
	return newSet(s.generation+1, every, hidden), out, changed
}

// link gives every added form the resource it is a form of, which must be in the set, and puts the stored forms first.
func (s *Set) link(added []*Served) error {
	for _, a := range added {
		if a.Resource.Stored == nil {
			continue
		}
		i := slices.IndexFunc(s.every, func(b *Served) bool { return b.Resource == a.Resource.Stored.Resource })
		if i < 0 {
			return fmt.Errorf("kind %s (%s): the resource it is a form of is not served", a.Resource.Names.Kind, a.Resource.APIVersion())
		}
		b := s.every[i]
		a.base, a.stale, a.ownership, a.records = b, b.stale, b.ownership, b.records
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
// earlier schema or in another version: a write that changes nothing in the live form must still reach the store (design rule
// 9), and a migration writes them anew.
type staleKeys struct {
	mu   sync.Mutex
	keys map[string]staleRecord
}

// staleRecord is one of them: how far it is from what would be written now.
type staleRecord struct {
	rev     storage.Revision
	foreign bool // it was written in another version
	lossy   bool // the live form lacks something of it
}

// note tells of a record; s is nil for one that is as it should be.
func (k *staleKeys) note(key string, rev storage.Revision, s *staleRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, known := k.keys[key]; known && at.rev > rev {
		return // a previous state, read again for the sake of a watch
	}
	if s == nil {
		delete(k.keys, key)
		return
	}
	if k.keys == nil {
		k.keys = map[string]staleRecord{}
	}
	k.keys[key] = staleRecord{rev, s.foreign, s.lossy}
}

func (k *staleKeys) has(key string, rev storage.Revision) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.keys[key]
	return ok && at.rev == rev
}

// choose returns the keys of records, in order.
func (k *staleKeys) choose(which func(staleRecord) bool) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []string
	for key, s := range k.keys {
		if which(s) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
