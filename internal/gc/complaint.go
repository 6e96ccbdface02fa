package gc

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// maxNamespaces bounds how many namespaces are searched for an owner that is not where the
// reference says.
const maxNamespaces = 1000

// liesElsewhere reports whether the referenced owner is in a namespace other than the dependent's.
// The result only improves a message. It is determined once for each absent owner.
func (s *session) liesElsewhere(served *engine.Served, ref meta.OwnerReference) bool {
	if s.absent(ref.UID) {
		return false
	}
	prefix := storage.ResourcePrefix(served.Resource.StorageName)
	snapshot, after := served.Cache.Snapshot(), ""
	for range maxNamespaces {
		namespace := ""
		for first := range snapshot.Ascend(prefix, after) {
			namespace = first.Namespace()
			break
		}
		if namespace == "" {
			break
		}
		if e, ok := served.Cache.Get(storage.ObjectKey(served.Resource.StorageName, namespace, ref.Name)); ok && e.UID() == ref.UID {
			return true
		}
		after = storage.NamespacePrefix(served.Resource.StorageName, namespace) + "~" // greater than every byte of a name
	}
	s.miss(ref.UID)
	return false
}

// absent reports whether an owner is known to be nowhere.
func (c *Collector) absent(owner meta.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.gone.known[owner]
	return known
}

// miss records that an owner is nowhere. It is called after the search: another worker that comes to the
// same owner meanwhile must search too, or it would not tell where the owner is.
func (c *Collector) miss(owner meta.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone.add(owner)
}

// complain reports an unresolvable reference in the log and, if events are served, as an event.
func (s *session) complain(ctx context.Context, o *object, ref meta.OwnerReference, why string) {
	r, facts := o.served.Resource, o.entry.Facts()
	owner := fmt.Sprintf("%.100s %.100s %.200q with uid %.100s", ref.APIVersion, ref.Kind, ref.Name, ref.UID) // clients chose these values
	s.log.Info("An owner reference cannot be resolved.", "resource", r.GroupResource().String(),
		"namespace", facts.Namespace, "name", facts.Name, "owner", owner, "reason", why)
	events := meta.GroupVersionResource{Version: "v1", Resource: "events"}
	if _, served := s.engine.Set().Lookup(events); !served {
		return
	}
	namespace := facts.Namespace
	if namespace == "" {
		namespace = "default"
	}
	now := meta.NewTime(s.engine.Now())
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"generateName": shortened(facts.Name) + ".", "namespace": namespace},
		"involvedObject": map[string]any{
			"apiVersion": r.APIVersion(), "kind": r.Names.Kind, "namespace": facts.Namespace, "name": facts.Name,
			"uid": facts.UID, "resourceVersion": o.entry.Revision().String(),
		},
		"type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": notThere(ref, facts.Namespace),
		"source": map[string]any{"component": "garbage-collector-controller"}, "reportingComponent": "garbage-collector-controller",
		"firstTimestamp": now, "lastTimestamp": now, "count": 1,
	})
	if err == nil {
		_, err = s.engine.Create(ctx, registry.Target{Resource: events, Namespace: namespace}, body,
			registry.WriteOptions{FieldManager: manager})
	}
	if err != nil {
		s.log.V(1).Info("Failed to record an event for it.", "reason", err.Error())
	}
}

// notThere is the message of the event, in Kubernetes' words. Clients chose the values of the reference.
func notThere(ref meta.OwnerReference, namespace string) string {
	return fmt.Sprintf("ownerRef [%.100s/%.100s, namespace: %s, name: %.253s, uid: %.100s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, namespace, ref.Name, ref.UID, namespace)
}

// shortened cuts a name so that a generated suffix fits.
func shortened(name string) string {
	const most = 240
	return name[:min(len(name), most)]
}
