package apply

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// self is the temporary owner under which structured-merge-diff records what a write changes. Ids
// are JSON objects, so no id equals it.
const self = ""

// Update returns the object of a create, an update or a patch other than apply, with managedFields
// after the write. The writer becomes the only owner of the fields that it changed or added. Fields
// that it removed lose their owners. All other fields keep theirs.
//
// On the main resource, Update starts from the managedFields that the client sent, so that clients
// can edit and reset ownership. It starts from the stored entries on subresources, and if the
// client's list is absent, empty or unreadable. A list with one empty entry resets ownership; the
// writer then owns what else the request changes. Existing objects without entries remain untracked
// until the first apply.
//
// If ownership cannot be computed, Update returns the error together with the object and its
// previous managedFields. The caller may store that object. Only a request in an unknown version
// returns no object; it is a mistake of the caller. An object that is too large to track also keeps
// its managedFields, without an error.
//
// Source: SSA-01, SSA-07, SSA-12, SSA-13, SSA-15, SSA-26, SSA-29.
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
		if json.Equal(bare(r.New), bare(r.Live)) {
			return withEntries(r.New, stored), nil // nothing changes
		}
	}
	return f.slowUpdate(r, v, stored, reset)
}

// slowUpdate lets structured-merge-diff compute the owners.
func (f *Fields) slowUpdate(r Request, v *version, stored []any, reset bool) (map[string]any, error) {
	body, live := bare(r.New), r.live(v.blank)
	m, before := f.ownersBefore(r, reset)
	// The object is untracked and stays so until the first apply.
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

// served reports whether the version of every entry is served. Entries in other versions would have
// to be dropped, which the fast paths do not do.
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

// ownersBefore returns the owners before an update and the entries from which they were read. It
// returns no entries if the client changed them, so that all are written again.
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

// update computes the owners after the owner by has changed live to body.
func (f *Fields) update(m *managers, v *version, by owner, r Request, live, body map[string]any) error {
	_, sets, err := f.updater(v, r.Subresource).Update(v.stored(live), v.stored(body), fieldpath.APIVersion(by.apiVersion), m.sets, self)
	if err != nil {
		return fmt.Errorf("compute the owners of the object's fields: %w", err)
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
