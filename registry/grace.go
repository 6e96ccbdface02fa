package registry

import (
	"fmt"

	"github.com/kindwright/kindwright/meta"
)

// problem says what cannot be meant.
func (d *Deletion) problem() string {
	switch d.Policy {
	case "", meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan:
	default:
		return fmt.Sprintf("Deletion.Policy %q is none of Background, Foreground and Orphan", d.Policy)
	}
	if d.NoDependents && d.Policy != "" {
		return "Deletion.NoDependents and a Policy exclude each other"
	}
	return ""
}
