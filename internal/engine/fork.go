package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Fork returns an engine that goes on from where this one is, with the same resources and a copy of
// their live views, over another store; see [watch.ForkRequest] for what that must hold. It is to
// be started as one that New made. The configuration is the fork's own but for the store and the
// domain of groups, which are not looked at.
//
// Nothing is read from the store and nothing decoded: it takes microseconds, and what takes memory
// is shared until one of the two changes it. Continue tokens of either open in the other, as long
// as both have the state they name. It fails when this engine has not started or has ended.
func (e *Engine) Fork(cfg Config, store func(at storage.Revision) (*storage.Store, error)) (*Engine, error) {
	cfg.GroupDomain = e.cfg.GroupDomain
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e.changes.Lock() // no resource comes or goes meanwhile
	defer e.changes.Unlock()
	if e.lifetime == nil {
		return nil, errors.New("registry: an engine is forked while it runs; this one has not started")
	}
	f := &Engine{cfg: cfg, shapes: newShapes(), migrations: newMigrations(), messages: e.messages}
	set, served := e.Set().fork(f.shapes)
	var request watch.ForkRequest
	for s := range set.Stored() {
		if s.Cache != nil {
			request.Configs = append(request.Configs, f.cacheConfig(s))
		}
	}
	var its *storage.Store
	request.Store = func(at storage.Revision) (got *storage.Store, err error) {
		for from, to := range served { // with the live view, which stands still
			to.take(from)
		}
		its, err = store(at)
		return its, err
	}
	dispatcher, caches, err := e.dispatcher.Fork(request, watch.WithLogger(cfg.Logger), cfg.observed())
	if err != nil {
		return nil, err
	}
	f.attach(its, dispatcher)
	for _, s := range served {
		if s.Cache != nil {
			s.Cache = caches[s.Kind.StorageName]
		}
	}
	f.set.Store(set)
	f.migrations.look() // what was under way goes on
	return f, nil
}

// fork copies a set for another engine, and says which of the resources is which. Their state is
// still to be copied.
func (s *Set) fork(shapes *shapes) (*Set, map[*Served]*Served) {
	copies := map[*Served]*Served{}
	empty := &Set{generation: s.generation - 1, words: s.words}
	next := empty.edit()
	add := func(from *Served, hidden bool) {
		to := *from
		to.shelf, to.broken, to.unlead = &shelf{shapes}, &broken{}, nil
		to.present, to.leave = context.WithCancel(context.Background())
		if hidden {
			to.leave()
		}
		if to.base == nil {
			to.stale, to.ownership, to.records = &staleKeys{}, &ownership{}, from.records.copyOf()
			if to.expiry != nil {
				to.expiry = newExpiry(to.expiry.ttl)
			}
		} else {
			to.base = copies[to.base]
			to.stale, to.ownership, to.records = to.base.stale, to.base.ownership, to.base.records
		}
		copies[from] = &to
		next.add(&to, hidden)
	}
	for _, forms := range []bool{false, true} { // stored forms first
		for _, m := range s.named.all() {
			if forms == (m.base != nil) {
				add(m.Served, m.hidden)
			}
		}
	}
	return next.done(), copies
}

// take copies what is remembered of the objects of a resource. All forms of a stored one share
// that.
func (s *Served) take(from *Served) {
	if s.base != nil {
		return
	}
	s.ownership.rules.Store(from.ownership.rules.Load())
	from.stale.mu.Lock()
	s.stale.keys = maps.Clone(from.stale.keys)
	from.stale.mu.Unlock()
	if s.expiry != nil {
		s.expiry.queue = from.expiry.deadlines(time.Now())
	}
}

// deadlines copies the queue for a fork. A fork in a synctest bubble begins with a clock of its
// own: where that is behind the newest state of any object, the time that objects have left to live
// begins to pass with the fork.
func (x *expiry) deadlines(now time.Time) deadlines {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := slices.Clone(x.queue)
	var newest time.Time
	for _, d := range out {
		if d.at.After(newest) {
			newest = d.at
		}
	}
	if behind := newest.Add(-x.ttl).Sub(now); behind > 0 {
		for i := range out {
			out[i].at = out[i].at.Add(-behind)
		}
	}
	return out
}
