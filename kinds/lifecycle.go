package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// controllerUser is the user that admission and logs see when the server itself changes namespaces.
var controllerUser = authn.User{Name: "system:namespace-controller", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// createInitial creates the namespaces that every server starts with. It asks first whether they are
// there: a write could be refused by admission, and then the server would not start.
func (n *namespaces) createInitial(ctx context.Context, o registry.Objects) error {
	ctx = authn.WithUser(ctx, controllerUser)
	for _, name := range n.initial {
		_, err := registry.From[Namespace](o).Get(ctx, "", name)
		if err == nil {
			continue
		}
		_, err = registry.From[Namespace](o).Create(ctx, &Namespace{ObjectMeta: meta.Named("", name)})
		if err != nil && !status.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %q: %w", name, err)
		}
	}
	return nil
}

// maxDraining limits how many namespaces delete their contents concurrently. Namespaces that only
// wait for other controllers' finalizers do not count.
const maxDraining = 8

// terminate empties and removes terminating namespaces until ctx ends. It also deletes objects left
// in namespaces that were removed in another way. It follows namespaces by a watch, so it resumes
// terminating namespaces after a restart.
func (n *namespaces) terminate(ctx context.Context, o registry.Objects) {
	e := o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	ctx = authn.WithUser(ctx, controllerUser)
	t := &namespaceController{engine: e, unchecked: n.unchecked, slots: make(chan struct{}, maxDraining), jobs: map[string]*job{}}
	defer t.workers.Wait()
	t.workers.Go(func() {
		for ctx.Err() == nil {
			renewed := e.Renewed()
			t.sweepAll(ctx) // a kind was added: it may have objects in namespaces that are gone
			select {
			case <-renewed:
			case <-ctx.Done():
			}
		}
	})
	if err := t.mendPhases(ctx); err != nil && ctx.Err() == nil {
		e.Logger().Error(err, "failed to look at the phases of namespaces")
	}
	for ctx.Err() == nil {
		if err := t.follow(ctx); err != nil && ctx.Err() == nil {
			e.Logger().Error(err, "failed to watch namespaces; retrying")
			_ = pause.For(ctx, firstRetry)
		}
	}
}

// namespaceController is the state of terminate.
type namespaceController struct {
	engine    *engine.Engine
	unchecked bool // objects may be created in namespaces that do not exist
	slots     chan struct{}
	workers   sync.WaitGroup

	mu   sync.Mutex
	jobs map[string]*job // running jobs by name
}

// job is the work of one goroutine. again asks it to run once more because of a change that it may
// have missed.
type job struct{ again bool }

// start runs a job in the background. If it is already running, it runs again afterwards.
func (t *namespaceController) start(name string, run func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running, ok := t.jobs[name]; ok {
		running.again = true
		return
	}
	mine := &job{}
	t.jobs[name] = mine
	more := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !mine.again {
			delete(t.jobs, name)
			return false
		}
		mine.again = false
		return true
	}
	t.workers.Go(func() {
		for run(); more(); {
			run()
		}
	})
}

func (t *namespaceController) follow(ctx context.Context) error {
	for event, err := range t.engine.Watch(ctx, registry.Target{Resource: namespaceResource}, registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		switch ns := event.Entry; event.Type {
		case meta.Bookmark:
			t.sweepAll(ctx) // later deletions arrive as events
		case meta.Added, meta.Modified:
			if ns.Deleting() {
				t.start("end "+string(ns.UID()), func() { t.end(ctx, ns) })
			}
		case meta.Deleted:
			t.startSweep(ctx, ns.Name())
		}
	}
	return nil
}

// end deletes the contents of a namespace and then removes it. It returns early if the namespace is
// gone or only another controller's finalizer holds it: the watch reports the removal of that
// finalizer.
func (t *namespaceController) end(ctx context.Context, ns *watch.Entry) {
	wait := firstRetry
	for ctx.Err() == nil {
		renewed, set := t.engine.Renewed(), t.engine.Set()
		found := t.drain(ctx, ns, set)
		t.drainElsewhere(ctx, ns, found) // without a slot: it may take seconds
		if ctx.Err() != nil {
			return
		}
		if found.clean() && t.engine.Set().Generation() != set.Generation() {
			continue // a kind was added and may have objects in this namespace
		}
		over, err := t.conclude(ctx, ns, found)
		switch {
		case over || ctx.Err() != nil:
			return
		case err != nil:
			t.engine.Logger().Error(err, "failed to update a terminating namespace; retrying", "namespace", ns.Name())
		case !found.broken() && !found.afar:
			wait = firstRetry
			t.awaitChange(ctx, ns, found, renewed)
			continue
		}
		for resource, failure := range found.failed {
			t.engine.Logger().Error(failure, "failed to delete the contents of a terminating namespace; retrying",
				guard.WithStack(failure, "namespace", ns.Name(), "resource", resource.String())...)
		}
		_ = pause.For(ctx, wait)
		wait = min(2*wait, maxRetry)
	}
}

// conclude stores the conditions after a round and removes an empty namespace. over reports that
// the work is done.
func (t *namespaceController) conclude(ctx context.Context, ns *watch.Entry, found *round) (over bool, err error) {
	now, err := t.update(ctx, ns, "status", func(obj *Namespace) {
		next := found.conditions(obj.Status.Conditions, meta.NewTime(t.engine.Now()))
		passing := found.clean() && len(obj.Status.Conditions) == 0 && len(obj.Finalizers) == 0 &&
			slices.Equal(obj.Spec.Finalizers, []string{FinalizerKubernetes})
		if passing || sameConditions(obj.Status.Conditions, next) {
			return // the namespace is about to go: its conditions are not worth a write
		}
		obj.Status.Conditions = next
	})
	if now == nil || err != nil || !found.clean() {
		return now == nil && err == nil, err
	}
	_, err = t.update(ctx, ns, "finalize", func(obj *Namespace) {
		obj.Spec.Finalizers = slices.DeleteFunc(obj.Spec.Finalizers, func(f string) bool { return f == FinalizerKubernetes })
	})
	return err == nil, err // removed, unless other finalizers hold it (NS-06)
}

// update changes a namespace through a subresource. It returns nil if the namespace is gone.
func (t *namespaceController) update(ctx context.Context, ns *watch.Entry, subresource string, change func(*Namespace)) (*Namespace, error) {
	namespaces := registry.From[Namespace](t.engine).Sub(subresource)
	now, err := namespaces.Modify(ctx, "", ns.Name(), func(obj *Namespace) error {
		if obj.UID != ns.UID() {
			return errSuccessor
		}
		change(obj)
		return nil
	})
	if engine.IsGone(err) || errors.Is(err, errSuccessor) {
		return nil, nil
	}
	return now, err
}

// errSuccessor reports that the namespace is gone and a new one has its name.
var errSuccessor = errors.New("the namespace was deleted and recreated")

// drain deletes the objects in the namespace, lower turns first, and returns what remains: objects
// held by finalizers or a grace period.
func (t *namespaceController) drain(ctx context.Context, ns *watch.Entry, set *engine.Set) *round {
	found := newRound()
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return found
	}
	kinds := contents(set)
	for i, served := range kinds {
		if i > 0 && kinds[i-1].Resource.Deletion.Turn < served.Resource.Deletion.Turn && !found.clean() {
			break
		}
		t.drainKind(ctx, ns, served, found)
	}
	return found
}

// drainElsewhere deletes the objects in the namespace that other servers have.
func (t *namespaceController) drainElsewhere(ctx context.Context, ns *watch.Entry, found *round) {
	others := t.engine.Elsewhere()
	if others == nil {
		return
	}
	if exists, err := t.exists(ctx, ns); err != nil || !exists { // they could belong to a new namespace of that name
		if err != nil {
			found.failed[namespaceResource.GroupResource()] = err
		}
		return
	}
	others.Empty(ctx, ns.Name(), found.afarRemain)
}

// contents returns the namespaced resources, each once, in order of deletion.
func contents(set *engine.Set) []*engine.Served {
	var out []*engine.Served
	for served := range set.Stored() { // includes kinds that clients only see in another form
		if !served.Resource.ClusterScoped {
			out = append(out, served)
		}
	}
	slices.SortFunc(out, func(a, b *engine.Served) int { // by name within a turn, so that the order is always the same
		return cmp.Or(
			cmp.Compare(a.Resource.Deletion.Turn, b.Resource.Deletion.Turn),
			strings.Compare(a.Resource.Group, b.Resource.Group),
			strings.Compare(a.Resource.Plural, b.Resource.Plural),
		)
	})
	return out
}

func (t *namespaceController) drainKind(ctx context.Context, ns *watch.Entry, served *engine.Served, found *round) {
	r := served.Resource
	target := registry.Target{Resource: r.GroupVersionResource(), Namespace: ns.Name()}
	list, err := t.engine.List(ctx, target, registry.ListRequest{MetadataOnly: true})
	if status.IsNotFound(err) {
		return // the resource was removed meanwhile
	}
	exists := false
	if err == nil {
		exists, err = t.exists(ctx, ns) // the objects listed may belong to a new namespace of that name
	}
	if exists {
		err = cmp.Or(t.drainObjects(ctx, target, list.Items, found), unreadableIn(served, ns.Name()))
	}
	if err != nil {
		found.unread[r.GroupResource()] = err
	}
}

// unreadableIn returns an error if objects of a namespace cannot be read. They are not deleted with it,
// because nobody knows what holds them, and the namespace stays until somebody has deleted them or they can
// be read.
func unreadableIn(s *engine.Served, namespace string) error {
	prefix := storage.NamespacePrefix(s.Resource.StorageName, namespace)
	for _, one := range s.Cache.Snapshot().Unreadable(prefix) {
		_, _, name, _ := storage.SplitObjectKey(one.Key)
		return status.StoreReadError(s.Resource.GroupResource(), name, one.Err)
	}
	return nil
}

// sequentialDeletes is how many objects of a kind are deleted one after the other.
const sequentialDeletes = 16

func (t *namespaceController) drainObjects(ctx context.Context, target registry.Target, objects iter.Seq2[*watch.Entry, error], found *round) error {
	err := engine.Each(objects, sequentialDeletes, func(entry *watch.Entry) bool {
		if ctx.Err() == nil {
			t.drainObject(ctx, target, entry, found)
		}
		return ctx.Err() == nil
	})
	return cmp.Or(err, ctx.Err())
}

// exists reports whether this very namespace exists, not a later one of the same name.
func (t *namespaceController) exists(ctx context.Context, ns *watch.Entry) (bool, error) {
	now, err := t.engine.Get(ctx, registry.Target{Resource: namespaceResource, Name: ns.Name()}, registry.ListRequest{})
	if status.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.UID() == ns.UID(), err
}

// drainObject deletes one object. An object already marked for deletion is left to its finalizers,
// except for those of a propagation policy: a terminating namespace keeps nothing for dependents.
func (t *namespaceController) drainObject(ctx context.Context, target registry.Target, entry *watch.Entry, found *round) {
	target.Name = entry.Name()
	marked, err := entry.Deleting(), error(nil)
	if !marked || slices.ContainsFunc(finalizers(entry), isPolicy) {
		o := registry.DeleteOptions{UID: entry.UID(), Propagation: meta.DeletePropagationBackground, MetadataOnly: true}
		var result *registry.Result
		err = t.guarded(func() (err error) {
			result, err = t.engine.Delete(ctx, target, o)
			return err
		})
		if engine.IsGone(err) || err == nil && result.Removed {
			return
		}
		if err == nil {
			entry = result.Entry
		}
	}
	found.remains(target.Resource, finalizers(entry), err)
}

// guarded runs code that calls user-defined rules. No request is there to catch their panics
// (ERR-25).
func (t *namespaceController) guarded(run func() error) (err error) {
	defer guard.RecoverAs(&err, "a rule", status.Internal)
	return run()
}

func isPolicy(finalizer string) bool {
	return finalizer == meta.FinalizerOrphanDependents || finalizer == meta.FinalizerDeleteDependents
}

// finalizers returns the finalizers of an object, or nil if it cannot be decoded.
func finalizers(entry *watch.Entry) []string {
	var obj struct {
		Metadata meta.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(entry.AppendJSON(nil), &obj); err != nil {
		return nil
	}
	return obj.Metadata.Finalizers
}

// awaitChange blocks until an object of a resource with remaining content changes or goes, the set
// of kinds changes, or ctx ends.
func (t *namespaceController) awaitChange(ctx context.Context, ns *watch.Entry, found *round, renewed <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		select {
		case <-renewed:
			cancel()
		case <-ctx.Done():
		}
	})
	target := registry.Target{Resource: found.awaiting, Namespace: ns.Name()}
	seen := 0
	for event, err := range t.engine.Watch(ctx, target, registry.WatchRequest{}) {
		switch {
		case err != nil:
			_ = pause.For(ctx, firstRetry)
			return
		case event.Type == meta.Bookmark:
			if seen < found.left[found.awaiting.GroupResource()] {
				return // some objects went between the listing and this watch
			}
		case event.Type != meta.Added:
			return
		default:
			seen++
		}
	}
}

// sweepAll starts a sweep of every tombstone.
func (t *namespaceController) sweepAll(ctx context.Context) {
	for ctx.Err() == nil {
		err := eachTombstone(ctx, t.engine.Store(), func(namespace string, _ storage.Revision) { t.startSweep(ctx, namespace) })
		if err == nil || ctx.Err() != nil {
			return // stopping is not an error
		}
		t.engine.Logger().Error(err, "failed to list namespace tombstones; retrying")
		_ = pause.For(ctx, firstRetry)
	}
}

// startSweep deletes in the background what a removed namespace left behind. Its finalizers may
// have been removed before it was empty, or a kind may have been added with objects in it just as
// it went.
func (t *namespaceController) startSweep(ctx context.Context, namespace string) {
	t.start("sweep "+namespace, func() {
		for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, maxRetry) {
			err := t.sweep(ctx, namespace)
			if err == nil || ctx.Err() != nil {
				return
			}
			t.engine.Logger().Error(err, "failed to delete objects of a removed namespace; retrying",
				guard.WithStack(err, "namespace", namespace)...)
			_ = pause.For(ctx, wait)
		}
	})
}

// sweep deletes the objects of served kinds that a removed namespace left behind. It removes the
// tombstone once the store holds nothing else of the namespace. Objects of kinds that are not
// served stay until those kinds are added.
func (t *namespaceController) sweep(ctx context.Context, namespace string) error {
	store := t.engine.Store()
	for {
		tombstone, err := store.Get(ctx, tombstoneKey(namespace))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		served := map[string]bool{}
		unread := false
		for _, s := range contents(t.engine.Set()) {
			if err := t.guarded(func() error { return t.engine.Sweep(ctx, s, namespace, tombstone.Revision) }); err != nil {
				return fmt.Errorf("%s: %w", s.Resource.GroupResource(), err)
			}
			served[s.Resource.StorageName] = true
			unread = unread || unreadableIn(s, namespace) != nil
		}
		if unread {
			return nil // the tombstone stays for them
		}
		survived, err := t.survived(ctx, namespace, tombstone.Revision)
		if err != nil {
			return err
		}
		if survived {
			again, err := t.renewTombstone(ctx, namespace, tombstone.Revision)
			if err != nil {
				return err
			}
			if again {
				continue
			}
		}
		more, err := t.unserved(ctx, namespace, served)
		if err != nil || more {
			return err
		}
		_, err = store.Commit(ctx, []storage.Op{storage.Delete(tombstoneKey(namespace), storage.Expect(tombstone.Revision))})
		var again *storage.ConflictError
		if !errors.As(err, &again) {
			return err
		}
	}
}

// survived reports whether the namespace has an object that was written after its tombstone and is
// not being deleted. Such an object either changed before it could be deleted or belongs to a new
// namespace of that name.
func (t *namespaceController) survived(ctx context.Context, namespace string, tombstone storage.Revision) (bool, error) {
	for i, s := range contents(t.engine.Set()) {
		if i == 0 {
			if err := s.Cache.Fresh(ctx); err != nil { // all views are at the same revision
				return false, err
			}
		}
		for entry := range s.Cache.Snapshot().Ascend(storage.NamespacePrefix(s.Resource.StorageName, namespace), "") {
			if entry.Revision() >= tombstone && !entry.Deleting() {
				return true, nil
			}
		}
	}
	return false, nil
}

// renewTombstone writes the tombstone again if no namespace has the name. Nothing can have been
// created since the namespace went, so everything older than the new tombstone belonged to it. It
// reports whether to sweep again.
func (t *namespaceController) renewTombstone(ctx context.Context, namespace string, tombstone storage.Revision) (bool, error) {
	if t.unchecked {
		return false, nil
	}
	_, err := t.engine.Store().Commit(ctx, []storage.Op{
		storage.Check(phaseKey(namespace), storage.Absent),
		storage.Put(tombstoneKey(namespace), []byte(namespace), storage.Expect(tombstone)),
	})
	var lost *storage.ConflictError
	if errors.As(err, &lost) {
		return lost.Key == tombstoneKey(namespace), nil
	}
	return err == nil, err
}

// unserved reports whether the store holds objects of the namespace whose kinds are not served. It
// reads one record for each storage name, and one more for each that is not served.
func (t *namespaceController) unserved(ctx context.Context, namespace string, served map[string]bool) (bool, error) {
	for name, err := range t.engine.Store().StorageNames(ctx) {
		if err != nil {
			return false, err
		}
		if served[name] {
			continue
		}
		inside, err := t.engine.Store().List(ctx, storage.ListRequest{Prefix: storage.NamespacePrefix(name, namespace), Limit: 1})
		if err != nil || len(inside.Records) > 0 {
			return true, err
		}
	}
	return false, nil
}
