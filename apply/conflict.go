package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"
	"sigs.k8s.io/structured-merge-diff/v4/typed"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxConflicts limits how many conflicts a response lists. It always states the total.
const maxConflicts = 1000

// maxPath limits the length of a path in a response. A path contains the keys of list items, which
// may be long.
const maxPath = 1024

// conflict returns the 409 error for an apply that changes fields of others. It has a cause for
// each field and owner. Clients parse the texts, so they must not change.
//
// Source: SSA-03, SSA-18.
func (m *managers) conflict(all merge.Conflicts) error {
	byOwner := map[string][]fieldpath.Path{}
	for _, c := range all {
		byOwner[c.Manager] = append(byOwner[c.Manager], c.Path)
	}
	var causes []meta.StatusCause
	var text strings.Builder
	left := maxConflicts
	for _, id := range slices.Sorted(maps.Keys(byOwner)) {
		paths := byOwner[id]
		paths = paths[:min(len(paths), left)]
		left -= len(paths)
		if len(paths) == 0 {
			break
		}
		who := m.entries[id].describe()
		fmt.Fprintf(&text, "\nconflicts with %s:", who)
		for _, p := range paths {
			field := clip.Text(p.String(), maxPath)
			text.WriteString("\n- " + field)
			causes = append(causes, meta.StatusCause{Type: meta.CauseFieldManagerConflict, Message: "conflict with " + who, Field: field})
		}
	}
	message := fmt.Sprintf("Apply failed with %d conflicts: %s", len(all), strings.TrimPrefix(text.String(), "\n"))
	if len(all) == 1 {
		message = fmt.Sprintf("Apply failed with 1 conflict: %s: %s", causes[0].Message, causes[0].Field)
	}
	return status.Conflict(meta.GroupResource{}, "", "").WithMessage(message).WithCauses(causes...)
}

// describe names an owner in a conflict.
func (e entry) describe() string {
	out := strconv.Quote(e.manager)
	if e.subresource != "" {
		out += " with subresource " + strconv.Quote(e.subresource)
	}
	if e.operation == opUpdate {
		out += " using " + e.apiVersion
	}
	return out
}

// invalidConfiguration returns the error for a configuration that cannot be merged because a list
// item is duplicated or lacks its key.
func invalidConfiguration(r Request, err error) error { return misfit(r, err, "") }

// unmergeable returns the error for a merge that failed. Where the stored object does not fit the schema of
// today, the fields at fault are named: an update, or an apply of them, mends it.
func (a *application) unmergeable(err error) error {
	if _, wrong := a.version.merge.FromUnstructured(a.live); wrong != nil {
		return misfit(a.request, wrong, "the stored object does not fit its schema: ")
	}
	return status.Internal(fmt.Errorf("merge the applied configuration: %w", err))
}

// misfit returns the error for an object that does not fit its schema.
func misfit(r Request, err error, before string) error {
	var problems typed.ValidationErrors
	if !errors.As(err, &problems) {
		problems = typed.ValidationErrors{{ErrorMessage: err.Error()}}
	}
	var errs []status.FieldError
	for _, p := range problems[:min(len(problems), maxConflicts)] {
		// Drop the value, which may be large or secret.
		p.ErrorMessage, _, _ = strings.Cut(p.ErrorMessage, ", got ")
		errs = append(errs, status.FieldError{
			Type: meta.CauseFieldValueInvalid, Field: clip.Text(strings.TrimPrefix(p.Path, "."), maxPath),
			Value: "…", Detail: before + clip.Text(p.ErrorMessage, maxPath),
		})
	}
	gv, _ := meta.ParseGroupVersion(r.APIVersion)
	return status.Invalid(gv.WithKind(tree.Text(r.New, "kind")).GroupKind(), tree.Text(r.New, "metadata", "name"), errs)
}
