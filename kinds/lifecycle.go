package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// controllerUser is who changes namespaces on the server's own behalf, as admission and logs see it.
var controllerUser = authn.User{Name: "system:namespace-controller", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// createInitial makes the namespaces that every server has.
func (n *namespaces) createInitial(ctx context.Context, e *registry.Engine) error {
	ctx = authn.WithUser(ctx, controllerUser)
	for _, name := range n.initial {
		body, err := json.Marshal(Namespace{ObjectMeta: meta.Named("", name)})
		if err != nil {
			return err
		}
		_, err = e.Create(ctx, registry.Target{Resource: namespaceResource}, body, registry.WriteOptions{})
		if err != nil && !status.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %q: %w", name, err)
		}
	}
	return nil
}

// maxDraining bounds how many namespaces delete their content at the same moment; those that wait for someone else's
// finalizers do not count.
const maxDraining = 8

// terminate empties and removes namespaces that are being deleted, until ctx ends. It follows the namespaces by a watch;
// one that was ending when the server stopped is taken up again at the start.
func terminate(ctx context.Context, e *registry.Engine) {
	ctx = authn.WithUser(ctx, controllerUser)
	t := &terminator{engine: e, slots: make(chan struct{}, maxDraining), busy: map[meta.UID]bool{}}
	defer t.workers.Wait()
	for ctx.Err() == nil {
		if err := t.follow(ctx); err != nil && ctx.Err() == nil {
			e.Logger().Error(err, "the namespaces cannot be followed; starting over")
			pause(ctx)
		}
	}
}

// terminator is the state of terminate.
type terminator struct {
	engine  *registry.Engine
	slots   chan struct{}
	workers sync.WaitGroup

	mu   sync.Mutex
	busy map[meta.UID]bool // namespaces that have a worker
}

func (t *terminator) follow(ctx context.Context) error {
	cursor, _, err := t.engine.Watch(ctx, registry.Target{Resource: namespaceResource}, registry.WatchRequest{})
	if err != nil {
		return err
	}
	defer cursor.Close()
	var events []watch.Event
	for {
		if events, err = cursor.Next(ctx, events[:0]); err != nil {
			return err
		}
		for _, event := range events {
			if (event.Type == meta.Added || event.Type == meta.Modified) && event.Entry.Facts().Deleted != nil {
				t.start(ctx, event.Entry)
			}
		}
	}
}

// start gives an ending namespace its worker, unless it has one.
func (t *terminator) start(ctx context.Context, ns *watch.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[ns.Facts().UID] {
		return
	}
	t.busy[ns.Facts().UID] = true
	t.workers.Go(func() {
		defer func() {
			t.mu.Lock()
			delete(t.busy, ns.Facts().UID)
			t.mu.Unlock()
		}()
		t.work(ctx, ns)
	})
}

// work deletes what is in the namespace until nothing is left, then lets it go. It ends early when the namespace is gone or
// held by somebody else's finalizer: removing that is an update, which the watch sees.
func (t *terminator) work(ctx context.Context, ns *watch.Entry) {
	for ctx.Err() == nil {
		left, failure := t.drain(ctx, ns)
		if ctx.Err() != nil {
			return
		}
		if failure == nil && len(left) == 0 {
			err := t.finalize(ctx, ns)
			if err == nil || status.IsNotFound(err) || status.IsConflict(err) {
				return
			}
			failure = err
		}
		if err := t.report(ctx, ns, left, failure); err != nil && ctx.Err() == nil && !status.IsNotFound(err) {
			t.engine.Logger().Error(err, "the state of an ending namespace could not be stored", "namespace", ns.Facts().Name)
		}
		if failure != nil {
			t.engine.Logger().Error(failure, "a namespace could not be emptied; trying again", "namespace", ns.Facts().Name)
			pause(ctx)
			continue
		}
		t.awaitChange(ctx, ns, left[0])
	}
}

// remains says how much of one resource is left in a namespace.
type remains struct {
	resource   meta.GroupVersionResource
	count      int
	finalizers []string // sorted, each once
}

// drain deletes all objects in the namespace and returns what is still there: objects that finalizers hold.
func (t *terminator) drain(ctx context.Context, ns *watch.Entry) ([]remains, error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var left []remains
	for _, served := range t.engine.Set().All() {
		r := served.Resource
		if r.ClusterScoped || r.Virtual != nil {
			continue
		}
		target := registry.Target{Resource: r.GroupVersionResource(), Namespace: ns.Facts().Name}
		if _, err := t.engine.DeleteCollection(ctx, target, registry.ListRequest{}, registry.DeleteOptions{}); err != nil {
			if status.IsNotFound(err) {
				continue // the resource was removed from the server meanwhile
			}
			return left, fmt.Errorf("delete the %s: %w", r.GroupResource(), err)
		}
		found, err := t.engine.List(ctx, target, registry.ListRequest{})
		if err != nil {
			return left, fmt.Errorf("list the %s: %w", r.GroupResource(), err)
		}
		rest := remains{resource: r.GroupVersionResource()}
		for entry := range found.Items {
			rest.count++
			rest.note(entry)
		}
		if rest.count > 0 {
			left = append(left, rest)
		}
	}
	return left, nil
}

// note adds the finalizers of an object. An object that cannot be read has none that could be named.
func (r *remains) note(entry *watch.Entry) {
	var obj struct {
		Metadata meta.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(entry.AppendJSON(nil), &obj); err != nil {
		return
	}
	for _, f := range obj.Metadata.Finalizers {
		if i, found := slices.BinarySearch(r.finalizers, f); !found {
			r.finalizers = slices.Insert(r.finalizers, i, f)
		}
	}
}

// finalize takes the built-in finalizer off, which removes the namespace unless other finalizers hold it (NS-06).
func (t *terminator) finalize(ctx context.Context, ns *watch.Entry) error {
	target := registry.Target{Resource: namespaceResource, Name: ns.Facts().Name}
	now, err := t.engine.Get(ctx, target, registry.ListRequest{})
	if err != nil {
		return err
	}
	if now.Facts().UID != ns.Facts().UID {
		return nil
	}
	var obj Namespace
	if err := json.Unmarshal(now.AppendJSON(nil), &obj); err != nil {
		return err
	}
	obj.Spec.Finalizers = slices.DeleteFunc(obj.Spec.Finalizers, func(f string) bool { return f == FinalizerKubernetes })
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	target.Subresource = "finalize"
	_, err = t.engine.Update(ctx, target, body, registry.WriteOptions{}, nil)
	return err
}

// report stores why the namespace is still there (NS-09).
func (t *terminator) report(ctx context.Context, ns *watch.Entry, left []remains, failure error) error {
	target := registry.Target{Resource: namespaceResource, Name: ns.Facts().Name}
	now, err := t.engine.Get(ctx, target, registry.ListRequest{})
	if err != nil {
		return err
	}
	if now.Facts().UID != ns.Facts().UID {
		return nil
	}
	var obj Namespace
	if err := json.Unmarshal(now.AppendJSON(nil), &obj); err != nil {
		return err
	}
	obj.Status.Conditions = conditions(obj.Status.Conditions, left, failure, meta.NewTime(t.engine.Now()))
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	target.Subresource = "status"
	_, err = t.engine.Update(ctx, target, body, registry.WriteOptions{}, nil)
	if status.IsConflict(err) {
		return nil // the change that was faster brings the worker back here
	}
	return err
}

// conditions returns the conditions of an ending namespace; one that has not changed keeps its time.
func conditions(before []NamespaceCondition, left []remains, failure error, now meta.Time) []NamespaceCondition {
	content, held := []string{}, []string{}
	for _, r := range left {
		content = append(content, fmt.Sprintf("%d %s", r.count, r.resource.GroupResource()))
		for _, f := range r.finalizers {
			held = append(held, fmt.Sprintf("%s in %s", f, r.resource.GroupResource()))
		}
	}
	out := []NamespaceCondition{
		{Type: "NamespaceDeletionDiscoveryFailure", Status: "False", Reason: "ResourcesDiscovered", Message: "the kinds to be deleted are known"},
		{Type: "NamespaceDeletionGroupVersionParsingFailure", Status: "False", Reason: "ParsedGroupVersions", Message: "the versions of all kinds are known"},
		condition("NamespaceDeletionContentFailure", failure != nil, "ContentDeletionFailed", "some content could not be deleted; the server's log says why", "ContentDeleted", "no deletion has failed"),
		condition("NamespaceContentRemaining", len(content) > 0, "SomeResourcesRemain", "still there: "+strings.Join(content, ", "), "ContentRemoved", "nothing is left"),
		condition("NamespaceFinalizersRemaining", len(held) > 0, "SomeFinalizersRemain", "content is held by finalizers: "+strings.Join(held, ", "), "ContentHasNoFinalizers", "no finalizer holds content"),
	}
	for i := range out {
		out[i].LastTransitionTime = now
		for _, b := range before {
			if b.Type == out[i].Type && b.Status == out[i].Status {
				out[i].LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	return out
}

func condition(kind string, is bool, reason, message, reasonNot, messageNot string) NamespaceCondition {
	if is {
		return NamespaceCondition{Type: kind, Status: "True", Reason: reason, Message: message}
	}
	return NamespaceCondition{Type: kind, Status: "False", Reason: reasonNot, Message: messageNot}
}

// awaitChange blocks until an object of the resource that still has content in the namespace changes or goes, the
// resource is removed from the server, or ctx ends.
func (t *terminator) awaitChange(ctx context.Context, ns *watch.Entry, rest remains) {
	target := registry.Target{Resource: rest.resource, Namespace: ns.Facts().Name}
	cursor, _, err := t.engine.Watch(ctx, target, registry.WatchRequest{})
	if err != nil {
		pause(ctx)
		return
	}
	defer cursor.Close()
	var events []watch.Event
	for seen := 0; ; {
		if events, err = cursor.Next(ctx, events[:0]); err != nil {
			return
		}
		for _, event := range events {
			if event.Type == meta.Bookmark {
				if seen < rest.count {
					return // some went between the count and this watch
				}
				continue
			}
			seen++
			if event.Type != meta.Added {
				return
			}
		}
	}
}
