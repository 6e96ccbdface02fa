package apply

import (
	"errors"
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"
	"sigs.k8s.io/structured-merge-diff/v4/typed"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/status"
)

// beforeFirst owns the fields that an object without managedFields has at the time of its first
// apply. Without this owner, the first apply could take over every field without a conflict.
//
// Source: SSA-26.
const beforeFirst = "before-first-apply"

// Apply merges an applied configuration into the object and returns the result with managedFields.
// The configuration should be pruned and in canonical form, but without defaults: its manager will
// own exactly the fields in it. Apply removes the fields that the manager's last configuration had,
// that this one lacks, and that nobody else owns. The caller must then fill in their defaults
// again.
//
// If nothing changes, Apply returns Live itself, the same map. This case is much cheaper than other
// applies. The same holds for an apply that only changes values that no other manager owns.
//
// Errors are *status.Error. The code is 409, with a cause per field and owner, if the configuration
// changes fields of others and Force is not set. It is 400 for a configuration in another version
// or with managedFields, 422 for a list item that is duplicated or lacks its key, and 413 for an
// object that is too large to merge. Any other error is an internal one.
//
// Source: PATCH-02, SSA-08, SSA-28.
func (f *Fields) Apply(r Request) (map[string]any, error) {
	v, err := f.version(r.APIVersion)
	if err != nil {
		return nil, err
	}
	if err := checkConfiguration(r); err != nil {
		return nil, err
	}
	a := application{fields: f, version: v, request: r, by: r.owner(opApply), config: r.New, live: r.live(nil)}
	if reach := v.reach[r.Subresource]; reach != nil {
		a.config = reach.trim(r.New)
	}
	if out, ok := a.quick(); ok {
		return out, nil
	}
	if entries, _ := entriesOf(r.Live); !v.root.trackable(len(entries), a.config, a.live) {
		return nil, tooLarge()
	}
	return a.run()
}

// checkConfiguration rejects a configuration in another version than the request, and one with
// managedFields, which only the server may write.
func checkConfiguration(r Request) error {
	if got := tree.Text(r.New, "apiVersion"); got != r.APIVersion {
		return status.BadRequest("the applied configuration has apiVersion %s, but the request is for %s", quoted(got), quoted(r.APIVersion))
	}
	if v, ok := tree.Lookup(r.New, "metadata", "managedFields"); ok && v != nil {
		return status.BadRequest("metadata.managedFields must be nil")
	}
	return nil
}

// tooLarge returns the error for an object that cannot be tracked at acceptable cost. An apply
// cannot proceed without owners, unlike an update.
func tooLarge() error {
	return status.TooLarge(0).WithMessage("a map or list of the object has too many members to track their owners")
}

// application holds the state of one call of Apply.
type application struct {
	fields  *Fields
	version *version
	request Request
	by      owner
	config  map[string]any // the part of the configuration that the endpoint can write
	live    map[string]any // without managedFields

	managers *managers // owners before the apply
}

// run takes the slow path: structured-merge-diff merges the configuration and computes the owners.
// If kubectl's annotation explains all conflicts, the merge is repeated with force.
func (a *application) run() (map[string]any, error) {
	before, err := a.readOwners()
	if err != nil {
		return nil, err
	}
	config, err := a.version.merge.FromUnstructured(a.config)
	if err != nil {
		return nil, invalidConfiguration(a.request, err)
	}
	merged, sets, err := a.merge(config, a.request.Force)
	var conflicts merge.Conflicts
	if errors.As(err, &conflicts) {
		if conflicts = a.withoutLastApplied(conflicts); len(conflicts) > 0 {
			return nil, a.managers.conflict(conflicts)
		}
		merged, sets, err = a.merge(config, true)
	}
	if err != nil {
		return nil, a.unmergeable(err)
	}
	merged = a.updateLastApplied(merged)
	changed := !json.Equal(merged, a.live)
	own := sets[a.by.id()]
	a.managers.sets = sets
	if own != nil {
		set := own.Set().Difference(a.fields.neverOwned)
		was, had := a.managers.entries[a.by.id()]
		if changed || !had || was.apiVersion != a.by.apiVersion || !was.set.Equals(set) {
			a.managers.stamp(a.by, a.request.Time)
		}
		a.managers.own(a.by, set)
	}
	list, same := a.managers.list(before)
	if same && !changed && a.request.Live != nil {
		return a.request.Live, nil
	}
	return withEntries(merged, list), nil
}

// readOwners determines the owners before the apply. If the stored entries are unreadable, it
// treats the object as untracked.
func (a *application) readOwners() (before []any, err error) {
	before, _ = entriesOf(a.request.Live)
	if a.managers, err = readManagers(before); err != nil {
		a.managers = newManagers(1)
	}
	// The first apply to an untracked object: assign all existing fields to beforeFirst.
	if len(a.managers.sets) == 0 && a.request.Live != nil {
		by := a.by
		by.manager, by.operation = beforeFirst, opUpdate
		if err := a.fields.update(a.managers, a.version, by, a.request, newLike(a.live, a.version.blank), a.live); err != nil {
			return nil, status.Internal(err)
		}
	}
	if r := a.version.reach[a.request.Subresource]; r != nil {
		if own, ok := a.managers.sets[a.by.id()]; ok && own.APIVersion() == fieldpath.APIVersion(a.version.apiVersion) {
			a.managers.sets[a.by.id()] = fieldpath.NewVersionedSet(r.Filter(own.Set()), own.APIVersion(), true)
		}
	}
	return before, nil
}

// merge runs structured-merge-diff. It does not modify the owners of a, so that it can be called
// again with force.
func (a *application) merge(config *typed.TypedValue, force bool) (map[string]any, fieldpath.ManagedFields, error) {
	id, name := a.by.id(), fieldpath.APIVersion(a.version.apiVersion)
	sets := a.managers.sets
	if had, ok := sets[id]; ok && had.APIVersion() == name {
		set, err := config.ToFieldSet()
		if err != nil {
			return nil, nil, err
		}
		// Nothing that was applied last time is missing now, so there is nothing to remove. Without
		// the previous set, the library skips the search for removed fields, which is half of its
		// work.
		if had.Set().Difference(set).Empty() {
			sets = sets.Copy()
			delete(sets, id)
		}
	}
	_, pruned := sets[id]
	out, sets, err := a.fields.updater(a.version, a.request.Subresource).Apply(a.version.stored(a.live), config, name, sets, id, force)
	if err != nil {
		return nil, nil, err
	}
	if pruned && holdsEmpty(a.config) {
		// Removing the fields that a manager dropped also removes empty maps and lists of the
		// configuration if no owner is recorded for them. Merge them again.
		if out, err = out.Merge(config); err != nil {
			return nil, nil, err
		}
	}
	merged, ok := out.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, nil, errors.New("the merge removed the whole object")
	}
	if pruned {
		merged = a.tidy(merged, sets)
	}
	return merged, sets, nil
}

// tidy removes the nulls that structured-merge-diff leaves in place of a map or list whose members
// it all removed. If an owner is recorded for the map or list itself, it stays as an empty one. If
// the object or the configuration already contained nulls, only the schema can tell which nulls are
// values, so Canonical decides. Those that the configuration put into fields stay for the caller to judge.
func (a *application) tidy(merged map[string]any, sets fieldpath.ManagedFields) map[string]any {
	if !hasNull(merged) {
		return merged
	}
	if hasNull(a.live) || hasNull(a.config) {
		canonical, _ := a.version.schema.Canonical(merged)
		return sentNulls(canonical, merged, a.config)
	}
	owned := &fieldpath.Set{}
	for _, set := range sets {
		if set.APIVersion() == fieldpath.APIVersion(a.version.apiVersion) {
			owned = owned.Union(set.Set())
		}
	}
	out, _ := a.version.root.tidy(merged, owned).(map[string]any)
	return out
}

// sentNulls returns the canonical form of an object with the nulls that a configuration put into it.
func sentNulls(canonical, merged, config map[string]any) map[string]any {
	out := maps.Clone(canonical)
	for name, v := range config {
		there, ok := merged[name]
		switch sent := v.(type) {
		case nil:
			if ok && there == nil {
				out[name] = nil
			}
		case map[string]any:
			c, isMap := out[name].(map[string]any)
			m, wasMap := there.(map[string]any)
			if isMap && wasMap {
				out[name] = sentNulls(c, m, sent)
			}
		}
	}
	return out
}

// holdsEmpty reports whether a value contains an empty map or list.
func holdsEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			if holdsEmpty(child) {
				return true
			}
		}
		return len(v) == 0
	case []any:
		return len(v) == 0 || slices.ContainsFunc(v, holdsEmpty)
	}
	return false
}

// hasNull reports whether a value contains null at any depth.
func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, child := range v {
			if hasNull(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNull)
	}
	return false
}
