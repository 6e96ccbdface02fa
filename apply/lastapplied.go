package apply

import (
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"

	"github.com/kindwright/kindwright/internal/json"
)

const (
	// lastApplied is the annotation in which kubectl keeps what it applied on its own side.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// kubectl is the manager that is helped from there to server-side apply. Another name opts out.
	kubectl = "kubectl"
	// maxAnnotations bounds the annotations of an object, in bytes.
	maxAnnotations = 256 << 10
)

// withoutLastApplied drops conflicts that are none: an object that kubectl applied on its own side lists its fields as
// those of an update, and kubectl may take back what its annotation says it set and what nobody changed since.
func (a *application) withoutLastApplied(conflicts merge.Conflicts) merge.Conflicts {
	note := text(a.live, "metadata", "annotations", lastApplied)
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
	tree, ok := v.(map[string]any)
	if err != nil || !ok || text(tree, "apiVersion") != a.version.apiVersion || !a.version.root.trackable(1, tree) {
		return nil
	}
	tree, _ = a.version.schema.Prune(tree)
	tree, _ = a.version.schema.Canonical(tree)
	noted, err := a.version.merge.FromUnstructured(tree)
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
	if a.request.Manager != kubectl || text(merged, "metadata", "annotations", lastApplied) == "" {
		return merged
	}
	config := a.request.New
	if annotations, ok := lookup(config, Path{"metadata", "annotations"}); ok {
		rest, _ := annotations.(map[string]any)
		_, noted := rest[lastApplied]
		if config = without(config, "metadata", "annotations", lastApplied); noted && len(rest) == 1 {
			config = with(config, map[string]any{}, "metadata", "annotations")
		}
	}
	note, err := json.AppendTree(nil, config)
	annotations, _ := lookup(merged, Path{"metadata", "annotations"})
	size := len(note)
	for name, v := range annotations.(map[string]any) {
		if s, ok := v.(string); ok && name != lastApplied {
			size += len(name) + len(s)
		}
	}
	if err != nil || size+len(lastApplied)+1 > maxAnnotations {
		return without(merged, "metadata", "annotations", lastApplied)
	}
	return with(merged, string(note)+"\n", "metadata", "annotations", lastApplied)
}
