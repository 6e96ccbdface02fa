package aggregate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/meta"
)

// Merge adds what the back ends serve to what this server serves, and puts groups and versions in the
// order of their priorities. A group version of this server stays as it is.
func (a *Aggregator) Merge(own discovery.Content) discovery.Content {
	out := own
	out.Generation += a.generation.Load() // before the table is read: what is newer is merged again
	t := a.table.Load()
	groups := map[string]*discovery.Group{}
	out.Groups = slices.Clone(own.Groups)
	for i := range out.Groups {
		g := &out.Groups[i]
		g.Versions = slices.Clone(g.Versions)
		groups[g.Name] = g
	}
	var added []*discovery.Group
	for gv, b := range t.backends {
		g := groups[gv.Group]
		if g == nil {
			g = &discovery.Group{Name: gv.Group}
			groups[gv.Group], added = g, append(added, g)
		}
		if slices.ContainsFunc(g.Versions, func(v discovery.Version) bool { return v.Name == gv.Version }) {
			continue
		}
		v := b.now.Load()
		g.Versions = append(g.Versions, v.describe(gv.Version))
	}
	for _, g := range added {
		out.Groups = append(out.Groups, *g)
	}
	order := map[string]int32{}
	for i := range out.Groups {
		g := &out.Groups[i]
		for j := range g.Versions {
			v := &g.Versions[j]
			p := t.priority(a, meta.GroupVersion{Group: g.Name, Version: v.Name})
			v.Priority = p.version
			order[g.Name] = max(order[g.Name], p.group)
		}
	}
	slices.SortStableFunc(out.Groups, func(x, y discovery.Group) int {
		return cmp.Or(cmp.Compare(order[y.Name], order[x.Name]), strings.Compare(x.Name, y.Name))
	})
	return out
}

// priority is the place of a group version: what its object says, if it has one.
func (t *table) priority(a *Aggregator, gv meta.GroupVersion) priority {
	if s := t.services[gv]; s != nil {
		return priority{s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority}
	}
	return a.priorityOf(gv.Group, gv.Version, false)
}

// describe is the part of a view that discovery and OpenAPI v3 show. What was known of a back end that
// does not answer stays, and is marked as stale.
func (v *view) describe(version string) discovery.Version {
	out := discovery.Version{Name: version, Identity: v, Stale: !v.available || v.resources == nil}
	out.Resources = func() []discovery.Resource { return v.resources }
	if v.schema != nil {
		out.Schema = func() ([]byte, error) { return v.schema, nil }
	}
	return out
}
