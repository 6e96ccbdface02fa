package crd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
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

// noteBuiltin notes the names of the kinds that the program itself serves: no definition gets them. It also
// notes the versions that clients can ask for.
//
// Source: CRD-22.
func (c *controller) noteBuiltin() {
	c.builtin = map[string]*takenNames{}
	c.closed = map[string]bool{}
	for _, one := range c.engine.Set().All() {
		r := one.Resource
		if d := c.known[r.Plural+"."+r.Group]; d != nil && d.is(Established) {
			continue // that of a definition, in a fork
		}
		if c.closedVersions && c.engine.Set().Visible(one) {
			c.closed[r.APIVersion()] = true
		}
		if c.builtin[r.Group] == nil {
			c.builtin[r.Group] = newTakenNames()
		}
		c.builtin[r.Group].add(CustomResourceDefinitionNames{
			Plural: r.Plural, Singular: r.Names.Singular, Kind: r.Names.Kind, ListKind: r.Names.ListKind, ShortNames: r.Names.ShortNames,
		})
	}
}

// ClosedVersions keeps definitions from adding kinds to a version of a group that the program serves itself,
// as in kube-apiserver. Such a definition is established, and clients cannot ask for that version of its
// objects. Without it, the kinds of a version may come from the program and from definitions.
//
// Source: CRD-22.
func ClosedVersions() Option { return func(d *definitions) { d.closedVersions = true } }

// closeVersions hides resources in versions of the program.
func (c *controller) closeVersions(resources []*registry.Resource) {
	for _, r := range resources {
		r.Unserved = r.Unserved || c.closed[r.APIVersion()]
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
	for name := range c.groups[group] {
		out.add(c.known[name].Status.AcceptedNames)
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
	if d.named() {
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

// named reports whether a definition has all names that it wants.
func (d *definition) named() bool {
	return d.is(NamesAccepted) && equalNames(d.Spec.Names, d.Status.AcceptedNames)
}

// takeTurn returns the operation that goes along with accepting names of a group. Of several processes
// that judge names at the same moment, one replaces the record of the group. The others learn what it
// has accepted, and judge again.
func (c *controller) takeTurn(ctx context.Context, group string) (storage.Op, error) {
	key := storage.SysKey("crd-names", group)
	now, err := c.engine.Expected(ctx, key)
	if err != nil {
		return storage.Op{}, err
	}
	if now != c.turns[group] {
		if err := c.catchUp(ctx, group); err != nil {
			return storage.Op{}, err
		}
		c.turns[group] = now
	}
	return storage.Put(key, []byte(group), now), nil
}

// turnTaken notes that the record of a group is as old as what was written along with it.
func (c *controller) turnTaken(d *definition) {
	if rev, err := storage.ParseRevision(d.ResourceVersion); err == nil {
		c.turns[d.Spec.Group] = storage.Expect(rev) // or it is not that old, and the next turn finds out
	}
}

// catchUp reads the definitions of a group that have changed since the controller saw them.
func (c *controller) catchUp(ctx context.Context, group string) error {
	of, ok := c.engine.Set().Lookup(c.of)
	if !ok {
		return nil
	}
	if err := of.Cache.Fresh(ctx); err != nil {
		return err
	}
	list, err := c.engine.List(ctx, registry.Target{Resource: c.of}, registry.ListRequest{})
	if err != nil {
		return err
	}
	for e, err := range list.Items {
		if err != nil {
			return err
		}
		name := e.Name()
		if have := c.known[name]; !strings.HasSuffix(name, "."+group) || have != nil && have.ResourceVersion == e.Revision().String() {
			continue
		}
		d, err := read(e)
		if err != nil {
			continue // the controller says so when it meets it
		}
		c.know(d)
	}
	return nil
}

func equalNames(a, b CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}
