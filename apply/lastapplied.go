package apply

import (
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

const (
	// lastApplied is the annotation in which kubectl's client-side apply records its configuration.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// kubectl is the manager for which ownership migrates from client-side to server-side apply.
	// Users opt out with another manager name.
	kubectl = "kubectl"
)

// withoutLastApplied drops conflicts with kubectl's own earlier client-side apply. That apply was
// recorded as an update, so its fields have another owner. kubectl may take back a field that its
// annotation lists and that nobody has changed since.
func (a *application) withoutLastApplied(conflicts merge.Conflicts) merge.Conflicts {
	note := tree.Text(a.live, "metadata", "annotations", lastApplied)
	if a.request.Manager != kubectl || note == "" {
		return conflicts
	}
	unchanged := a.unchangedSince(note)
	if unchanged == nil {
		return conflicts
	}
	var left merge.Conflicts
	for _, c := range conflicts {
		if !unchanged.Has(c.Path) {
			left = append(left, c)
		}
	}
	return left
}

// unchangedSince returns the fields whose values equal those in the annotation. It returns nil if
// the annotation cannot be used.
func (a *application) unchangedSince(note string) *fieldpath.Set {
	v, err := json.DecodeTree([]byte(note), json.TreeOptions{})
	object, ok := v.(map[string]any)
	if err != nil || !ok || tree.Text(object, "apiVersion") != a.version.apiVersion || !a.version.root.trackable(1, object) {
		return nil
	}
	object, _ = a.version.schema.Prune(object)
	object, _ = a.version.schema.Canonical(object)
	noted, err := a.version.merge.FromUnstructured(object)
	if err != nil {
		return nil
	}
	set, err := noted.ToFieldSet()
	if err != nil {
		return nil
	}
	difference, err := noted.Compare(a.version.stored(a.live))
	if err != nil {
		return nil
	}
	return set.Difference(difference.Modified).Difference(difference.Added).Difference(difference.Removed)
}

// updateLastApplied updates an existing annotation to what kubectl applied, so that a later
// client-side apply finds a correct base. It removes the annotation if it would be too large.
func (a *application) updateLastApplied(merged map[string]any) map[string]any {
	if a.request.Manager != kubectl || tree.Text(merged, "metadata", "annotations", lastApplied) == "" {
		return merged
	}
	config := tree.Without(a.request.New, "metadata", "annotations", lastApplied)
	note, err := json.AppendTree(nil, config)
	size := len(note)
	for name, v := range tree.Map(merged, "metadata", "annotations") {
		if s, ok := v.(string); ok && name != lastApplied {
			size += len(name) + len(s)
		}
	}
	if err != nil || size+len(lastApplied)+1 > meta.MaxAnnotationBytes {
		return tree.Prune(merged, "metadata", "annotations", lastApplied)
	}
	return tree.With(merged, string(note)+"\n", "metadata", "annotations", lastApplied)
}
