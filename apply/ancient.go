package apply

import (
	"cmp"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
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
	first := map[string]string{}          // by version
	piles := map[owner][]*fieldpath.Set{} // what is merged into an owner; all at once, in the end
	for _, id := range updaters {
		if count <= maxUpdaters {
			break
		}
		version := string(m.sets[id].APIVersion())
		oldest, seen := first[version]
		if !seen {
			first[version] = id
			continue
		}
		bucket := owner{manager: ancient, operation: opUpdate, apiVersion: version}
		for _, from := range []string{oldest, id} {
			count -= m.merge(from, bucket, piles)
		}
		m.stamp(bucket, m.entries[id].time) // the newer of the two
	}
	for bucket, sets := range piles {
		m.own(bucket, union(sets))
	}
}

// merge moves what one owner has to the pile of another, which has some of it until the piles are united. It returns by how
// many owners there are fewer then.
func (m *managers) merge(from string, to owner, piles map[owner][]*fieldpath.Set) (fewer int) {
	set, ok := m.sets[from]
	if !ok || from == to.id() {
		return 0
	}
	if had, ok := m.sets[to.id()]; ok {
		if fewer = 1; len(piles[to]) == 0 {
			piles[to] = append(piles[to], had.Set())
		}
	}
	delete(m.sets, from)
	m.sets[to.id()] = set
	piles[to] = append(piles[to], set.Set())
	return fewer
}

// union unites sets in pairs: one after the other, what the first have would be copied once for each of the others.
func union(sets []*fieldpath.Set) *fieldpath.Set {
	for len(sets) > 1 {
		half := make([]*fieldpath.Set, 0, len(sets)/2+1)
		for pair := range slices.Chunk(sets, 2) {
			if len(pair) == 2 {
				pair[0] = pair[0].Union(pair[1])
			}
			half = append(half, pair[0])
		}
		sets = half
	}
	return sets[0]
}
