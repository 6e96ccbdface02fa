package crd

import (
	"fmt"
	"slices"
	"strings"
)

// takenNames are the names that kinds of a group have. Names of resources and of kinds do not meet.
type takenNames struct{ resources, kinds map[string]bool }

func newTakenNames() *takenNames {
	return &takenNames{resources: map[string]bool{}, kinds: map[string]bool{}}
}

func (t *takenNames) add(n CustomResourceDefinitionNames) {
	for _, word := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		t.resources[word] = t.resources[word] || word != ""
	}
	for _, word := range []string{n.Kind, n.ListKind} {
		t.kinds[word] = t.kinds[word] || word != ""
	}
}

// noteBuiltin notes the names of the kinds that the program itself serves: no definition gets them.
//
// Source: CRD-22.
func (c *controller) noteBuiltin() {
	c.builtin = map[string]*takenNames{}
	for _, one := range c.engine.Set().All() {
		r := one.Resource
		if d := c.known[r.Plural+"."+r.Group]; d != nil && d.is(Established) {
			continue // that of a definition, in a fork
		}
		if c.builtin[r.Group] == nil {
			c.builtin[r.Group] = newTakenNames()
		}
		c.builtin[r.Group].add(CustomResourceDefinitionNames{
			Plural: r.Plural, Singular: r.Names.Singular, Kind: r.Names.Kind, ListKind: r.Names.ListKind, ShortNames: r.Names.ShortNames,
		})
	}
}

// taken collects the names that kinds of a group have.
func (c *controller) taken(group string) *takenNames {
	out := newTakenNames()
	if own := c.builtin[group]; own != nil {
		for word := range own.resources {
			out.resources[word] = true
		}
		for word := range own.kinds {
			out.kinds[word] = true
		}
	}
	for _, d := range c.known {
		if d.Spec.Group == group {
			out.add(d.Status.AcceptedNames)
		}
	}
	return out
}

// judgeNames decides which names of a definition are served. Names that another kind of the group has
// are not accepted; a definition keeps those that it had.
//
// Source: CRD-02.
func (c *controller) judgeNames(d *definition) (CustomResourceDefinitionNames, CustomResourceDefinitionCondition) {
	want, accepted := d.Spec.Names, d.Status.AcceptedNames
	out := CustomResourceDefinitionCondition{Type: NamesAccepted, Status: "True", Reason: "NoConflicts", Message: "no conflicts found"}
	if equalNames(want, accepted) && d.is(NamesAccepted) {
		return accepted, out
	}
	taken := c.taken(d.Spec.Group)
	judge := func(word string, have *string, by map[string]bool, reason string) {
		if word != *have && by[word] {
			out.Status, out.Reason, out.Message = "False", reason, fmt.Sprintf("%q is already in use", word)
			return
		}
		*have = word
	}
	judge(want.Plural, &accepted.Plural, taken.resources, "PluralConflict")
	judge(want.Singular, &accepted.Singular, taken.resources, "SingularConflict")
	var used []string
	for _, short := range want.ShortNames {
		if !slices.Contains(accepted.ShortNames, short) && taken.resources[short] {
			used = append(used, fmt.Sprintf("%q is already in use", short))
		}
	}
	switch len(used) {
	case 0:
		accepted.ShortNames = want.ShortNames
	case 1:
		out.Status, out.Reason, out.Message = "False", "ShortNamesConflict", used[0]
	default:
		out.Status, out.Reason, out.Message = "False", "ShortNamesConflict", "["+strings.Join(used, ", ")+"]"
	}
	judge(want.Kind, &accepted.Kind, taken.kinds, "KindConflict")
	judge(want.ListKind, &accepted.ListKind, taken.kinds, "ListKindConflict")
	accepted.Categories = want.Categories
	return accepted, out
}

func equalNames(a, b CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}
