package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/watch"
)

// Install adds resources to a started engine: their objects are loaded, then all of them appear at once. On an error
// none of them does. One that is kept although clients cannot ask for it is served again.
func (e *Engine) Install(ctx context.Context, resources ...*registry.Resource) error {
	return e.Change(ctx, nil, resources)
}

// Remove takes resources out of a started engine; their watches end. What is stored stays stored, and is served again
// when the resource is installed again. Unknown names are ignored.
func (e *Engine) Remove(gone ...meta.GroupResource) {
	remove := make([]meta.GroupVersionResource, len(gone))
	for i, g := range gone {
		remove[i] = meta.GroupVersionResource{Group: g.Group, Resource: g.Resource}
	}
	e.RemoveVersions(remove...)
}

// RemoveVersions stops serving versions of resources: clients get 404, their watches end, and discovery no longer names
// them. The objects stay where they are. While another version of the same objects is served, what is stored in a removed
// version is still read and written through that one, and still ends with its namespace; a resource whose last version is
// removed is removed as by Remove. Unknown names are ignored.
//
// A version is served again when its description is given to Install again.
func (e *Engine) RemoveVersions(gone ...meta.GroupVersionResource) {
	if err := e.Change(context.Background(), gone, nil); err != nil && e.started.Load() {
		e.cfg.Logger.Error(err, "resources could not be removed") // what is left is a part of what worked before
	}
}

// Change makes resources come, go and change in one step: what serves requests, discovery and the rules of who owns fields are
// swapped at once. On an error nothing has changed.
//
// A resource that is in both lists is replaced. Requests that are under way end with the one they began with, and nobody is told
// meanwhile that there is none. Watches end in order, and go on from the version they were at. A replacement has the scope, the
// storage name and the stored version of what it replaces; further forms of a stored kind go along with it.
//
// An entry of remove without a version is about all versions; see Remove and RemoveVersions. Unknown names are ignored.
func (e *Engine) Change(ctx context.Context, remove []meta.GroupVersionResource, add []*registry.Resource) error {
	e.changes.Lock()
	defer e.changes.Unlock()
	if e.lifetime == nil {
		return errors.New("registry: resources are installed in an engine that has started; give those that are there from the beginning to the server with Serve")
	}
	c := e.newChange()
	if err := c.plan(remove, add); err != nil {
		return err
	}
	if len(c.added) == 0 && len(c.leaving) == 0 {
		return nil
	}
	if err := c.load(ctx); err != nil {
		c.abandon()
		return err
	}
	c.publish()
	e.migrations.look()
	return nil
}

// Validate checks resources as Install would, without serving them: an error names the kind and what is wrong with it.
func (e *Engine) Validate(resources ...*registry.Resource) error {
	return e.newChange().plan(nil, resources)
}

// change is one call of Change on its way.
type change struct {
	engine *Engine
	from   *Set
	edit   *setEdit

	added    []*Served           // stored forms before their other forms
	replaces map[*Served]*Served // what was served in the place of one that is added
	leaving  []*Served           // what clients can no longer ask for as it is
	gone     []*Served           // those of leaving of which nothing is kept
	rules    map[*Served]*ownershipRules
	touched  map[string]bool // storage names of the kinds of which a form comes or goes
	swaps    []*watch.Replacement
	loaded   []string // storage names of the caches that are new
	fresh    []*Served
}

func (e *Engine) newChange() *change {
	from := e.set.Load()
	return &change{engine: e, from: from, edit: from.edit(), replaces: map[*Served]*Served{}, touched: map[string]bool{}}
}

// description is one that is about to be served.
type description struct {
	*registry.Resource
	have   *Served // what it replaces
	hidden bool
}

// plan works out the next set, without any effect.
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
	if err := c.compile(coming); err != nil {
		return err
	}
	c.withdraw(going)
	return c.own()
}

// going finds what is to be taken away, and whether that is of all versions.
func (c *change) going(remove []meta.GroupVersionResource) map[*Served]bool {
	out := map[*Served]bool{}
	for _, name := range remove {
		if m, ok := c.from.named.get(name); ok {
			out[m.Served] = out[m.Served]
			continue
		}
		if name.Version != "" {
			continue
		}
		for _, m := range c.from.named.all() {
			if m.Kind.GroupResource() == name.GroupResource() || m.Kind.base().GroupResource() == name.GroupResource() {
				out[m.Served] = true
			}
		}
	}
	return out
}

// coming lists what is to be compiled: what was given, and the other forms of stored kinds that are replaced. Stored forms come
// first.
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
			if _, goes := going[m.Served]; !goes && !m.hidden {
				return nil, fmt.Errorf("kind %s (%s): %s is served already", r.Names.Kind, r.APIVersion(), r.GroupResource())
			}
			d.have = m.Served
			d.hidden = d.hidden && !(m.hidden && m.Kind.describedBy(r))
		}
		out = append(out, d)
	}
	for _, d := range slices.Clone(out) {
		if d.have == nil || d.have.base != nil {
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
			if !ok || m.base != nil {
				return fail("the resource it is a form of is not served")
			}
			base = m.Served
		}
		var stored *Kind
		if base != nil {
			stored = base.Kind
		}
		kind, err := c.engine.compile(d.Resource, stored)
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
			c.replaces[one] = d.have
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

// irreplaceable says why a kind cannot take the place of r, "" if it can.
func (r *Kind) irreplaceable(by *Kind) string {
	switch {
	case r.ClusterScoped != by.ClusterScoped:
		return "it has another scope than the kind that it would replace"
	case (r.Virtual == nil) != (by.Virtual == nil):
		return "of it and the kind that it would replace one is stored and the other is not"
	case r.StorageName != by.StorageName:
		return fmt.Sprintf("its storage name is %q, and that of the kind that it would replace %q", by.StorageName, r.StorageName)
	case r.Virtual == nil && r.base().GroupVersionKind() != by.base().GroupVersionKind():
		return fmt.Sprintf("its objects are stored as %s, and those of the kind that it would replace as %s", by.base().GroupVersionKind(), r.base().GroupVersionKind())
	}
	return ""
}

// withdraw takes away what goes. A version of a kind is kept as long as another one is served.
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

// own makes the rules of ownership for the kinds of which a form comes or goes.
func (c *change) own() error {
	c.rules = make(map[*Served]*ownershipRules, len(c.touched))
	for name := range c.touched {
		f, ok := c.edit.families.get(name)
		if !ok {
			continue
		}
		forms := make([]*Kind, len(f.forms)) // also what is hidden: an owner is not forgotten while a version is switched off
		for i, one := range f.forms {
			forms[i] = one.Kind
		}
		rules, err := rulesOf(forms, c.engine.cfg.applyOptions())
		if err != nil {
			return fmt.Errorf("kind %s (%s): %w", f.base.Kind.Names.Kind, f.base.Kind.APIVersion(), err)
		}
		c.rules[f.base] = rules
	}
	return nil
}

// load gives what is added its live view: that of the kind that it replaces where this shows the same, else a new one.
func (c *change) load(ctx context.Context) error {
	for _, one := range c.added {
		if one.base == nil && one.Kind.Virtual == nil {
			c.inherit(one)
		}
	}
	for _, one := range c.added {
		one.records.learn(one.Kind)
	}
	for _, one := range c.added {
		if err := c.loadOne(ctx, one); err != nil {
			return fmt.Errorf("load %s: %w", one.Kind.GroupResource(), err)
		}
	}
	if gate, ok := c.engine.cfg.Gate.(Loader); ok && len(c.fresh) > 0 {
		gate.Loaded(ctx, c.engine, c.fresh)
	}
	return nil
}

// inherit hands on what is known of the records of a kind that is replaced.
func (c *change) inherit(one *Served) {
	have := c.replaces[one]
	if have == nil {
		return
	}
	one.records = have.records.copyOf()
	if have.Kind.showsAs(one.Kind) {
		one.Cache, one.stale, one.expiry, one.records = have.Cache, have.stale, have.expiry, have.records
	}
	for _, form := range c.added {
		if form.base == one {
			form.stale, form.records = one.stale, one.records
		}
	}
}

// showsAs tells whether the live view of a kind is that of another one too: the records mean the same, and the same is known of
// each.
func (r *Kind) showsAs(by *Kind) bool {
	return r.fingerprint == by.fingerprint && slices.Equal(r.Selectable, by.Selectable) && len(r.Computed) == 0 && len(by.Computed) == 0 &&
		r.Writes.TTL == by.Writes.TTL
}

func (c *change) loadOne(ctx context.Context, one *Served) error {
	e := c.engine
	switch {
	case one.base != nil:
		one.Cache = one.base.Cache // loaded before
		if c.replaces[one] == nil {
			c.fresh = append(c.fresh, one)
		}
		return nil
	case one.Kind.Virtual != nil || one.Cache != nil:
		return nil
	}
	if ttl := one.Kind.Writes.TTL; ttl > 0 {
		one.expiry = newExpiry(ttl)
	}
	for _, o := range e.observations {
		if err := e.observe(one, o); err != nil {
			return err
		}
	}
	var err error
	if c.replaces[one] != nil {
		var swap *watch.Replacement
		if swap, err = e.dispatcher.Replace(ctx, e.cacheConfig(one)); err == nil {
			one.Cache, c.swaps = swap.Cache(), append(c.swaps, swap)
		}
		return err
	}
	if one.Cache, err = e.dispatcher.Add(ctx, e.cacheConfig(one)); err == nil {
		c.loaded, c.fresh = append(c.loaded, one.Kind.StorageName), append(c.fresh, one)
	}
	return err
}

// abandon takes back what load has begun.
func (c *change) abandon() {
	for _, swap := range c.swaps {
		swap.Cancel()
	}
	for _, name := range c.loaded {
		c.engine.dispatcher.Remove(name)
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
		if one.Cache != nil && one.base == nil {
			e.dispatcher.Remove(one.Kind.StorageName)
		}
	}
}

// cacheConfig describes a resource to the dispatcher.
func (e *Engine) cacheConfig(s *Served) watch.Config {
	return watch.Config{
		StorageName: s.Kind.StorageName,
		Fields:      s.Kind.Selectable,
		LogAge:      e.cfg.History,
		LogBytes:    e.cfg.LogBytes,
		Logger:      e.cfg.Logger.WithValues("resource", s.Kind.GroupResource().String()),
		Decode:      e.decoder(s),
	}
}

// Loader is a gate that looks at what comes.
type Loader interface {
	// Loaded is told of resources whose objects have been loaded and which are about to be served. Some of these objects may
	// be left from namespaces that went while their kind was not served; Engine.Sweep deletes them before anybody sees them.
	Loaded(ctx context.Context, e *Engine, added []*Served)
}
