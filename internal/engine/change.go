package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Install adds resources to a started engine. It loads their objects, and then all the resources
// appear at once. On an error none of them appears. A resource that the engine keeps although
// clients cannot ask for it is served again.
func (e *Engine) Install(ctx context.Context, resources ...*registry.Resource) error {
	return e.Change(ctx, nil, resources)
}

// Remove takes resources out of a started engine and ends their watches. Stored objects stay in the
// store and are served again when the resource is installed again. Unknown names are ignored.
func (e *Engine) Remove(gone ...meta.GroupResource) {
	remove := make([]meta.GroupVersionResource, len(gone))
	for i, g := range gone {
		remove[i] = meta.GroupVersionResource{Group: g.Group, Resource: g.Resource}
	}
	e.RemoveVersions(remove...)
}

// RemoveVersions stops serving versions of resources. Clients get 404, their watches end, and
// discovery no longer lists the versions. The objects stay in the store.
//
// While another version of the same objects is served, objects stored in a removed version are
// still read and written through that one, and are still deleted with their namespace. Removing the
// last version of a resource removes the resource, as Remove does. Unknown names are ignored.
//
// A version is served again when its description is given to Install again.
func (e *Engine) RemoveVersions(gone ...meta.GroupVersionResource) {
	if err := e.Change(context.Background(), gone, nil); err != nil && e.started.Load() {
		e.cfg.Logger.Error(err, "resources could not be removed") // unexpected: a part of what was valid before is valid, too
	}
}

// Change adds, removes and replaces resources in one step. Request routing, discovery and the rules
// of field ownership change at once. On an error nothing has changed.
//
// A resource in both lists is replaced. Requests in progress finish with the resource they began
// with, and no request finds it missing in between. Watches end in an orderly way, and clients
// resume from the version they had reached. A replacement has the same scope, storage name and
// stored version as the resource it replaces. The other forms of a stored kind are replaced with
// it.
//
// A kind with a registry.Converter may get another stored version. Then remove lists all forms of the
// kind, and add describes all that it is to have.
//
// An entry of remove without a version covers all versions; see Remove and RemoveVersions. Unknown
// names are ignored. One change is made at a time. Change returns an error when ctx ends, also while
// it waits for another change.
func (e *Engine) Change(ctx context.Context, remove []meta.GroupVersionResource, add []*registry.Resource) error {
	if err := e.changes.Lock(ctx); err != nil {
		return fmt.Errorf("wait for the change before: %w", err)
	}
	defer e.changes.Unlock()
	if e.lifetime == nil {
		return errors.New("registry: resources are installed in an engine that has started; give those that are there from the beginning to the server with Serve")
	}
	c := e.newChange()
	c.drafts, e.drafts = e.drafts, nil
	if err := c.plan(remove, add); err != nil {
		return err
	}
	if len(c.added) == 0 && len(c.leaving) == 0 {
		return nil
	}
	err := e.agree(ctx, c)
	if err == nil {
		err = c.load(ctx)
	}
	if err != nil {
		c.abandon()
		return err
	}
	c.publish()
	for name := range c.touched {
		e.migrations.note(name)
	}
	e.migrations.look()
	return nil
}

// Validate checks resources as Install would, without serving them. An error names the kind and the
// problem.
func (e *Engine) Validate(resources ...*registry.Resource) error {
	return e.newChange().plan(nil, resources)
}

// Preview returns the set that Install of these resources would make, or its error. It is for
// documents about them: its resources have no live views. The first change after it installs the
// kinds that Preview has compiled, if it is given the same descriptions.
func (e *Engine) Preview(resources ...*registry.Resource) (*Set, error) {
	defer e.holdChanges()()
	c := e.newChange()
	c.drafts = map[*registry.Resource]*Kind{}
	if err := c.plan(nil, resources); err != nil {
		return nil, err
	}
	e.drafts = c.drafts
	return c.edit.done(), nil
}

// holdChanges waits until no change is in progress, and keeps others from beginning until the
// returned function is called. It is for what cannot fail, and must be done by the end of a change.
func (e *Engine) holdChanges() (release func()) {
	_ = e.changes.Lock(context.Background()) // does not end, so the lock is held
	return e.changes.Unlock
}

// change is one call of Change in progress.
type change struct {
	engine *Engine
	from   *Set
	edit   *setEdit

	added    []*Served           // stored forms before their other forms
	replaces map[*Served]*Served // the served resource that an added one replaces
	leaving  []*Served           // resources that clients can no longer ask for as they are
	gone     []*Served           // those of leaving that are not kept at all
	rules    map[*Served]*ownershipRules
	touched  map[string]bool // storage names of the kinds that gain or lose a form
	swaps    []*watch.Replacement
	loaded   []string // storage names of the new caches
	fresh    []*Served

	forgotten []forgotten
	drafts    map[*registry.Resource]*Kind // compiled kinds, by description; nil: none are kept
}

// forgotten is a form of records whose place its replacement has taken.
type forgotten struct {
	from *records
	form *Kind
}

func (e *Engine) newChange() *change {
	from := e.set.Load()
	return &change{engine: e, from: from, edit: from.edit(), replaces: map[*Served]*Served{}, touched: map[string]bool{}}
}

// description describes a resource that is about to be served.
type description struct {
	*registry.Resource
	have   *Served // the resource it replaces
	hidden bool
}

// plan computes the next set. It has no side effects.
func (c *change) plan(remove []meta.GroupVersionResource, add []*registry.Resource) error {
	going := c.going(remove)
	coming, err := c.coming(going, add)
	if err != nil {
		return err
	}
	for _, d := range coming {
		if d.have != nil {
			c.leaving = append(c.leaving, d.have)
			c.edit.drop(d.have)
			c.touched[d.have.Kind.StorageName] = true
			delete(going, d.have)
		}
	}
	c.restore(coming, going)
	if err := c.compile(coming); err != nil {
		return err
	}
	c.withdraw(going)
	return c.own()
}

// restore drops the forms in going of straight kinds that come back, mostly with another stored
// form. The live view of such a kind passes to the new form. Records in a dropped form are still
// understood.
func (c *change) restore(coming []description, going map[*Served]bool) {
	for _, d := range coming {
		if d.Converter == nil || len(going) == 0 {
			continue
		}
		completed, err := d.Completed()
		if err != nil {
			continue // compile reports it
		}
		f, ok := c.from.families.get(completed.StorageName)
		if !ok || !f.base.Kind.straight() {
			continue
		}
		for _, form := range f.forms {
			if _, goes := going[form]; goes {
				c.leaving = append(c.leaving, form)
				c.edit.drop(form)
				c.touched[form.Kind.StorageName] = true
				delete(going, form)
			}
		}
	}
}

// going finds the resources to remove. A value is true where all versions are to be removed.
func (c *change) going(remove []meta.GroupVersionResource) map[*Served]bool {
	out := map[*Served]bool{}
	for _, name := range remove {
		if m, ok := c.from.named.get(name); ok {
			if _, listed := out[m.Served]; !listed {
				out[m.Served] = false
			}
			continue
		}
		if name.Version != "" {
			continue
		}
		for _, m := range c.from.named.all() {
			if m.Kind.GroupResource() == name.GroupResource() || m.Kind.base.GroupResource() == name.GroupResource() {
				out[m.Served] = true
			}
		}
	}
	return out
}

// coming lists the descriptions to compile: those given, and the other forms of the stored kinds
// that are replaced. Stored forms come first.
func (c *change) coming(going map[*Served]bool, add []*registry.Resource) ([]description, error) {
	var out []description
	given := map[meta.GroupVersionResource]bool{}
	for _, r := range add {
		name := r.GroupVersionResource()
		if given[name] {
			return nil, fmt.Errorf("kind %s (%s): %s is served already", r.Names.Kind, r.APIVersion(), r.GroupResource())
		}
		given[name] = true
		d := description{Resource: r, hidden: r.Unserved || !c.engine.cfg.Serves(r)}
		if m, ok := c.from.named.get(name); ok {
			_, goes := going[m.Served]
			if !goes && !m.hidden {
				return nil, fmt.Errorf("kind %s (%s): %s is served already", r.Names.Kind, r.APIVersion(), r.GroupResource())
			}
			d.have = m.Served
			d.hidden = d.hidden && (goes || !m.hidden || !m.Kind.describedBy(r)) // given once more, and not in place of itself, it is served
		}
		out = append(out, d)
	}
	for _, d := range slices.Clone(out) {
		if d.have == nil || d.have.stored != d.have {
			continue
		}
		f, ok := c.from.families.get(d.have.Kind.StorageName)
		if !ok {
			continue
		}
		for _, form := range f.forms {
			name := form.Kind.GroupVersionResource()
			if every := going[form]; given[name] || every {
				continue
			}
			m, _ := c.from.named.get(name)
			_, goes := going[form]
			if goes && form.Kind.straight() {
				continue // see restore
			}
			given[name] = true
			out = append(out, description{Resource: form.Resource, have: form, hidden: m.hidden || goes})
		}
	}
	slices.SortStableFunc(out, func(a, b description) int { return boolInt(a.Stored != nil) - boolInt(b.Stored != nil) })
	return out, nil
}

// compile makes kinds of descriptions and puts them into the set.
func (c *change) compile(coming []description) error {
	for _, d := range coming {
		fail := func(why string) error {
			return fmt.Errorf("kind %s (%s): %s", d.Names.Kind, d.APIVersion(), why)
		}
		var base *Served
		if d.Stored != nil {
			m, ok := c.edit.named.get(d.Stored.Resource.GroupVersionResource())
			if !ok || m.stored != m.Served {
				return fail("the resource it is a form of is not served")
			}
			base = m.Served
		}
		var stored *Kind
		if base != nil {
			stored = base.Kind
		}
		kind, err := c.kind(d.Resource, stored)
		if err != nil {
			return err
		}
		if d.have != nil {
			if why := d.have.Kind.irreplaceable(kind); why != "" {
				return fail(why)
			}
		}
		if why := c.edit.clash(kind); why != "" {
			return fail(why)
		}
		one := c.engine.newServed(kind, base)
		if d.have != nil {
			c.replaces[one], one.late = d.have, d.have.late
		}
		if d.hidden {
			one.leave()
		}
		c.added = append(c.added, one)
		c.touched[kind.StorageName] = true
		c.edit.add(one, d.hidden)
	}
	return nil
}

// kind returns the compiled kind of a description. stored is as for Engine.compile.
func (c *change) kind(description *registry.Resource, stored *Kind) (*Kind, error) {
	if draft, ok := c.drafts[description]; ok && (draft.base == stored || stored == nil && draft.base == draft) {
		return draft, nil
	}
	kind, err := c.engine.compile(description, stored)
	if err == nil && c.drafts != nil {
		c.drafts[description] = kind
	}
	return kind, err
}

// irreplaceable returns the reason why a kind cannot replace r, or "" if it can.
func (r *Kind) irreplaceable(by *Kind) string {
	switch {
	case r.ClusterScoped != by.ClusterScoped:
		return "it has another scope than the kind that it would replace"
	case (r.Virtual == nil) != (by.Virtual == nil):
		return "of it and the kind that it would replace one is stored and the other is not"
	case r.StorageName != by.StorageName:
		return fmt.Sprintf("its storage name is %q, and that of the kind that it would replace %q", by.StorageName, r.StorageName)
	case r.Virtual == nil && r.straight() != by.straight():
		return "of it and the kind that it would replace one has a Converter and the other has not"
	case r.Virtual == nil && !r.straight() && r.base.GroupVersionKind() != by.base.GroupVersionKind():
		return fmt.Sprintf("its objects are stored as %s, and those of the kind that it would replace as %s", by.base.GroupVersionKind(), r.base.GroupVersionKind())
	}
	return ""
}

// withdraw removes the resources in going. A version of a kind is kept while another version is
// served.
func (c *change) withdraw(going map[*Served]bool) {
	drop := func(one *Served) {
		c.leaving, c.gone = append(c.leaving, one), append(c.gone, one)
		c.touched[one.Kind.StorageName] = true
		c.edit.drop(one)
	}
	for one, every := range going {
		if every || one.Kind.Virtual != nil {
			drop(one)
			continue
		}
		c.leaving = append(c.leaving, one)
		c.touched[one.Kind.StorageName] = true
		c.edit.hide(one)
	}
	for name := range c.touched {
		f, ok := c.edit.families.get(name)
		if !ok || c.edit.visible(f) || !slices.ContainsFunc(f.forms, func(one *Served) bool { _, goes := going[one]; return goes }) {
			continue
		}
		for _, one := range f.forms {
			drop(one)
		}
	}
}

// own computes the ownership rules of the kinds that gain or lose a form.
func (c *change) own() error {
	c.rules = make(map[*Served]*ownershipRules, len(c.touched))
	for name := range c.touched {
		f, ok := c.edit.families.get(name)
		if !ok {
			continue
		}
		forms := make([]*Kind, 0, len(f.forms)) // hidden forms too: ownership survives while a version is switched off
		for _, one := range f.forms {
			if m, _ := c.edit.named.get(one.Kind.GroupVersionResource()); m.hidden && one != f.base && one.Kind.straight() && !f.base.Kind.SelectByRecord {
				continue // a Converter that changes objects is never asked for a form that is neither served nor stored
			}
			forms = append(forms, one.Kind)
		}
		rules, err := rulesOf(forms, c.engine.cfg.applyOptions(forms[0]))
		if err != nil {
			return fmt.Errorf("kind %s (%s): %w", f.base.Kind.Names.Kind, f.base.Kind.APIVersion(), err)
		}
		c.rules[f.base] = rules
	}
	return nil
}

// load gives each added resource its live view. It keeps the view of the replaced kind where that
// shows the same objects, and creates a new one otherwise.
func (c *change) load(ctx context.Context) error {
	for _, one := range c.added {
		if one.stored == one && one.Kind.Virtual == nil {
			c.inherit(one)
		}
	}
	for _, one := range c.added {
		if before := one.records.learn(one.Kind); before != nil {
			c.forgotten = append(c.forgotten, forgotten{one.records, before})
		}
	}
	if err := c.loadAll(ctx); err != nil {
		return err
	}
	if gate, ok := c.engine.cfg.Gate.(Loader); ok && len(c.fresh) > 0 {
		gate.Loaded(ctx, c.engine, c.fresh)
	}
	return nil
}

// inherit hands a replacement what is known about the records of the kind it replaces.
func (c *change) inherit(one *Served) {
	if one.Kind.straight() {
		one.fields = newFamilyFields(c.forms(one))
	}
	have := c.before(one)
	if have == nil {
		return
	}
	one.records = have.records.copyOf()
	if one.Kind.straight() {
		one.records = have.records // requests in progress read entries of the new view, which may be in forms that are new
		if !have.Kind.sameForm(one.Kind) {
			one.records.foreign.Store(true)
		}
	}
	if c.showsAs(have, one) {
		one.Cache, one.stale, one.expiry, one.records, one.reader = have.Cache, have.stale, have.expiry, have.records, have.reader
	}
	for _, form := range c.added {
		if form.stored == one {
			form.stale, form.records = one.stale, one.records
		}
	}
}

// before returns the stored form whose objects an added stored form shows from now on. It is nil if
// there is none.
func (c *change) before(one *Served) *Served {
	if f, ok := c.from.families.get(one.Kind.StorageName); ok {
		return f.base
	}
	return nil
}

// forms lists the added forms of an added stored kind.
func (c *change) forms(base *Served) []*Served {
	return slices.DeleteFunc(slices.Clone(c.added), func(one *Served) bool { return one.stored != base })
}

// showsAs reports whether a stored form can take over the live view of the one it replaces. Entries
// of a straight kind say which form they are in, so there every form counts, and not which is stored.
func (c *change) showsAs(have, one *Served) bool {
	if !one.Kind.straight() {
		return have.Kind.showsAs(one.Kind)
	}
	if !slices.Equal(have.fields.names, one.fields.names) || have.Kind.Writes.TTL != one.Kind.Writes.TTL {
		return false
	}
	forms := c.forms(one)
	return !slices.ContainsFunc(*have.records.known.Load(), func(form *Kind) bool {
		return slices.ContainsFunc(forms, func(next *Served) bool {
			return next.Kind.sameForm(form) && next.Kind.fingerprint != form.fingerprint
		})
	})
}

// showsAs reports whether two kinds can share a live view: records mean the same in both, and both
// know the same facts about them.
func (r *Kind) showsAs(by *Kind) bool {
	return r.fingerprint == by.fingerprint && slices.Equal(r.Selectable, by.Selectable) && len(r.Computed) == 0 && len(by.Computed) == 0 &&
		r.Writes.TTL == by.Writes.TTL
}

// loadAll reads the objects of the added kinds from the store, of several kinds at a time.
func (c *change) loadAll(ctx context.Context) error {
	var views []*loading
	for _, one := range c.added {
		if one.stored != one || one.Kind.Virtual != nil || one.Cache != nil {
			continue
		}
		if err := c.prepare(one); err != nil {
			return fmt.Errorf("load %s: %w", one.Kind.GroupResource(), err)
		}
		views = append(views, &loading{of: one, again: c.before(one) != nil})
	}
	failed := c.engine.loadViews(ctx, views)
	for _, v := range views { // also after a failure, so that abandon knows what there is
		switch {
		case v.swap != nil:
			v.of.Cache, c.swaps = v.swap.Cache(), append(c.swaps, v.swap)
		case v.cache != nil:
			v.of.Cache = v.cache
			c.loaded, c.fresh = append(c.loaded, v.of.Kind.StorageName), append(c.fresh, v.of)
		}
	}
	for _, one := range c.added {
		if one.stored == one {
			continue
		}
		if one.Cache = one.stored.Cache; c.replaces[one] == nil {
			c.fresh = append(c.fresh, one)
		}
	}
	return failed
}

// prepare makes what has to be there before the objects of a kind are read.
func (c *change) prepare(one *Served) error {
	if ttl := one.Kind.Writes.TTL; ttl > 0 {
		one.expiry = newExpiry(ttl)
	}
	for _, o := range c.engine.observations {
		if err := c.engine.observe(one, o); err != nil {
			return err
		}
	}
	return nil
}

// loading is a live view that is being filled.
type loading struct {
	of    *Served
	again bool // it is to take the place of another one

	cache *watch.Cache // nil if the view could not be filled, or is the one of swap
	swap  *watch.Replacement
}

func (l *loading) load(ctx context.Context, e *Engine) (err error) {
	defer guard.RecoverAs(&err, "reading the objects of a kind", status.Internal)
	if l.again {
		l.swap, err = e.dispatcher.Replace(ctx, e.cacheConfig(l.of))
	} else {
		l.cache, err = e.dispatcher.Add(ctx, e.cacheConfig(l.of))
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", l.of.Kind.GroupResource(), err)
	}
	return nil
}

// loadViews fills live views, as many at a time as there are processors. The first failure ends it.
func (e *Engine) loadViews(ctx context.Context, views []*loading) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(views)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(views); i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					return
				}
				if err := views[i].load(ctx, e); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// abandon undoes what load has begun.
func (c *change) abandon() {
	for _, swap := range c.swaps {
		swap.Cancel()
	}
	for _, name := range c.loaded {
		c.engine.dispatcher.Remove(name)
	}
	for _, f := range c.forgotten {
		f.from.learn(f.form)
	}
}

// publish makes the next set the one that is served.
func (c *change) publish() {
	e := c.engine
	for one, rules := range c.rules {
		one.ownership.rules.Store(rules)
	}
	for _, swap := range c.swaps {
		swap.Swap()
	}
	for _, one := range c.added {
		if one.reader != nil {
			one.reader.Store(one) // and the view lets go of the one before
		}
	}
	e.set.Store(c.edit.done())
	e.renewal.announce()
	for _, one := range c.leaving {
		one.leave()
		if one.unlead != nil {
			one.unlead()
		}
	}
	for _, one := range c.added {
		if one.Cache != nil {
			e.follow(e.lifetime, one)
		}
	}
	for _, one := range c.gone {
		if one.Cache != nil && one.stored == one {
			e.dispatcher.Remove(one.Kind.StorageName)
		}
	}
}

// selectable lists the fields that the live view knows of each object.
func (s *Served) selectable() []string {
	if s.Kind.straight() {
		return s.fields.names
	}
	return s.Kind.Selectable
}

// cacheConfig describes a resource to the dispatcher.
func (e *Engine) cacheConfig(s *Served) watch.CacheConfig {
	s.reader = &atomic.Pointer[Served]{}
	s.reader.Store(s)
	return watch.CacheConfig{
		StorageName: s.Kind.StorageName,
		Fields:      s.selectable(),
		LogAge:      e.cfg.History,
		LogBytes:    e.cfg.LogBytes,
		Logger:      e.cfg.Logger.WithValues("resource", s.Kind.GroupResource().String()),
		Decode:      e.decoder(s.reader),
		DecodeAll:   e.pageDecoder(s.reader),
	}
}

// Loader is a gate that inspects resources before they are served.
type Loader interface {
	// Loaded receives the resources whose objects have been loaded and which are about to be
	// served. Some of these objects may remain from namespaces that were deleted while the kind was
	// not served. Engine.Sweep deletes them before a client sees them.
	Loaded(ctx context.Context, e *Engine, added []*Served)
}
