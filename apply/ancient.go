package apply

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// maxUpdaters is how many owners by update an object keeps apart (SSA-25).
	maxUpdaters = 10
	// ancient is the owner into which older ones are merged.
	ancient = "ancient-changes"
)

// collapse merges the oldest owners by update, those of one version into one, until there are no more than maxUpdaters. The
// first of a version is left as it is while it is alone. Owners in many versions can stay above the bound, so that no field
// is said to be owned in another version than it is.
func (m *managers) collapse() {
	var updaters []string
	for id, set := range m.sets {
		if !set.Applied() {
			updaters = append(updaters, id)
		}
	}
	if len(updaters) <= maxUpdaters {
		return
	}
	slices.SortFunc(updaters, func(a, b string) int {
		return cmp.Or(cmp.Compare(seconds(m.entries[a].time), seconds(m.entries[b].time)), strings.Compare(a, b))
	})
	count := len(updaters)
	first := map[string]string{} // by version
	for _, id := range updaters {
		if count <= maxUpdaters {
			return
		}
		version := string(m.sets[id].APIVersion())
		oldest, seen := first[version]
		if !seen {
			first[version] = id
			continue
		}
		bucket := owner{manager: ancient, operation: opUpdate, apiVersion: version}
		for _, from := range []string{oldest, id} {
			count -= m.merge(from, bucket)
		}
		m.stamp(bucket, m.entries[id].time) // the newer of the two
	}
}

// merge moves what one owner has to another, and returns by how many there are fewer then.
func (m *managers) merge(from string, to owner) int {
	set, ok := m.sets[from]
	if !ok || from == to.id() {
		return 0
	}
	delete(m.sets, from)
	fields := set.Set()
	if had, ok := m.sets[to.id()]; ok {
		m.own(to, fields.Union(had.Set()))
		return 1
	}
	m.own(to, fields)
	return 0
}
