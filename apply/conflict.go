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

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxConflicts bounds how many conflicts one answer tells of; how many there are it says in any case.
const maxConflicts = 1000

// maxPath bounds how much of a place an answer shows: keys of items, which are a part of it, may be long.
const maxPath = 1024

func cut(s string) string {
	if len(s) > maxPath {
		return strings.ToValidUTF8(s[:maxPath], "") + "…"
	}
	return s
}

// conflict answers an apply that would change fields of others: 409 with a cause for each field and each of its owners, in
// the words that clients take apart (SSA-03, SSA-18).
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
			field := cut(p.String())
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

// unusable answers an applied configuration that cannot be merged: one item twice, or an item without its key.
func unusable(r Request, err error) error {
	var problems typed.ValidationErrors
	if !errors.As(err, &problems) {
		problems = typed.ValidationErrors{{ErrorMessage: err.Error()}}
	}
	var errs []status.FieldError
	for _, p := range problems[:min(len(problems), maxConflicts)] {
		p.ErrorMessage, _, _ = strings.Cut(p.ErrorMessage, ", got ") // behind it stands the value
		errs = append(errs, status.FieldError{
			Type: meta.CauseFieldValueInvalid, Field: cut(strings.TrimPrefix(p.Path, ".")), Value: "…", Detail: cut(p.ErrorMessage),
		})
	}
	gv, _ := meta.ParseGroupVersion(r.APIVersion)
	return status.Invalid(gv.WithKind(tree.Text(r.New, "kind")).GroupKind(), tree.Text(r.New, "metadata", "name"), errs)
}
