package engine

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Fork returns an engine that continues from the present state of this one, over another store. It
// has the same resources and a copy of their live views. [watch.ForkRequest] describes what the
// store must hold. Start the fork like an engine that New made. The fork has its own configuration;
// Fork ignores the store and the domain of groups in cfg.
//
// Fork reads nothing from the store and decodes nothing. It takes microseconds, and large data is
// shared until one of the two engines changes it. A continue token of either engine opens in the
// other, as long as both have the state it names. Fork returns an error if this engine has not
// started or has ended.
func (e *Engine) Fork(cfg Config, store func(at storage.Revision) (*storage.Store, error)) (*Engine, error) {
	cfg.GroupDomain = e.cfg.GroupDomain
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	defer e.holdChanges()() // no resource is added or removed meanwhile
	if e.lifetime == nil {
		return nil, errors.New("registry: an engine is forked while it runs; this one has not started")
	}
	f := &Engine{cfg: cfg, encodings: newEncodings(), migrations: newMigrations(), messages: e.messages}
	set, served := e.Set().fork(f.encodings)
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
	for s := range set.Stored() {
		f.migrations.note(s.Kind.StorageName)
	}
	f.migrations.look() // continue migrations in progress
	return f, nil
}

// fork copies a set for another engine and maps the old resources to the new ones. The caller still
// has to copy their state.
func (s *Set) fork(encodings *encodings) (*Set, map[*Served]*Served) {
	copies := map[*Served]*Served{}
	empty := &Set{generation: s.generation - 1, words: s.words}
	next := empty.edit()
	add := func(from *Served, hidden bool) {
		to := *from
		to.scope, to.flights, to.broken, to.unlead = &scope{encodings}, &flights{}, &broken{}, nil
		to.ending, to.inForce = new(atomic.Bool), new(atomic.Pointer[inForce])
		to.ending.Store(from.ending.Load())
		to.present, to.leave = context.WithCancel(context.Background())
		if hidden {
			to.leave()
		}
		if from.stored == from {
			to.stored = &to
			to.stale, to.ownership, to.records = &staleKeys{}, &ownership{}, from.records.copyOf()
			if to.expiry != nil {
				to.expiry = newExpiry(to.expiry.ttl)
			}
		} else {
			to.stored = copies[from.stored]
			to.stale, to.ownership, to.records = to.stored.stale, to.stored.ownership, to.stored.records
		}
		copies[from] = &to
		next.add(&to, hidden)
	}
	for _, forms := range []bool{false, true} { // stored forms first
		for _, m := range s.named.all() {
			if forms == (m.stored != m.Served) {
				add(m.Served, m.hidden)
			}
		}
	}
	return next.done(), copies
}

// take copies what is known about the objects of a resource. All forms of a stored resource share
// it.
func (s *Served) take(from *Served) {
	if s.stored != s {
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

// deadlines copies the queue for a fork. A fork in a synctest bubble starts with its own clock. If
// that is behind the newest state of any object, the remaining time to live of the objects counts
// from the fork.
func (x *expiry) deadlines(now time.Time) deadlines {
	x.mu.Lock()
	defer x.mu.Unlock()
	var newest time.Time
	for _, d := range x.queue.heap {
		if d.deadline.at.After(newest) {
			newest = d.deadline.at
		}
	}
	behind := max(newest.Add(-x.ttl).Sub(now), 0)
	var out deadlines
	for _, d := range x.queue.heap {
		out.set(deadline{d.deadline.at.Add(-behind), d.key, d.rev})
	}
	return out
}
