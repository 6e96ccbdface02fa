package engine

import (
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// Ending says that resources take no new objects any more: discovery stops listing create, patch and
// update. Requests and watches go on. Unknown names are ignored.
//
// Source: CRD-21.
func (e *Engine) Ending(kinds ...meta.GroupVersionResource) {
	defer e.holdChanges()()
	edit := e.set.Load().edit()
	changed := false
	for _, name := range kinds {
		m, served := edit.named.get(name)
		if !served || m.hidden || m.ending.Swap(true) {
			continue
		}
		group := edit.ownGroup(name.Group)
		if v, found := findVersion(group.Versions, name.Version); found {
			edit.ownVersion(group, v) // its documents are made anew
			changed = true
		}
	}
	if changed {
		e.set.Store(edit.done())
		e.renewal.announce()
	}
}

// Verbs lists the verbs that discovery shows, in its order.
func (s *Served) Verbs() []string {
	if !s.ending.Load() {
		return s.Kind.Verbs
	}
	return slices.DeleteFunc(slices.Clone(s.Kind.Verbs), func(verb string) bool {
		return verb == "create" || verb == "patch" || verb == "update"
	})
}
