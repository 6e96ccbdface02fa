package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// controllerUser is who changes namespaces on the server's own behalf, as admission and logs see it.
var controllerUser = authn.User{Name: "system:namespace-controller", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// createInitial makes the namespaces that every server has.
func (n *namespaces) createInitial(ctx context.Context, o registry.Objects) error {
	ctx = authn.WithUser(ctx, controllerUser)
	for _, name := range n.initial {
		_, err := registry.From[Namespace](o).Create(ctx, &Namespace{ObjectMeta: meta.Named("", name)})
		if err != nil && !status.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %q: %w", name, err)
		}
	}
	return nil
}

// maxDraining bounds how many namespaces delete their content at the same moment; those that wait for someone else's
// finalizers do not count.
const maxDraining = 8

// terminate empties and removes namespaces that are being deleted, until ctx ends, and deletes what those have left that went
// by another way. It follows the namespaces by a watch; one that was ending when the server stopped is taken up again at the
// start.
func (n *namespaces) terminate(ctx context.Context, o registry.Objects) {
	e := o.(*engine.Engine) //nolint:forcetypeassert // what a server gives to hooks; this one needs more of it than users do
	ctx = authn.WithUser(ctx, controllerUser)
	t := &terminator{engine: e, unchecked: n.unchecked, slots: make(chan struct{}, maxDraining), busy: map[string]*errand{}}
	defer t.workers.Wait()
	t.workers.Go(func() {
		for ctx.Err() == nil {
			renewed := e.Renewed()
			t.buryAll(ctx) // a kind that has just come may have found no time for it
			select {
			case <-renewed:
			case <-ctx.Done():
			}
		}
	})
	for ctx.Err() == nil {
		if err := t.follow(ctx); err != nil && ctx.Err() == nil {
			e.Logger().Error(err, "the namespaces cannot be followed; starting over")
			pause(ctx, firstRetry)
		}
	}
}

// terminator is the state of terminate.
type terminator struct {
	engine    *engine.Engine
	unchecked bool // objects may be created where no namespace is
	slots     chan struct{}
	workers   sync.WaitGroup

	mu   sync.Mutex
	busy map[string]*errand // what has a worker
}

// errand is what a worker does. again says that something happened meanwhile that it may not have seen.
type errand struct{ again bool }

// start gives an errand a worker; one that is at it already does it once more when it is done.
func (t *terminator) start(name string, run func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running, ok := t.busy[name]; ok {
		running.again = true
		return
	}
	mine := &errand{}
	t.busy[name] = mine
	more := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !mine.again {
			delete(t.busy, name)
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

func (t *terminator) follow(ctx context.Context) error {
	for event, err := range t.engine.Watch(ctx, registry.Target{Resource: namespaceResource}, registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		switch ns := event.Entry; event.Type {
		case meta.Bookmark:
			t.buryAll(ctx) // what goes from now on is among the events
		case meta.Added, meta.Modified:
			if ns.Facts().Deleted != nil {
				t.start("end "+string(ns.Facts().UID), func() { t.end(ctx, ns) })
			}
		case meta.Deleted:
			t.bury(ctx, ns.Facts().Name)
		}
	}
	return nil
}

// end deletes what is in the namespace until nothing is left, then lets it go. It ends early when the namespace is gone or
// held by somebody else's finalizer alone: removing that is an update, which the watch sees.
func (t *terminator) end(ctx context.Context, ns *watch.Entry) {
	wait := firstRetry
	for ctx.Err() == nil {
		renewed, set := t.engine.Renewed(), t.engine.Set()
		found := t.drain(ctx, ns, set)
		if ctx.Err() != nil {
			return
		}
		if found.clean() && t.engine.Set().Generation() != set.Generation() {
			continue // a kind has come, perhaps with objects in this namespace
		}
		over, err := t.conclude(ctx, ns, found)
		switch {
		case over || ctx.Err() != nil:
			return
		case err != nil:
			t.engine.Logger().Error(err, "the state of an ending namespace could not be stored; trying again", "namespace", ns.Facts().Name)
		case !found.broken():
			wait = firstRetry
			t.awaitChange(ctx, ns, found, renewed)
			continue
		}
		for resource, failure := range found.failed {
			t.engine.Logger().Error(failure, "the content of an ending namespace could not be deleted; trying again", "namespace", ns.Facts().Name, "resource", resource.String())
		}
		pause(ctx, wait)
		wait = min(2*wait, maxRetry)
	}
}

// conclude stores what a round came to, and lets an empty namespace go. over says that nothing is left to do.
func (t *terminator) conclude(ctx context.Context, ns *watch.Entry, found *round) (over bool, err error) {
	now, err := t.update(ctx, ns, "status", func(obj *Namespace) {
		next := found.conditions(obj.Status.Conditions, meta.NewTime(t.engine.Now()))
		passing := found.clean() && len(obj.Status.Conditions) == 0 && len(obj.Finalizers) == 0 && slices.Equal(obj.Spec.Finalizers, []string{FinalizerKubernetes})
		if passing || sameConditions(obj.Status.Conditions, next) {
			return // nobody would read in the next moment that all is well
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

// update changes a namespace through a subresource. The namespace is nil when it is gone.
func (t *terminator) update(ctx context.Context, ns *watch.Entry, subresource string, change func(*Namespace)) (*Namespace, error) {
	namespaces := registry.From[Namespace](t.engine).Sub(subresource)
	now, err := namespaces.Modify(ctx, "", ns.Facts().Name, func(obj *Namespace) error {
		if obj.UID != ns.Facts().UID {
			return errSuccessor
		}
		change(obj)
		return nil
	})
	if status.IsNotFound(err) || errors.Is(err, errSuccessor) {
		return nil, nil
	}
	return now, err
}

// errSuccessor says that a namespace is gone and that another one has its name.
var errSuccessor = errors.New("another namespace has the name")

// drain deletes the objects in the namespace, kinds of a lower turn first, and tells what is still there: objects that
// finalizers or a grace period hold.
func (t *terminator) drain(ctx context.Context, ns *watch.Entry, set *engine.Set) *round {
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
		t.drainKind(ctx, ns, served.Resource, found)
	}
	return found
}

// contents returns the resources whose objects are in namespaces, each once, in the order in which they go.
func contents(set *engine.Set) []*engine.Served {
	var out []*engine.Served
	for served := range set.Stored() { // also those of which clients see another form alone
		if !served.Resource.ClusterScoped {
			out = append(out, served)
		}
	}
	slices.SortFunc(out, func(a, b *engine.Served) int { // of one turn by name, so that every server does it alike
		return cmp.Or(
			cmp.Compare(a.Resource.Deletion.Turn, b.Resource.Deletion.Turn),
			strings.Compare(a.Resource.Group, b.Resource.Group),
			strings.Compare(a.Resource.Plural, b.Resource.Plural),
		)
	})
	return out
}

func (t *terminator) drainKind(ctx context.Context, ns *watch.Entry, r *registry.Resource, found *round) {
	target := registry.Target{Resource: r.GroupVersionResource(), Namespace: ns.Facts().Name}
	list, err := t.engine.List(ctx, target, registry.ListRequest{MetadataOnly: true})
	if status.IsNotFound(err) {
		return // the resource was removed from the server meanwhile
	}
	exists := false
	if err == nil {
		exists, err = t.exists(ctx, ns) // or what was listed may belong to another namespace of the name
	}
	if exists {
		err = t.drainObjects(ctx, target, list.Items, found)
	}
	if err != nil {
		found.unread[r.GroupResource()] = err
	}
}

// What is deleted at the same time: of a few objects one after the other, of many several, whose commits share a sync.
const (
	oneByOne = 16
	drainers = 8
)

func (t *terminator) drainObjects(ctx context.Context, target registry.Target, objects iter.Seq2[*watch.Entry, error], found *round) error {
	var running sync.WaitGroup
	defer running.Wait()
	entries := make(chan *watch.Entry)
	defer close(entries)
	n := 0
	for entry, err := range objects {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if n++; n <= oneByOne {
			t.drainObject(ctx, target, entry, found)
			continue
		}
		if n <= oneByOne+drainers {
			running.Go(func() {
				for entry := range entries {
					t.drainObject(ctx, target, entry, found)
				}
			})
		}
		entries <- entry
	}
	return nil
}

// exists tells whether this namespace is there, and not a later one of its name.
func (t *terminator) exists(ctx context.Context, ns *watch.Entry) (bool, error) {
	now, err := t.engine.Get(ctx, registry.Target{Resource: namespaceResource, Name: ns.Facts().Name}, registry.ListRequest{})
	if status.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.Facts().UID == ns.Facts().UID, err
}

// drainObject deletes one object. One that is marked already is left to whoever holds it, unless that is the policy of an
// earlier deletion: at the end of a namespace nothing is kept for a dependent.
func (t *terminator) drainObject(ctx context.Context, target registry.Target, entry *watch.Entry, found *round) {
	target.Name = entry.Facts().Name
	marked, err := entry.Facts().Deleted != nil, error(nil)
	if !marked || slices.ContainsFunc(finalizers(entry), isPolicy) {
		o := registry.DeleteOptions{UID: entry.Facts().UID, Propagation: meta.DeletePropagationBackground, MetadataOnly: true}
		var result *registry.Result
		err = t.guarded(func() (err error) {
			result, err = t.engine.Delete(ctx, target, o)
			return err
		})
		if status.IsNotFound(err) || err == nil && result.Removed {
			return
		}
		if err == nil {
			entry = result.Entry
		}
	}
	found.remains(target.Resource, finalizers(entry), err)
}

// guarded runs what calls rules of users where no request is there to catch their panics (ERR-25).
func (t *terminator) guarded(run func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			t.engine.Logger().Error(fmt.Errorf("panic: %v", v), "a rule failed at the end of a namespace", "stack", string(debug.Stack()))
			err = status.Internal(errors.New("a rule panicked at the end of a namespace"))
		}
	}()
	return run()
}

func isPolicy(finalizer string) bool {
	return finalizer == registry.FinalizerOrphan || finalizer == registry.FinalizerForeground
}

// finalizers returns those of an object. One that cannot be read has none that could be named.
func finalizers(entry *watch.Entry) []string {
	var obj struct {
		Metadata meta.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(entry.AppendJSON(nil), &obj); err != nil {
		return nil
	}
	return obj.Metadata.Finalizers
}

// awaitChange blocks until an object of a resource that still has content in the namespace changes or goes, a kind comes or
// goes, or ctx ends.
func (t *terminator) awaitChange(ctx context.Context, ns *watch.Entry, found *round, renewed <-chan struct{}) {
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
	target := registry.Target{Resource: found.awaiting, Namespace: ns.Facts().Name}
	seen := 0
	for event, err := range t.engine.Watch(ctx, target, registry.WatchRequest{}) {
		switch {
		case err != nil:
			pause(ctx, firstRetry)
			return
		case event.Type == meta.Bookmark:
			if seen < found.left[found.awaiting.GroupResource()] {
				return // some went between the count and this watch
			}
		case event.Type != meta.Added:
			return
		default:
			seen++
		}
	}
}

// buryAll looks after all namespaces that went and may have left something.
func (t *terminator) buryAll(ctx context.Context) {
	for ctx.Err() == nil {
		err := eachGrave(ctx, t.engine.Store(), func(namespace string, _ storage.Revision) { t.bury(ctx, namespace) })
		if err == nil || ctx.Err() != nil {
			return // a server that stops has nothing to complain about
		}
		t.engine.Logger().Error(err, "the namespaces that are gone could not be read; trying again")
		pause(ctx, firstRetry)
	}
}

// bury sees to it that a namespace that is gone leaves nothing behind: somebody may have taken its finalizers off before it
// was empty, or a kind may have come with objects in it in the moment that it went.
func (t *terminator) bury(ctx context.Context, namespace string) {
	t.start("bury "+namespace, func() {
		for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, maxRetry) {
			err := t.sweep(ctx, namespace)
			if err == nil || ctx.Err() != nil {
				return
			}
			t.engine.Logger().Error(err, "what a namespace left behind could not be deleted; trying again", "namespace", namespace)
			pause(ctx, wait)
		}
	})
}

// sweep deletes what a namespace that is gone has left of the kinds that are served, and forgets it when the store has nothing
// else of it. What kinds have left that are not served stays until they come.
func (t *terminator) sweep(ctx context.Context, namespace string) error {
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
		for _, s := range contents(t.engine.Set()) {
			if err := t.guarded(func() error { return t.engine.Sweep(ctx, s, namespace, tombstone.Revision) }); err != nil {
				return fmt.Errorf("%s: %w", s.Resource.GroupResource(), err)
			}
			served[s.Resource.StorageName] = true
		}
		if t.survived(namespace, tombstone.Revision) {
			again, err := t.dig(ctx, namespace, tombstone.Revision)
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

// survived tells whether something in the namespace was written after its tombstone that nobody has deleted yet: it was changed before it could
// be, or it belongs to a later namespace of the name.
func (t *terminator) survived(namespace string, tombstone storage.Revision) bool {
	for _, s := range contents(t.engine.Set()) {
		for entry := range s.Cache.Snapshot().Ascend(storage.NamespacePrefix(s.Resource.StorageName, namespace), "") {
			if entry.Revision() >= tombstone && !entry.Deleting() {
				return true
			}
		}
	}
	return false
}

// dig makes the tombstone anew if no namespace has the name: nothing can have been created since the last one went, so that whatever was written
// before the new tombstone belonged to that. It reports whether it is worth sweeping again.
func (t *terminator) dig(ctx context.Context, namespace string, tombstone storage.Revision) (bool, error) {
	if t.unchecked {
		return false, nil
	}
	_, err := t.engine.Store().Commit(ctx, []storage.Op{
		storage.Check(phaseKey(namespace), storage.Absent), storage.Put(tombstoneKey(namespace), []byte(namespace), storage.Expect(tombstone)),
	})
	var lost *storage.ConflictError
	if errors.As(err, &lost) {
		return lost.Key == tombstoneKey(namespace), nil
	}
	return err == nil, err
}

// unserved tells whether the store has something in the namespace that belongs to none of the kinds that are served. It reads
// one record per kind that the store has objects of, and one for each that is not served.
func (t *terminator) unserved(ctx context.Context, namespace string, served map[string]bool) (bool, error) {
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
