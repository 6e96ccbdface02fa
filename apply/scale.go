package apply

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// ScaleVersion is the version of Scale, the kind through which the scale subresource exposes the
// replicas of many kinds.
const ScaleVersion = "autoscaling/v1"

// ToScale returns the managedFields of a Scale, given those of the object behind it. Owners of the
// object's replicas become owners of spec.replicas of the Scale. replicas maps each version of the
// object to the path of its replicas. Entries in other versions are omitted.
func ToScale(object []any, replicas map[string]Path) ([]any, error) {
	m, err := readManagers(object)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	out := newManagers(len(m.sets))
	for id, set := range m.sets {
		path := replicas[string(set.APIVersion())]
		if len(path) == 0 || !set.Set().Has(path.elements()) {
			continue
		}
		e := m.entries[id]
		by := e.owner
		by.apiVersion = ScaleVersion
		out.own(by, fieldpath.NewSet(scaleReplicas()))
		out.stamp(by, e.time)
	}
	list, _ := out.list(nil)
	return list, nil
}

// FromScale returns the managedFields of an object after a write to its Scale, given those of both.
// Owners that the Scale no longer lists lose the object's replicas but keep their other fields.
// Owners that are new in the Scale get the replicas, in the object's version apiVersion. Entries in
// versions that are missing from replicas are dropped.
func FromScale(object, scale []any, apiVersion string, replicas map[string]Path) ([]any, error) {
	m, err := readManagers(object)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	s, err := readManagers(scale)
	if err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	path, ok := replicas[apiVersion]
	if !ok || len(path) == 0 {
		return nil, fmt.Errorf("no path to the replicas of version %s", quoted(apiVersion))
	}
	owners := map[owner]entry{} // of the Scale; the key has no apiVersion
	for id, set := range s.sets {
		if set.Set().Has(scaleReplicas()) {
			e := s.entries[id]
			e.apiVersion = ""
			owners[e.owner] = e
		}
	}
	for id, set := range m.sets {
		m.followScale(id, set, replicas, owners)
	}
	for _, e := range owners {
		by := e.owner
		by.apiVersion = apiVersion
		set := fieldpath.NewSet(path.elements())
		if had, ok := m.sets[by.id()]; ok {
			set = set.Union(had.Set())
		}
		m.own(by, set)
		m.stamp(by, e.time)
	}
	list, _ := m.list(object)
	return list, nil
}

// followScale removes the replicas from one owner of the object unless the Scale still lists that
// owner. It deletes owners that it finds from the map, so that only new ones remain.
func (m *managers) followScale(id string, set fieldpath.VersionedSet, replicas map[string]Path, owners map[owner]entry) {
	path, served := replicas[string(set.APIVersion())]
	e := m.entries[id]
	switch {
	case !served:
		delete(m.sets, id)
		return
	case len(path) == 0 || !set.Set().Has(path.elements()):
		return
	}
	key := e.owner
	key.apiVersion = ""
	if _, still := owners[key]; still {
		delete(owners, key)
		return
	}
	m.own(e.owner, set.Set().Difference(fieldpath.NewSet(path.elements())))
}

func scaleReplicas() fieldpath.Path { return Path{"spec", "replicas"}.elements() }
