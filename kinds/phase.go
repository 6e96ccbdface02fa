package kinds

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// phaseKey is where the store keeps the phase of a namespace apart from its object. It changes only when a namespace is
// created, begins to end, and is gone, so that creations in the namespace can be made to depend on it without losing to
// every change of a label (design rule 2).
func phaseKey(namespace string) string { return storage.SysKey("namespace", namespace) }

// tombstoneKey is where the store remembers that a namespace went, until it is certain that it left nothing behind. What is in
// the namespace and was last written before that record belonged to the one that went, whatever has its name by now.
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

// phaseGate is the registry.NamespaceGate of this package.
type phaseGate struct {
	open bool // every namespace takes objects
}

// AdmitCreate looks the phase of the namespace up and makes the creation depend on it.
func (g phaseGate) AdmitCreate(ctx context.Context, store *storage.Store, r *registry.Resource, namespace, name string) ([]storage.Op, error) {
	if g.open {
		return nil, nil
	}
	if meta.CheckDNSLabel(namespace) != "" {
		return nil, status.NotFound(namespaceResource.GroupResource(), namespace) // no key can be made of every text
	}
	rec, err := store.Get(ctx, phaseKey(namespace))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, status.NotFound(namespaceResource.GroupResource(), namespace)
	case err != nil:
		return nil, err
	}
	if string(rec.Value) == NamespaceTerminating {
		return nil, status.Forbidden(r.GroupResource(), name, "unable to create new content in namespace "+namespace+" because it is being terminated").
			WithCauses(meta.StatusCause{Type: meta.CauseNamespaceTerminating, Message: "namespace " + namespace + " is being terminated", Field: "metadata.namespace"})
	}
	return []storage.Op{storage.Check(phaseKey(namespace), storage.Expect(rec.Revision))}, nil
}

// Loaded deletes what kinds that come have left in namespaces that went without them.
func (phaseGate) Loaded(ctx context.Context, e *engine.Engine, added []*engine.Served) {
	ctx = authn.WithUser(ctx, controllerUser)
	err := eachGrave(ctx, e.Store(), func(namespace string, rev storage.Revision) {
		for _, s := range added {
			if err := e.Sweep(ctx, s, namespace, rev); err != nil {
				e.Logger().Error(err, "what a namespace left behind could not be deleted; trying again", "namespace", namespace, "resource", s.Resource.GroupResource().String())
			}
		}
	})
	if err != nil {
		e.Logger().Error(err, "the namespaces that are gone could not be read; trying again")
	}
}

// gravePage is how many graves are read at a time.
const gravePage = 500

// eachGrave walks the namespaces that went and may have left something.
func eachGrave(ctx context.Context, store *storage.Store, visit func(namespace string, rev storage.Revision)) error {
	request := storage.ListRequest{Prefix: storage.SysKey("namespace-gone"), Limit: gravePage}
	for {
		page, err := store.List(ctx, request)
		if err != nil {
			return err
		}
		for _, rec := range page.Records {
			visit(string(rec.Value), rec.Revision)
			request.After = rec.Key
		}
		if !page.More {
			return nil
		}
	}
}
