package request

import (
	"fmt"
	"unicode"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The values of resourceVersionMatch (QUERY-03).
const (
	MatchExact        = string(meta.ResourceVersionMatchExact)
	MatchNotOlderThan = string(meta.ResourceVersionMatchNotOlderThan)
)

// MaxFieldManagerBytes is the longest name of a field manager.
const MaxFieldManagerBytes = 128

// IsDryRun reports whether the request must not be persisted. Any dryRun parameter counts, so a
// handler that forgets to validate writes too little rather than too much.
func (q Query) IsDryRun() bool { return len(q.DryRun) > 0 }

// ValidateTable checks the options of an answer in the form of a Table. Other answers ignore them, whatever
// they say (TABLE-08).
func (q Query) ValidateTable() error {
	switch q.IncludeObject {
	case "", "None", "Metadata", "Object":
		return nil
	}
	return status.BadRequest("includeObject: Invalid value: %s: must be 'Metadata', 'Object', 'None', or empty", quote(q.IncludeObject))
}

// ValidateList checks the options of a list, or of a deletecollection, as a whole. It returns a 422
// for combinations that the table of list semantics calls invalid (LIST-10 to LIST-23, LIST-35),
// and a 400 for a version that is no number. A continue token together with a version is left to
// [Query.ValidateContinue].
func (q Query) ValidateList() error {
	var f status.Fields
	if match := q.ResourceVersionMatch; match != "" {
		at := f.At("resourceVersionMatch")
		if q.ResourceVersion == "" {
			at.Forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
		}
		if q.Continue != "" {
			at.Forbidden("resourceVersionMatch is forbidden when continue is provided")
		}
		if match != MatchExact && match != MatchNotOlderThan {
			at.NotSupported(match, MatchExact, MatchNotOlderThan, "")
		}
		if match == MatchExact && q.ResourceVersion == "0" {
			at.Forbidden(`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
		}
	}
	if q.SendInitialEvents != nil {
		f.At("sendInitialEvents").Forbidden("sendInitialEvents is forbidden for list")
	}
	if err := q.invalid("ListOptions", &f); err != nil {
		return err
	}
	if q.Continue != "" {
		return nil // the token brings its version
	}
	return q.checkResourceVersion()
}

// ValidateContinue returns a 400 for a continue token together with a version (LIST-09). A list calls
// it when the token has been read, because a token that is not valid is reported before this.
func (q Query) ValidateContinue() error {
	if q.Continue != "" && q.ResourceVersion != "" && q.ResourceVersion != "0" {
		return status.BadRequest("specifying resource version is not allowed when using continue")
	}
	return nil
}

// ValidateWatch checks the options of a watch as a whole and returns a 422 (QUERY-05, WLIST-01,
// WLIST-08). streamingLists says whether the server offers initial events that end in a mark. If it
// does not, asking for them is an error: otherwise the client would wait for the mark for ever.
func (q Query) ValidateWatch(streamingLists bool) error {
	var f status.Fields
	match := f.At("resourceVersionMatch")
	if q.SendInitialEvents != nil {
		if q.ResourceVersionMatch != MatchNotOlderThan {
			match.Forbidden("sendInitialEvents requires setting resourceVersionMatch to " + MatchNotOlderThan)
		}
		if !streamingLists {
			f.At("sendInitialEvents").Forbidden("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		}
	}
	if q.ResourceVersionMatch != "" {
		if q.SendInitialEvents == nil {
			match.Forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
		}
		if q.ResourceVersionMatch != MatchNotOlderThan {
			match.NotSupported(q.ResourceVersionMatch, MatchNotOlderThan)
		}
		if q.Continue != "" {
			match.Forbidden("resourceVersionMatch is forbidden when continue is provided")
		}
	}
	return q.invalid("ListOptions", &f)
}

// ValidateDelete checks dryRun and the propagation options of a delete or deletecollection: 422. It
// is for requests without a body. The options of a body replace those of the query (DEL-12).
func (q Query) ValidateDelete() error {
	var f status.Fields
	q.checkDryRun(&f)
	switch q.PropagationPolicy {
	case "Orphan", "Background", "Foreground":
	default:
		if q.Raw.Has("propagationPolicy") { // an empty one is invalid too
			f.At("propagationPolicy").NotSupported(q.PropagationPolicy, "Foreground", "Background", "Orphan", "nil")
		}
	}
	if q.OrphanDependents != nil && q.PropagationPolicy != "" {
		f.At("propagationPolicy").Invalid(q.PropagationPolicy, "orphanDependents and deletionPropagation cannot be both set")
	}
	q.checkIgnoreReadErrors(&f)
	return q.invalid("DeleteOptions", &f)
}

// checkIgnoreReadErrors rejects the options that a deletion of an object that cannot be read ignores.
func (q Query) checkIgnoreReadErrors(f *status.Fields) {
	if q.IgnoreReadErrors == nil || !*q.IgnoreReadErrors {
		return
	}
	for _, other := range []struct {
		name string
		set  bool
	}{
		{"dryRun", len(q.DryRun) > 0},
		{"propagationPolicy", q.PropagationPolicy != ""},
		{"orphanDependents", q.OrphanDependents != nil},
		{"gracePeriodSeconds", q.GracePeriodSeconds != nil},
		{"preconditions", q.PreconditionUID != ""},
	} {
		if other.set {
			f.At(ignoreReadErrors).Invalid(true, "cannot be set together with ."+other.name)
		}
	}
}

// ValidateWrite checks fieldManager, dryRun and fieldValidation of a create or an update, whose options
// have this kind: 422.
func (q Query) ValidateWrite(kind string) error {
	var f status.Fields
	q.checkWrite(&f)
	return q.invalid(kind, &f)
}

// ValidatePatch is [Query.ValidateWrite] for a patch, and checks what only an apply needs, or may have
// (SSA-02, SSA-30).
func (q Query) ValidatePatch(apply bool) error {
	var f status.Fields
	switch {
	case apply && q.FieldManager == "":
		f.At("fieldManager").Required("is required for apply patch")
	case !apply && q.Force != nil:
		f.At("force").Forbidden("may not be specified for non-apply patch")
	}
	q.checkWrite(&f)
	return q.invalid("PatchOptions", &f)
}

func (q Query) checkWrite(f *status.Fields) {
	q.checkFieldManager(f)
	q.checkDryRun(f)
	switch q.FieldValidation {
	case "", "Ignore", "Warn", "Strict":
	default:
		f.At("fieldValidation").NotSupported(q.FieldValidation, "Ignore", "Warn", "Strict", "")
	}
}

// checkFieldManager names each character that cannot be printed, unless the name is too long anyway.
func (q Query) checkFieldManager(f *status.Fields) {
	if len(q.FieldManager) > MaxFieldManagerBytes {
		f.At("fieldManager").TooLong(MaxFieldManagerBytes)
		return
	}
	for i, r := range q.FieldManager {
		if !unicode.IsPrint(r) {
			f.At("fieldManager").Invalid(q.FieldManager, fmt.Sprintf("invalid character %#U (at position %d)", r, i))
		}
	}
}

// checkDryRun accepts the only valid value (DRY-07).
func (q Query) checkDryRun(f *status.Fields) {
	for _, v := range q.DryRun {
		if v != "All" {
			f.At("dryRun").NotSupported(v, "All")
		}
	}
}

// invalid returns nil if nothing was reported.
func (q Query) invalid(kind string, f *status.Fields) error {
	if f.Len() == 0 {
		return nil
	}
	return status.Invalid(meta.GroupKind{Group: "meta." + q.GroupDomain(), Kind: kind}, "", f.Errors())
}
