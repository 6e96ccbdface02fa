package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

const (
	firstRetry = 50 * time.Millisecond

	// lookEvery is how often the controller looks whether kinds have come or gone.
	lookEvery = time.Second
)

// start makes the objects of the server's own group versions, and reads all others. From then on no
// group version of a back end seems to be missing: its requests are sent on, and its discovery is stale.
// It asks no back end, so none can delay the start.
func (a *Aggregator) start(ctx context.Context, o registry.Objects) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engine != nil {
		return errTwoServers
	}
	a.engine = o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	a.engine.SetElsewhere(a)
	front := a.front()
	for s, err := range front.List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			return err
		}
		a.services[s.Name] = s
	}
	made, err := carryOut(ctx, a.overdue(true)) // nobody else is there yet, and no webhook is asked
	for _, s := range made {
		a.services[s.Name] = s
	}
	a.decideAll()
	return err
}

func (a *Aggregator) front() registry.Front[APIService] {
	return registry.From[APIService](a.engine).AsSystem().With(registry.WriteOptions{FieldManager: "kube-aggregator"})
}

// run follows the objects until ctx ends.
func (a *Aggregator) run(ctx context.Context, _ registry.Objects) {
	defer a.workers.Wait()
	a.mu.Lock()
	a.ctx = ctx
	for _, b := range a.backends {
		b.work(ctx)
	}
	a.mu.Unlock()
	a.workers.Go(func() { a.tend(ctx) })
	for ctx.Err() == nil {
		if err := a.follow(ctx); err != nil && ctx.Err() == nil {
			a.engine.Logger().Error(err, "failed to follow the APIServices; retrying")
		}
		_ = pause.For(ctx, firstRetry)
	}
}

// tend keeps the objects of the server's own group versions while kinds come and go.
func (a *Aggregator) tend(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var seen uint64
	for {
		if now := a.engine.Set().Generation(); now != seen || a.takeUnsettled() {
			if err := a.settle(ctx); err == nil {
				seen = now
			} else if seen = 0; ctx.Err() == nil {
				a.engine.Logger().Error(err, "failed to make the APIServices of the server's own groups; retrying")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// settle brings the objects in line with the server's own kinds. Its writes pass admission, and a webhook may
// hang, so they are made without the lock: follow must go on. The watch brings what they have made.
func (a *Aggregator) settle(ctx context.Context) error {
	a.mu.Lock()
	todo := a.overdue(false)
	a.mu.Unlock()
	_, err := carryOut(ctx, todo)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decideAll()
	return err
}

// step is a write that is to be made. It returns the object if it has made one.
type step func(ctx context.Context) (*APIService, error)

// carryOut makes all writes, whatever becomes of each.
func carryOut(ctx context.Context, todo []step) (made []*APIService, err error) {
	var problems []error
	for _, one := range todo {
		s, err := one(ctx)
		if problems = append(problems, err); s != nil && err == nil {
			made = append(made, s)
		}
	}
	return made, errors.Join(problems...)
}

// takeUnsettled reports whether an object was deleted since the last call: it may have to come back.
func (a *Aggregator) takeUnsettled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.unsettled
	a.unsettled = false
	return was
}

// follow takes the changes of the objects.
func (a *Aggregator) follow(ctx context.Context) error {
	seen, synced := map[string]bool{}, false
	for event, err := range a.front().Watch(ctx, "", registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		a.mu.Lock()
		switch event.Type {
		case meta.Bookmark:
			if !synced {
				a.forgetAllBut(seen)
			}
			synced = true
		case meta.Added, meta.Modified:
			if !synced { // afterwards, deletions are events
				seen[event.Object.Name] = true
			}
			a.services[event.Object.Name] = event.Object
			a.decide(event.Object, a.served())
			a.publish()
		case meta.Deleted:
			a.forget(event.Object.Name)
			a.unsettled = true
			a.publish()
		}
		a.mu.Unlock()
	}
	return nil
}

// forgetAllBut removes what went while nobody watched.
func (a *Aggregator) forgetAllBut(seen map[string]bool) {
	for name := range a.services {
		if !seen[name] {
			a.forget(name)
		}
	}
	a.publish()
}

func (a *Aggregator) forget(name string) {
	delete(a.services, name)
	a.stop(name)
}

// stop ends the work for a back end.
func (a *Aggregator) stop(name string) {
	if b := a.backends[name]; b != nil {
		b.cancel()
		delete(a.backends, name)
	}
}

// decideAll looks at every object again, because the server's own kinds have changed. The caller holds
// mu.
func (a *Aggregator) decideAll() {
	own := a.served()
	for _, name := range slices.Sorted(maps.Keys(a.services)) {
		a.decide(a.services[name], own)
	}
	a.publish()
}

// decide starts or ends the work for an object. The caller holds mu.
func (a *Aggregator) decide(s *APIService, own map[meta.GroupVersion]*engine.Group) {
	switch {
	case s.Spec.Service == nil:
		a.stop(s.Name)
		a.note(s, local())
	case own[s.groupVersion()] != nil:
		a.stop(s.Name)
		a.note(s, APIServiceCondition{
			Type: Available, Status: "False", Reason: "ServedLocally",
			Message: fmt.Sprintf("this server serves %s itself, so service/%s in %q is not asked; remove the kinds or this APIService",
				s.groupVersion(), s.Spec.Service.Name, s.Spec.Service.Namespace),
		})
	default:
		var before *view
		if b := a.backends[s.Name]; b != nil {
			same := b.service.UID == s.UID && sameServer(&b.service.Spec, &s.Spec)
			if same && sameTrust(&b.service.Spec, &s.Spec) {
				return
			}
			if same { // a new authority changes nothing about what the server has
				before = b.now.Load()
			}
			a.stop(s.Name)
		}
		a.backends[s.Name] = a.begin(s, before)
	}
}

// sameServer reports whether two specs are about the same server.
func sameServer(a, b *APIServiceSpec) bool {
	return a.Group == b.Group && a.Version == b.Version && a.Service.Namespace == b.Service.Namespace && a.Service.Name == b.Service.Name &&
		portOf(a.Service) == portOf(b.Service)
}

// sameTrust reports whether two specs trust a server in the same way.
func sameTrust(a, b *APIServiceSpec) bool {
	return a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && bytes.Equal(a.CABundle, b.CABundle)
}

func portOf(s *ServiceReference) int32 {
	if s.Port == nil {
		return defaultPort
	}
	return *s.Port
}

// note stores a condition if it differs from the one of the object. It does so in the background: the
// caller holds mu.
func (a *Aggregator) note(s *APIService, c APIServiceCondition) {
	if have := s.condition(Available); have != nil && have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return
	}
	ctx, name, uid := a.ctx, s.Name, s.UID
	if ctx == nil {
		return // at the start; run looks again
	}
	a.workers.Go(func() { a.store(ctx, name, uid, c) })
}

// store writes a condition into the status of an object.
func (a *Aggregator) store(ctx context.Context, name string, uid meta.UID, c APIServiceCondition) {
	_, err := a.front().Sub("status").Modify(ctx, "", name, func(s *APIService) error {
		if s.UID != uid {
			return status.NotFound(meta.GroupResource{}, name)
		}
		if have := s.condition(Available); have == nil || have.Status != c.Status || have.Reason != c.Reason || have.Message != c.Message {
			s.setCondition(a.engine.Now(), c)
		}
		return nil
	})
	if err != nil && !status.IsNotFound(err) && ctx.Err() == nil {
		a.engine.Logger().Error(err, "failed to store the condition of an APIService", "name", name)
	}
}

// served returns the server's own group versions.
func (a *Aggregator) served() map[meta.GroupVersion]*engine.Group {
	out := map[meta.GroupVersion]*engine.Group{}
	for _, g := range a.engine.Set().Groups() {
		for _, v := range g.Versions {
			out[meta.GroupVersion{Group: v.Group, Version: v.Version}] = g
		}
	}
	return out
}

// overdue returns what is to be written: an object for each group version of the server, and the end of those
// of group versions that are gone: at the start all, later those that this process has served itself, because
// another process may be ahead of this one. Objects without the label AutoManaged belong to users and stay as
// they are. The caller holds mu.
func (a *Aggregator) overdue(starting bool) (todo []step) {
	own := a.served()
	for gv, g := range own {
		if gv.Group == a.group() {
			continue // as in Kubernetes, this group is always there and has no object
		}
		a.had[gv] = true
		have, want := a.services[gv.Version+"."+gv.Group], a.automatic(gv, g.Late())
		switch {
		case have == nil && (starting || g.Late()):
			todo = append(todo, func(ctx context.Context) (*APIService, error) { return a.create(ctx, want) })
		case have != nil && isManaged(have, starting):
			todo = append(todo, func(ctx context.Context) (*APIService, error) { return nil, a.correct(ctx, want, starting) })
		}
	}
	for _, s := range a.services {
		if own[s.groupVersion()] != nil || !isManaged(s, starting) || !starting && !a.had[s.groupVersion()] {
			continue
		}
		todo = append(todo, func(ctx context.Context) (*APIService, error) { return nil, a.remove(ctx, s, starting) })
	}
	return todo
}

// isManaged reports whether the server corrects an object, and deletes it with its group version.
func isManaged(s *APIService, starting bool) bool {
	label := s.Labels[AutoManaged]
	return label == always || label == onStart && starting
}

// create makes an object, nil if another process has.
func (a *Aggregator) create(ctx context.Context, s *APIService) (*APIService, error) {
	made, err := a.front().Create(ctx, s)
	if status.IsAlreadyExists(err) {
		return nil, nil
	}
	return made, err
}

// correct restores an object that the server manages. It may belong to a user by now: a webhook can hold up the
// write before for as long as it likes.
func (a *Aggregator) correct(ctx context.Context, want *APIService, starting bool) error {
	_, err := a.front().Modify(ctx, "", want.Name, func(s *APIService) error {
		if isManaged(s, starting) {
			s.Spec = want.Spec
		}
		return nil
	})
	if status.IsNotFound(err) {
		return nil
	}
	return err
}

// remove deletes an object of a group version that is gone, unless it belongs to a user by now, or the group version
// has come back.
func (a *Aggregator) remove(ctx context.Context, s *APIService, starting bool) error {
	for tried := ""; ; {
		have, err := a.front().Get(ctx, "", s.Name)
		if err == nil && have.UID == s.UID && have.ResourceVersion != tried && isManaged(have, starting) && a.served()[s.groupVersion()] == nil {
			o := registry.DeleteOptions{UID: s.UID}
			if o.ResourceVersion, err = storage.ParseRevision(have.ResourceVersion); err == nil {
				err = a.front().Delete(ctx, "", s.Name, o)
			}
			if status.IsConflict(err) { // somebody has changed it, such as a replica its condition; or a plugin says so
				tried = have.ResourceVersion
				continue
			}
		}
		if status.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// automatic is the object of a group version of the server.
func (a *Aggregator) automatic(gv meta.GroupVersion, late bool) *APIService {
	p, label := a.priorityOf(gv.Group, gv.Version, late), onStart
	if late {
		label = always
	}
	s := &APIService{Spec: APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.group, VersionPriority: p.version}}
	s.Name, s.Labels = gv.Version+"."+gv.Group, map[string]string{AutoManaged: label}
	return s
}
