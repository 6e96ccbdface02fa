package apply

import (
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

const (
	// lastApplied is the annotation in which kubectl keeps what it applied on its own side.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// kubectl is the manager that is helped from there to server-side apply. Another name opts out.
	kubectl = "kubectl"
)

// withoutLastApplied drops conflicts that are none: an object that kubectl applied on its own side lists its fields as
// those of an update, and kubectl may take back what its annotation says it set and what nobody changed since.
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

// unchangedSince returns the fields that are as the annotation says, nil if it is of no use.
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

// followLastApplied keeps the annotation in step with what kubectl applies, where there is one, so that a kubectl that
// applies on its own side again finds what it needs. An annotation that would be too large goes.
func (a *application) followLastApplied(merged map[string]any) map[string]any {
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
