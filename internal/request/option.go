package request

import (
	"slices"
	"strings"
	"unicode"

	"github.com/kindwright/kindwright/internal/nearly"
	"github.com/kindwright/kindwright/status"
)

// option is a parameter that limits what a write does. If it is lost, the write does more than its
// sender wanted: a dry run becomes a write, a selection becomes the whole collection.
type option struct {
	name string
	on   verbs // where it counts

	// stems are parts that a misspelt form has: "serverDryRun" means dryRun. Aliases are other words
	// for the option, most of them flags of kubectl. Both are in the form of nearly.Letters.
	stems, aliases []string

	// misplaced are verbs for which the option means something that the verb cannot do, and instead
	// says where it belongs.
	misplaced verbs
	instead   string
}

// onOne are the verbs that change or delete one object.
const onOne = onUpdate | onPatch | onDelete | onAction

const (
	selects    = "it selects from a collection, and this request is for one object"
	deletes    = "it is an option of deletions"
	conditions = "send the condition in the body: as preconditions of a deletion, or in the metadata of the object"
)

// options lists the most specific ones first, because the first one with a matching stem is meant.
var options = [...]option{
	{name: "dryRun", on: onWriting, stems: []string{"dryrun"}, aliases: []string{"dry", "whatif", "validateonly"}},
	{name: "fieldManager", on: onEditing, stems: []string{"fieldmanager"}},
	{name: "fieldValidation", on: onEditing, stems: []string{"fieldvalidation"}, aliases: []string{"validate", "validation", "strict"}},
	{name: "force", on: onPatch, aliases: []string{"forceconflicts"}},
	{name: "preconditions", stems: []string{"precondition"}, aliases: []string{"ifmatch"}, misplaced: onOne | onDeleteCollection, instead: conditions},
	{name: "propagationPolicy", on: onDeleting, stems: []string{"propagation"}, aliases: []string{"cascade", "policy"}, misplaced: onEditing | onAction, instead: deletes},
	{name: "orphanDependents", on: onDeleting, stems: []string{"orphan", "dependents"}, misplaced: onEditing | onAction, instead: deletes},
	{name: "gracePeriodSeconds", on: onDeleting, stems: []string{"grace"}, misplaced: onEditing | onAction, instead: deletes},
	{name: "ignoreStoreReadErrorWithClusterBreakingPotential", on: onDeleting, stems: []string{"ignorestore"}},
	{name: "uid", on: onDeleting, misplaced: onUpdate | onPatch | onAction, instead: conditions},
	{
		name: "fieldSelector", on: onDeleteCollection, stems: []string{"fieldsel", "metadataname"},
		aliases: []string{"field", "fields", "name", "names", "namespace"}, misplaced: onOne, instead: selects,
	},
	{
		name: "labelSelector", on: onDeleteCollection, stems: []string{"selector", "label"},
		aliases: []string{"l"}, misplaced: onOne, instead: selects,
	},
	{name: "resourceVersionMatch", on: onDeleteCollection, stems: []string{"resourceversionmatch"}, misplaced: onOne, instead: conditions},
	{name: "resourceVersion", on: onDeleteCollection, stems: []string{"resourceversion"}, aliases: []string{"rv"}, misplaced: onOne, instead: conditions},
	{name: "limit", on: onDeleteCollection},
	{name: "continue", on: onDeleteCollection, stems: []string{"continue"}},
	{name: "timeoutSeconds", on: onDeleteCollection},
}

// values are values of options. A parameter with such a name and no value is an option whose name was
// lost, as in "?All".
var values = [...]string{"all", "orphan", "background", "foreground"}

// CheckOptions checks the names of the parameters of a request that writes. It rejects with 400 what
// the sender probably meant as an option: a misspelt name, a name of another verb that would be a
// condition, an empty value of an option that selects. Other unknown parameters are ignored
// (QUERY-18).
//
// A handler calls it after authorization, unless the parameters belong to a handler of a user.
//
// Source: S2, S23.
func (i *Info) CheckOptions() error {
	if len(i.Query.Raw) == 0 {
		return nil
	}
	on := verbSet(i)
	if i.Subresource != "" && on == onCreate {
		on |= onAction
	}
	names := make([]string, 0, 8) // most requests have less, and then it takes no memory
	for name := range i.Query.Raw {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := i.Query.checkOption(name, on); err != nil {
			return err
		}
	}
	if on&onDeleting != 0 {
		return i.Query.checkEmpty(on)
	}
	return nil
}

func (q *Query) checkOption(name string, on verbs) error {
	o, ok := meantOption(name, on)
	switch {
	case !ok && isNameless(name, q.Raw.Get(name)):
		return status.BadRequest("query parameter %s is not an option; the name of one seems to be missing", quote(name))
	case !ok || o.on&on != 0 && o.name == name:
		return nil
	case o.on&on == 0:
		return status.BadRequest("query parameter %s does not apply to this request: %s", quote(name), o.instead)
	}
	return status.BadRequest("unknown query parameter %s; did you mean %q?", quote(name), o.name)
}

func isNameless(name, value string) bool {
	if !strings.ContainsFunc(name, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' }) { // some libraries add "_=<time>"
		return true
	}
	return value == "" && slices.Contains(values[:], nearly.Letters(name))
}

// meantOption returns the option of the verb that name is, or was probably meant to be.
func meantOption(name string, on verbs) (meant option, ok bool) {
	for _, o := range options {
		if (o.on|o.misplaced)&on != 0 && o.name == name {
			return o, true
		}
	}
	if slices.ContainsFunc(parameters[:], func(p parameter) bool { return p.name == name }) {
		return option{}, false // of another verb, and a write loses nothing without it
	}
	var known []string
	for _, o := range options {
		if (o.on|o.misplaced)&on != 0 {
			known = append(known, o.name)
		}
	}
	near, letters := nearly.Name(name, known), nearly.Letters(name)
	if near == "" && on&onDeleteCollection != 0 && strings.ContainsAny(name, "/=") {
		near = "labelSelector" // "?app.example.com/tier=web"
	}
	for _, o := range options {
		if (o.on|o.misplaced)&on != 0 && (near == o.name || near == "" && o.resembles(letters, on)) {
			return o, true
		}
	}
	return option{}, false
}

// resembles reports whether a name is another word for the option. Aliases count only where the
// option applies, because they are common words.
func (o option) resembles(letters string, on verbs) bool {
	return o.on&on != 0 && slices.Contains(o.aliases, letters) ||
		slices.ContainsFunc(o.stems, func(stem string) bool { return strings.Contains(letters, stem) })
}

// checkEmpty rejects options of a deletion that are given without a value. A script whose variable is
// empty would otherwise delete everything.
func (q *Query) checkEmpty(on verbs) error {
	for _, o := range options {
		if o.on&on == 0 || !q.Raw.Has(o.name) {
			continue
		}
		empty := q.Raw.Get(o.name) == ""
		switch o.name {
		case "labelSelector":
			empty = q.LabelSelector.Empty()
		case "fieldSelector":
			empty = q.FieldSelector.Empty()
		case "dryRun", "propagationPolicy":
			continue // whose values are checked with the others
		case "limit":
			if strings.HasPrefix(q.Raw.Get(o.name), "-") {
				return status.BadRequest("query parameter \"limit\" must not be negative for a deletion")
			}
		}
		if empty {
			return status.BadRequest("query parameter %q is empty; leave it out if the deletion shall not be limited by it", o.name)
		}
	}
	return nil
}
