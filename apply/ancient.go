package apply

import (
	"cmp"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

const (
	// maxUpdaters is the maximum number of update entries of an object.
	//
	// Source: SSA-25.
	maxUpdaters = 10
	// ancient is the manager of the entries into which the oldest ones are merged.
	ancient = "ancient-changes"
)

// collapse merges the oldest update entries until there are at most maxUpdaters. It only merges
// entries of the same version, because field names are only valid in their version. An entry that
// is the only one of its version stays as it is, so the number of entries can remain above the
// limit if there are many versions.
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
	first := map[string]string{}          // oldest id by version
	piles := map[owner][]*fieldpath.Set{} // sets to merge, by the owner that receives them
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

// merge adds the fields of one owner to the pile of another. Until the piles are merged, the
// receiving owner only has an incomplete set. merge returns by how many entries this reduces their
// number.
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

// union merges sets pairwise. Merging them one after the other would copy the first sets once for
// each of the others.
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
