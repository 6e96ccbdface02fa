package apply

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"
	"sigs.k8s.io/structured-merge-diff/v4/typed"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/status"
)

// beforeFirst owns what an object held when it was applied to for the first time and nobody had kept track (SSA-26).
const beforeFirst = "before-first-apply"

// Apply merges an applied configuration into the object and returns the result with managedFields (PATCH-02). The
// configuration should be pruned and in canonical form, but without defaults: what is in it is what its manager owns
// afterwards. Fields of the manager's last configuration that are not in this one and that nobody else owns are gone from
// the result; giving them their default again is up to the caller (SSA-08).
//
// When nothing changes at all, Apply returns Live itself, the same map (SSA-28). That, and a change of no more than values
// that nobody else owns, costs a fraction of what other applies cost.
//
// Errors are *status.Error: 409 with a cause per field and owner when the configuration would change fields of others and
// Force is not set; 400 for a configuration in another version or with managedFields; 422 when it has an item of a list
// twice or without its key; 413 when the object is too large to merge. Anything else is internal.
func (f *Fields) Apply(r Request) (map[string]any, error) {
	v, err := f.version(r.APIVersion)
	if err != nil {
		return nil, err
	}
	if err := checkConfiguration(r); err != nil {
		return nil, err
	}
	a := application{fields: f, version: v, request: r, by: r.owner(opApply), config: r.New, live: bare(r.Live, r.New)}
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

func checkConfiguration(r Request) error {
	if got := tree.Text(r.New, "apiVersion"); got != r.APIVersion {
		return status.BadRequest("the applied configuration is of apiVersion %s, but the request is for %s", quoted(got), quoted(r.APIVersion))
	}
	if v, ok := tree.Lookup(r.New, "metadata", "managedFields"); ok && v != nil {
		return status.BadRequest("metadata.managedFields must be nil")
	}
	return nil
}

func tooLarge() error {
	return status.TooLarge(0).WithMessage("a map or list of the object has too many members to work out who owns them")
}

// application is one apply on its way.
type application struct {
	fields  *Fields
	version *version
	request Request
	by      owner
	config  map[string]any // the configuration within reach of the endpoint
	live    map[string]any // without managedFields

	managers *managers // before
}

func (a *application) run() (map[string]any, error) {
	before, err := a.readOwners()
	if err != nil {
		return nil, err
	}
	config, err := a.version.merge.FromUnstructured(a.config)
	if err != nil {
		return nil, unusable(a.request, err)
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
		return nil, status.Internal(fmt.Errorf("merge the applied configuration: %w", err))
	}
	merged = a.followLastApplied(merged)
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

// readOwners finds out who owns what so far. Entries that cannot be read count as none.
func (a *application) readOwners() (before []any, err error) {
	before, _ = entriesOf(a.request.Live)
	if a.managers, err = readManagers(before); err != nil {
		a.managers = newManagers(1)
	}
	if len(a.managers.sets) == 0 && a.request.Live != nil {
		by := a.by
		by.manager, by.operation = beforeFirst, opUpdate
		if err := a.fields.update(a.managers, a.version, by, a.request, bare(nil, a.live), a.live); err != nil {
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

// merge lets structured-merge-diff do the work. What it returns is new; the owners from before stay for a second try.
func (a *application) merge(config *typed.TypedValue, force bool) (map[string]any, fieldpath.ManagedFields, error) {
	id, name := a.by.id(), fieldpath.APIVersion(a.version.apiVersion)
	sets := a.managers.sets
	if had, ok := sets[id]; ok && had.APIVersion() == name {
		set, err := config.ToFieldSet()
		if err != nil {
			return nil, nil, err
		}
		// What was applied last time is still there, so there is nothing to remove. Without its last set the library does
		// not look for it, which is half of its work.
		if had.Set().Difference(set).Empty() {
			sets = sets.Copy()
			delete(sets, id)
		}
	}
	_, pruned := sets[id]
	out, sets, err := a.fields.updater(a.request.Subresource).Apply(a.version.stored(a.live), config, name, sets, id, force)
	if err != nil {
		return nil, nil, err
	}
	if pruned && holdsEmpty(a.config) {
		// Removing what an owner dropped takes what the configuration has empty along, where that leaves no mark.
		if out, err = out.Merge(config); err != nil {
			return nil, nil, err
		}
	}
	merged, ok := out.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, nil, errors.New("nothing is left of the object")
	}
	if pruned {
		merged = a.tidy(merged, sets)
	}
	return merged, sets, nil
}

// tidy puts right what structured-merge-diff leaves where it removed all that a map or a list held: null. An empty map or
// list is there if somebody owns it as such, and nothing otherwise. Where the object held nulls before, only the schema can
// tell which are meant.
func (a *application) tidy(merged map[string]any, sets fieldpath.ManagedFields) map[string]any {
	if !hasNull(merged) {
		return merged
	}
	if hasNull(a.live) || hasNull(a.config) {
		canonical, _ := a.version.schema.Canonical(merged)
		return canonical
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

// holdsEmpty tells whether there is an empty map or list in a value.
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
