package registry

import (
	"fmt"

	"github.com/kindwright/kindwright/meta"
)

// GraceSeconds gives the objects of a kind so much time to end, unless a request says otherwise; see Deletion.Grace.
func GraceSeconds(n int64) func(t Tree, asked *int64) int64 {
	return func(_ Tree, asked *int64) int64 {
		if asked != nil {
			return *asked
		}
		return n
	}
}

// problem says what cannot be meant.
func (d *Deletion) problem() string {
	switch d.Policy {
	case "", meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan:
	default:
		return fmt.Sprintf("Deletion.Policy %q is none of Background, Foreground and Orphan", d.Policy)
	}
	if d.Expire && d.Grace == nil {
		return "Deletion.Expire is for kinds with a Grace"
	}
	if d.NoDependents && d.Policy != "" {
		return "Deletion.NoDependents and a Policy exclude each other"
	}
	return ""
}
