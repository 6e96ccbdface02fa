package client

import (
	"errors"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// FieldConflict is a field that an Apply would change although another manager owns it.
type FieldConflict struct {
	Field   string // such as .spec.parts[name="leg"].count
	Manager string // the owner; "" if the server does not say
}

// FieldConflicts returns the fields for which the server refused an Apply; a ForceApply would take
// them over. It returns nil for every other error.
func FieldConflicts(err error) []FieldConflict {
	failure, ok := errors.AsType[*status.Error](err)
	if !ok {
		return nil
	}
	details := failure.Status().Details
	if details == nil {
		return nil
	}
	var out []FieldConflict
	for _, cause := range details.Causes {
		if cause.Type == meta.CauseFieldManagerConflict {
			out = append(out, FieldConflict{Field: cause.Field, Manager: managerIn(cause.Message)})
		}
	}
	return out
}

// managerIn finds the manager in a message such as `conflict with "kubectl" using v1`. The Status
// has no field for it (SSA-06).
func managerIn(message string) string {
	_, rest, found := strings.Cut(message, "conflict with ")
	if !found {
		return ""
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return ""
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return name
}
