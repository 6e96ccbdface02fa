package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Served is one resource of a running server: its description and its live view. Cache is nil for
// virtual resources.
type Served struct {
	Resource *registry.Resource // the description, with every default filled in
	Kind     *Kind              // the compiled form of the description
	Cache    *watch.Cache

	expiry *expiry // nil for resources whose objects live until they are deleted

	stored    *Served      // the stored form; the resource itself, if it is that
	stale     *staleKeys   // shared by all forms
	ownership *ownership   // likewise
	scope     *scope       // encodings and other values derived from its objects
	records   *records     // shared by all forms: what stored records can be read as
	fields    familyFields // of the stored form of a straight kind
	flights   *flights
	broken    *broken                 // objects that cannot be shown in this form
	reader    *atomic.Pointer[Served] // the latest resource that the live view is of; nil for forms that have none of their own
	late      bool                    // it was added to an engine that served others already

	ending  *atomic.Bool             // see Ending
	inForce *atomic.Pointer[inForce] // see AnswerAfter

	present context.Context // done once clients can no longer ask for it
	leave   context.CancelFunc
	unlead  context.CancelFunc // ends the work of follow; set by it
}

// newServed makes the running part of a kind. base is the stored form, or nil if the kind is the
// stored form.
func (e *Engine) newServed(r *Kind, base *Served) *Served {
	s := &Served{Resource: r.Resource, Kind: r, stored: base, scope: &scope{e.encodings}, flights: &flights{}, broken: &broken{}, ending: new(atomic.Bool), inForce: new(atomic.Pointer[inForce])}
	s.late = e.Set().generation > emptyGeneration
	s.present, s.leave = context.WithCancel(context.Background())
	if base == nil {
		s.stored = s
		s.stale, s.ownership, s.records = &staleKeys{}, &ownership{}, &records{}
		return s
	}
	s.stale, s.ownership, s.records = base.stale, base.ownership, base.records
	return s
}

// Ended returns a context that is done once clients can no longer ask for the resource as it is,
// because it was removed or replaced. Streams of the resource then end.
func (s *Served) Ended() context.Context { return s.present }

// Set is an immutable snapshot of the resources of a server at one moment. A request takes one set
// and uses it throughout, so that dispatch, discovery and documentation agree with each other
// (DISC-09).
//
// A set also holds resources that clients cannot ask for: a stored form whose version is not served
// while others are, and forms in which records may have been written. The engine's own work uses
// those, and the Go API reaches them.
//
// The cost of a change depends on the changed kinds and not on the size of the set, because the
// next set shares the rest.
type Set struct {
	generation uint64
	groups     shardedMap[string, *Group] // of what clients can ask for, by name
	sorted     func() []*Group            // groups in the order of listings
	named      shardedMap[meta.GroupVersionResource, member]
	kinds      shardedMap[meta.GroupVersionKind, *Served] // every one
	families   shardedMap[string, *family]                // by storage name
	words      shardedMap[claim, meta.GroupResource]      // and who claims them
}

// member is a kind in a set.
type member struct {
	*Served
	hidden bool // clients cannot ask for it
}

// family is a stored kind with all its forms.
type family struct {
	base  *Served
	forms []*Served // base among them
}

// Group is the part of one group that clients can ask for. While nothing in the group changes, it
// is the same value in every set.
type Group struct {
	Name     string
	Versions []*Version // the preferred one first (VER-18)
}

// Late reports whether everything in the group came later than the first kinds of the engine.
func (g *Group) Late() bool {
	for _, v := range g.Versions {
		for _, one := range v.Kinds {
			if !one.late {
				return false
			}
		}
	}
	return true
}

// Version is the part of one version of a group that clients can ask for. While nothing in it
// changes, it is the same value in every set.
type Version struct {
	Group, Version string
	Kinds          []*Served // by plural name
}

// emptyGeneration is the generation of the set that an engine begins with. The first change installs
// the kinds of the program.
const emptyGeneration = 1

// Generation counts the changes of the server's set. Caches of derived documents use it to know
// when to start again.
func (s *Set) Generation() uint64 { return s.generation }

// Lookup returns the resource with this group, version and name in URLs.
func (s *Set) Lookup(r meta.GroupVersionResource) (*Served, bool) {
	m, ok := s.named.get(r)
	if !ok || m.hidden {
		return nil, false
	}
	return m.Served, true
}

// ForKind returns the resource of a kind. Clients may be unable to ask for it; see Visible.
func (s *Set) ForKind(kind meta.GroupVersionKind) (*Served, bool) { return s.kinds.get(kind) }

// Visible reports whether clients can ask for a resource of the set.
func (s *Set) Visible(one *Served) bool {
	m, ok := s.named.get(one.Kind.GroupVersionResource())
	return ok && !m.hidden && m.Served == one
}

// Groups returns the groups that clients can ask for: those that were installed first, with the
// server, before those that came later, and otherwise by name. Clients that find a word in several groups take the
// first, so nobody can take over a word of the program. The caller must not change the slice.
// The set sorts them when it is first asked, because most sets are replaced before that.
func (s *Set) Groups() []*Group { return s.sorted() }

// ServesGroup reports whether clients can ask for anything in a group.
func (s *Set) ServesGroup(name string) bool {
	_, ok := s.groups.get(name)
	return ok
}

// ServesVersion reports whether clients can ask for anything in a version of a group.
func (s *Set) ServesVersion(group, version string) bool {
	g, ok := s.groups.get(group)
	return ok && slices.ContainsFunc(g.Versions, func(v *Version) bool { return v.Version == version })
}

// All returns the resources that clients can ask for, in the order of Groups, version (VER-18) and plural
// name.
func (s *Set) All() []*Served {
	var all []*Served
	for _, g := range s.Groups() {
		for _, v := range g.Versions {
			all = append(all, v.Kinds...)
		}
	}
	return all
}

// Stored returns every resource that has objects, once and in its stored form, in no particular
// order. It includes stored forms that clients cannot ask for. Walking them finds all objects.
func (s *Set) Stored() iter.Seq[*Served] {
	return func(yield func(*Served) bool) {
		for _, f := range s.families.all() {
			if !yield(f.base) {
				return
			}
		}
	}
}

// StoredAs returns the stored form of the objects under a storage name.
func (s *Set) StoredAs(storageName string) (*Served, bool) {
	f, ok := s.families.get(storageName)
	if !ok {
		return nil, false
	}
	return f.base, true
}

// claim is a name that a kind claims inside its group version.
type claim struct {
	in   meta.GroupVersion
	as   string // "kind", "singular" or "short name"
	text string
}

// words returns the claims of a kind. A list kind is a kind, too.
func (r *Kind) words() []claim {
	in := meta.GroupVersion{Group: r.Group, Version: r.Version}
	out := []claim{{in, "kind", r.Names.Kind}, {in, "kind", r.Names.ListKind}, {in, "singular", r.Names.Singular}}
	for _, s := range r.Names.ShortNames {
		out = append(out, claim{in, "short name", s})
	}
	return out
}

// setEdit is the next set under construction.
type setEdit struct {
	next     Set
	groups   *shardedEdit[string, *Group]
	named    *shardedEdit[meta.GroupVersionResource, member]
	kinds    *shardedEdit[meta.GroupVersionKind, *Served]
	families *shardedEdit[string, *family]
	words    *shardedEdit[claim, meta.GroupResource]
	own      map[*Group]bool // made by the edit, which may change them
	versions map[*Version]bool
}

func (s *Set) edit() *setEdit {
	return &setEdit{
		next:   Set{generation: s.generation + 1},
		groups: s.groups.edit(), named: s.named.edit(), kinds: s.kinds.edit(), families: s.families.edit(), words: s.words.edit(),
		own: map[*Group]bool{}, versions: map[*Version]bool{},
	}
}

// done returns the set. The edit must not be used afterwards.
func (e *setEdit) done() *Set {
	next := e.next
	next.groups = e.groups.next
	next.sorted = sync.OnceValue(func() []*Group {
		var all []*Group
		for _, g := range next.groups.all() {
			all = append(all, g)
		}
		late := make(map[*Group]bool, len(all))
		for _, g := range all {
			late[g] = g.Late()
		}
		slices.SortFunc(all, func(a, b *Group) int {
			return cmp.Or(boolInt(late[a])-boolInt(late[b]), strings.Compare(a.Name, b.Name))
		})
		return all
	})
	next.named, next.kinds, next.families, next.words = e.named.next, e.kinds.next, e.families.next, e.words.next
	return &next
}

// clash names the word of a kind that is taken, "" if none is. Words are unique inside a group
// version. The storage name is unique in the whole server, because otherwise two kinds would read
// each other's objects.
func (e *setEdit) clash(r *Kind) string {
	if _, taken := e.named.get(r.GroupVersionResource()); taken {
		return fmt.Sprintf("%s is served already", r.GroupResource())
	}
	if r.Virtual == nil {
		if f, taken := e.families.get(r.StorageName); taken && f.base.Kind != r.base {
			a := f.base.Kind
			return fmt.Sprintf("storage name %q belongs to %s (%s); to serve another form of the same objects use Kind.Also", r.StorageName, a.GroupResource(), a.APIVersion())
		}
	}
	taken := func(what string, w claim) string {
		by, ok := e.words.get(w)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s %q is taken by %s", what, w.text, by)
	}
	for _, w := range r.words() {
		what := w.as
		if w.as == "kind" && w.text == r.Names.ListKind {
			what = "list kind"
		}
		why := taken(what, w)
		if w.as == "short name" && why == "" {
			why = taken(what, claim{w.in, "singular", w.text})
			if have, ok := e.named.get(meta.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: w.text}); ok && why == "" {
				why = fmt.Sprintf("%s %q is taken by %s", what, w.text, have.Kind.GroupResource())
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// add adds a kind to the set. Add the stored form before its other forms.
func (e *setEdit) add(one *Served, hidden bool) {
	r := one.Kind
	e.named.set(r.GroupVersionResource(), member{one, hidden})
	e.kinds.set(r.GroupVersionKind(), one)
	for _, w := range r.words() {
		if by, claimed := e.words.get(w); !claimed || by != r.GroupResource() { // a fork shares the claims
			e.words.set(w, r.GroupResource())
		}
	}
	if r.Virtual == nil {
		f := &family{base: one.stored}
		if have, ok := e.families.get(r.StorageName); ok {
			f.forms = have.forms
		}
		f.forms = append(slices.Clip(f.forms), one)
		e.families.set(r.StorageName, f)
	}
	if !hidden {
		e.show(one)
	}
}

// drop removes a kind from the set. Drop the stored form after its other forms.
func (e *setEdit) drop(one *Served) {
	r := one.Kind
	e.unshow(one)
	e.named.delete(r.GroupVersionResource())
	e.kinds.delete(r.GroupVersionKind())
	for _, w := range r.words() {
		e.words.delete(w)
	}
	f, ok := e.families.get(r.StorageName)
	if !ok || r.Virtual != nil {
		return
	}
	forms := slices.DeleteFunc(slices.Clone(f.forms), func(o *Served) bool { return o == one })
	if len(forms) == 0 {
		e.families.delete(r.StorageName)
		return
	}
	e.families.set(r.StorageName, &family{f.base, forms})
}

// hide keeps a kind but makes it unavailable to clients.
func (e *setEdit) hide(one *Served) {
	e.unshow(one)
	e.named.set(one.Kind.GroupVersionResource(), member{one, true})
}

// visible reports whether clients can ask for any form of a family.
func (e *setEdit) visible(f *family) bool {
	return slices.ContainsFunc(f.forms, func(one *Served) bool {
		m, _ := e.named.get(one.Kind.GroupVersionResource())
		return !m.hidden
	})
}

// show makes a kind available to clients.
func (e *setEdit) show(one *Served) {
	r := one.Kind
	group := e.ownGroup(r.Group)
	v, found := findVersion(group.Versions, r.Version)
	if !found {
		group.Versions = slices.Insert(group.Versions, v, &Version{Group: r.Group, Version: r.Version})
	}
	version := e.ownVersion(group, v)
	k, _ := findKind(version.Kinds, r.Plural)
	version.Kinds = slices.Insert(version.Kinds, k, one)
}

// unshow reverses show.
func (e *setEdit) unshow(one *Served) {
	r := one.Kind
	group, found := e.groups.get(r.Group)
	if !found {
		return
	}
	v, found := findVersion(group.Versions, r.Version)
	if !found {
		return
	}
	k, found := findKind(group.Versions[v].Kinds, r.Plural)
	if !found {
		return
	}
	group = e.ownGroup(r.Group)
	version := e.ownVersion(group, v)
	version.Kinds = slices.Delete(version.Kinds, k, k+1)
	if len(version.Kinds) == 0 {
		group.Versions = slices.Delete(group.Versions, v, v+1)
	}
	if len(group.Versions) == 0 {
		e.groups.delete(r.Group)
	}
}

// ownGroup returns a group that the edit may change. It adds the group if there is none.
func (e *setEdit) ownGroup(name string) *Group {
	g, found := e.groups.get(name)
	switch {
	case !found:
		g = &Group{Name: name}
	case e.own[g]:
		return g
	default:
		g = &Group{name, slices.Clone(g.Versions)}
	}
	e.groups.set(name, g)
	e.own[g] = true
	return g
}

func (e *setEdit) ownVersion(g *Group, i int) *Version {
	v := g.Versions[i]
	if !e.versions[v] {
		v = &Version{v.Group, v.Version, slices.Clone(v.Kinds)}
		g.Versions[i], e.versions[v] = v, true
	}
	return v
}

func findVersion(versions []*Version, name string) (int, bool) {
	return slices.BinarySearchFunc(versions, name, func(v *Version, name string) int { return meta.CompareVersions(v.Version, name) })
}

func findKind(kinds []*Served, plural string) (int, bool) {
	return slices.BinarySearchFunc(kinds, plural, func(s *Served, plural string) int { return strings.Compare(s.Kind.Plural, plural) })
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// staleKeys tracks the objects whose stored bytes differ from their live form because they were
// written under an earlier schema or in another version. A write that changes nothing in the live
// form must still reach the store (design rule 9), and a migration rewrites these objects.
type staleKeys struct {
	mu   sync.Mutex
	keys map[string]staleRecord
}

// staleRecord describes how such a record differs from the one that would be written now.
type staleRecord struct {
	rev     storage.Revision
	foreign bool // it was written in another version
	lossy   bool // the live form lacks something of it
}

// note reports a record; s is nil if the record is up to date.
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

// lossy reports whether the live form of a record lacks something of it.
func (k *staleKeys) lossy(key string, rev storage.Revision) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.keys[key]
	return ok && at.rev == rev && at.lossy
}

// choose returns the keys of the records that which selects, in order.
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
