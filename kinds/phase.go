package kinds

import (
	"context"
	"errors"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// phaseKey is the key of a namespace's phase, stored apart from its object. It changes only when
// the namespace is created, starts terminating, or goes. Creates can therefore depend on it without
// conflicting with every label change (design rule 2).
func phaseKey(namespace string) string { return storage.SysKey("namespace", namespace) }

// tombstoneKey is the key that records a removed namespace until nothing is left of it. Every
// object in the namespace last written before this record belonged to the removed namespace, even
// if a new one has its name.
func tombstoneKey(namespace string) string { return storage.SysKey("namespace-gone", namespace) }

func phaseCompanions(old, next registry.Tree) ([]storage.Op, error) {
	switch {
	case next == nil:
		name := nameOf(old)
		return []storage.Op{storage.Delete(phaseKey(name), storage.Any), storage.Put(tombstoneKey(name), []byte(name), storage.Any)}, nil
	case old == nil:
		return []storage.Op{storage.Put(phaseKey(nameOf(next)), []byte(NamespaceActive), storage.Any)}, nil
	case ending(next) && !ending(old):
		return []storage.Op{storage.Put(phaseKey(nameOf(next)), []byte(NamespaceTerminating), storage.Any)}, nil
	}
	return nil, nil
}

func nameOf(t registry.Tree) string {
	m, _ := t["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	return name
}

func ending(t registry.Tree) bool {
	m, _ := t["metadata"].(map[string]any)
	at, _ := m["deletionTimestamp"].(string)
	return at != ""
}

// phaseGate is the admission.NamespaceGate of this package.
type phaseGate struct {
	open bool // accept objects in any namespace
}

// AdmitCreate makes a create depend on the phase of its namespace.
func (g phaseGate) AdmitCreate(ctx context.Context, store *storage.Store, resource meta.GroupResource, namespace, name string) ([]storage.Op, error) {
	if g.open {
		return nil, nil
	}
	if meta.CheckDNSLabel(namespace) != "" {
		return nil, status.NotFound(namespaceResource.GroupResource(), namespace) // not every string can be part of a key
	}
	rec, err := store.Get(ctx, phaseKey(namespace))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, status.NotFound(namespaceResource.GroupResource(), namespace)
	case err != nil:
		return nil, err
	}
	if string(rec.Value) == NamespaceTerminating {
		return nil, status.Forbidden(resource, name, "unable to create new content in namespace "+namespace+" because it is being terminated").
			WithCauses(meta.StatusCause{
				Type:    meta.CauseNamespaceTerminating,
				Message: "namespace " + namespace + " is being terminated", Field: "metadata.namespace",
			})
	}
	return []storage.Op{storage.Check(phaseKey(namespace), storage.Expect(rec.Revision))}, nil
}

// Steady implements admission.SteadyGate: the phase is all that counts.
func (phaseGate) Steady() {}

// Loaded deletes objects of newly added kinds in namespaces that went before.
func (phaseGate) Loaded(ctx context.Context, e *engine.Engine, added []*engine.Served) {
	ctx = authn.WithUser(ctx, controllerUser)
	err := eachTombstone(ctx, e.Store(), func(namespace string, rev storage.Revision) {
		for _, s := range added {
			if err := e.Sweep(ctx, s, namespace, rev); err != nil {
				e.Logger().Error(err, "failed to delete objects of a removed namespace; retrying",
					"namespace", namespace, "resource", s.Resource.GroupResource().String())
			}
		}
	})
	if err != nil {
		e.Logger().Error(err, "failed to list namespace tombstones; retrying")
	}
}

// tombstonePage is how many tombstones are read at a time.
const tombstonePage = 500

// eachTombstone calls visit for each removed namespace that may have left objects. The key says
// which, so a damaged value neither hides a namespace nor names another one.
func eachTombstone(ctx context.Context, store *storage.Store, visit func(namespace string, rev storage.Revision)) error {
	request := storage.ListRequest{Prefix: storage.SysKey("namespace-gone"), Limit: tombstonePage}
	for {
		page, err := store.List(ctx, request)
		if err != nil {
			return err
		}
		for _, rec := range page.Records {
			visit(namespaceOf(rec.Key, "namespace-gone"), rec.Revision)
			request.After = rec.Key
		}
		if !page.More {
			return nil
		}
	}
}

// namespaceOf returns the namespace that a key of this file is about.
func namespaceOf(key, of string) string {
	// Names of namespaces have no slashes.
	return strings.TrimSuffix(strings.TrimPrefix(key, storage.SysKey(of)), "/")
}

// mendPhases writes the phases anew that are missing or cannot be read, as the namespaces say.
func (t *namespaceController) mendPhases(ctx context.Context) error {
	known := map[string]storage.Record{}
	request := storage.ListRequest{Prefix: storage.SysKey("namespace"), Limit: tombstonePage}
	for more := true; more; {
		page, err := t.engine.Store().List(ctx, request)
		if err != nil {
			return err
		}
		for _, rec := range page.Records {
			known[namespaceOf(rec.Key, "namespace")] = rec
			request.After = rec.Key
		}
		more = page.More
	}
	all := registry.Target{Resource: namespaceResource}
	list, err := t.engine.List(ctx, all, registry.ListRequest{})
	if err != nil {
		return err
	}
	for entry, err := range list.Items {
		if err != nil {
			return err
		}
		rec := known[entry.Name()]
		value := string(rec.Value)
		whole := value == NamespaceActive || value == NamespaceTerminating
		if rec.Err == nil && whole || errors.Is(rec.Err, storage.ErrUnavailable) {
			continue
		}
		if err := t.mendPhase(ctx, entry, rec.Revision); err != nil {
			return err
		}
	}
	return nil
}

// mendPhase writes the phase of a namespace, unless the namespace or the phase has changed.
func (t *namespaceController) mendPhase(
	ctx context.Context, ns *watch.Entry, at storage.Revision,
) error {
	phase := NamespaceActive
	if ns.Deleting() {
		phase = NamespaceTerminating
	}
	key := phaseKey(ns.Name())
	_, err := t.engine.Store().Commit(ctx, []storage.Op{
		storage.Check(ns.Key(), storage.Expect(ns.Revision())),
		storage.Put(key, []byte(phase), storage.Expect(at)),
	})
	if _, changed := errors.AsType[*storage.ConflictError](err); changed {
		return nil // whoever was faster has written it
	}
	if err == nil {
		t.engine.Logger().Info("the stored phase of a namespace was damaged and has been written anew",
			"key", key, "phase", phase)
	}
	return err
}
