package apply

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// self stands for the owner of a write while structured-merge-diff works out what it changes. No id is like it.
const self = ""

// Update returns the object of a create, an update or a patch that is no apply, with managedFields that say who owns its
// fields after the write (SSA-01, SSA-07, SSA-12). Fields that the write changed or added belong to the writer and to nobody
// else; fields that it removed belong to nobody; all others stay with their owners.
//
// What the client sent as managedFields counts on the main path, so that ownership can be edited and reset; where it is
// absent, empty or cannot be read, and on subresources, the stored entries count (SSA-29). A list with one empty entry
// resets ownership; what else the same request changes then belongs to the writer (SSA-13, SSA-15). Existing objects
// without entries stay untracked until the first apply (SSA-26).
//
// With an error the object comes back all the same, with the managedFields it had before: the error says why its ownership
// could not be worked out, and the write need not fail for that. The exception is a request in an unknown version, which is
// a mistake of the caller. An object that is too large to track keeps the managedFields it had too, without an error.
func (f *Fields) Update(r Request) (map[string]any, error) {
	v, err := f.version(r.APIVersion)
	if err != nil {
		return nil, err
	}
	sent, present := entriesOf(r.New)
	reset := r.Subresource == "" && f.isReset(sent, present)
	stored, _ := entriesOf(r.Live)
	if r.Live == nil && len(sent) == 0 && !reset {
		if list, ok := f.quickCreate(r, v); ok {
			return withEntries(r.New, list), nil
		}
	}
	if r.Live != nil && !reset && (r.Subresource != "" || len(sent) == 0 || json.Equal(sent, stored)) && f.served(stored) {
		if list, ok := f.quickUpdate(r, v, stored); ok {
			return withEntries(r.New, list), nil
		}
		if json.Equal(bare(r.New, nil), bare(r.Live, nil)) {
			return withEntries(r.New, stored), nil // nothing changes
		}
	}
	return f.slowUpdate(r, v, stored, reset)
}

// slowUpdate is an update that structured-merge-diff works out.
func (f *Fields) slowUpdate(r Request, v *version, stored []any, reset bool) (map[string]any, error) {
	body, live := bare(r.New, nil), bare(r.Live, r.New)
	m, before := f.ownersBefore(r, reset)
	if len(m.sets) == 0 && r.Live != nil && !reset {
		return body, nil
	}
	if !v.root.trackable(len(m.sets), body, live) {
		return withEntries(body, stored), nil
	}
	if err := f.update(m, v, r.owner(opUpdate), r, live, body); err != nil {
		return withEntries(body, stored), err
	}
	list, same := m.list(before)
	if same {
		list = before
	}
	return withEntries(body, list), nil
}

func (f *Fields) version(name string) (*version, error) {
	if v := f.versions[name]; v != nil {
		return v.ready(), nil
	}
	return nil, status.Internal(fmt.Errorf("the kind is not served in version %s", quoted(name)))
}

// served tells whether all entries are in versions that are served, so that there is none to drop.
func (f *Fields) served(entries []any) bool {
	for _, item := range entries {
		tree, _ := item.(map[string]any)
		version, _ := tree["apiVersion"].(string)
		if f.versions[version] == nil {
			return false
		}
	}
	return true
}

// ownersBefore returns who owns what before an update, and the entries that say so. What a client made of the entries is
// written anew.
func (f *Fields) ownersBefore(r Request, reset bool) (*managers, []any) {
	if reset {
		return newManagers(1), nil
	}
	stored, _ := entriesOf(r.Live)
	sent, _ := entriesOf(r.New)
	if r.Subresource == "" && len(sent) > 0 && !json.Equal(sent, stored) {
		if m, err := readManagers(sent); err == nil {
			m.forget()
			return m, nil
		}
	}
	m, err := readManagers(stored)
	if err != nil {
		return newManagers(1), nil
	}
	return m, stored
}

// update works out who owns what when live becomes body by the hand of an owner.
func (f *Fields) update(m *managers, v *version, by owner, r Request, live, body map[string]any) error {
	_, sets, err := f.updater(r.Subresource).Update(v.stored(live), v.stored(body), fieldpath.APIVersion(by.apiVersion), m.sets, self)
	if err != nil {
		return fmt.Errorf("work out who owns the fields of the object: %w", err)
	}
	m.sets = sets
	if changed := sets[self]; changed != nil {
		delete(sets, self)
		if set := changed.Set().Difference(f.neverOwned); !set.Empty() {
			if had := sets[by.id()]; had != nil {
				set = set.Union(had.Set())
			}
			m.own(by, set)
			m.stamp(by, r.Time)
		}
	}
	m.collapse()
	return nil
}
