package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// The operations of an entry.
const (
	opApply  = "Apply"
	opUpdate = "Update"
)

const fieldsV1 = "FieldsV1"

// owner identifies an entry of managedFields. Writes by one manager have the same owner only if
// operation and subresource are equal and, for updates, also the version.
//
// Source: SSA-21.
type owner struct {
	manager, operation, apiVersion, subresource string
}

// id returns the key of an owner within its object. The version of an apply is not part of it,
// because the next apply replaces the entry whatever its version. Conflicts are listed in the order
// of ids, which is the order of the entries as JSON.
func (o owner) id() string {
	if o.operation == opApply {
		o.apiVersion = ""
	}
	b := make([]byte, 0, len(o.manager)+len(o.apiVersion)+len(o.subresource)+72)
	b = json.AppendString(append(b, `{"manager":`...), o.manager)
	b = append(append(append(b, `,"operation":"`...), o.operation...), '"')
	if o.apiVersion != "" {
		b = json.AppendString(append(b, `,"apiVersion":`...), o.apiVersion)
	}
	if o.subresource != "" {
		b = json.AppendString(append(b, `,"subresource":`...), o.subresource)
	}
	return string(append(b, '}'))
}

// same reports whether two owners have the same id.
func (o owner) same(other owner) bool {
	return o.manager == other.manager && o.operation == other.operation && o.subresource == other.subresource &&
		(o.operation == opApply || o.apiVersion == other.apiVersion)
}

// entry holds an owner and what managedFields records about it.
type entry struct {
	owner
	time meta.Time      // zero if the entry has none
	tree map[string]any // as read; nil if new or to be written again
	set  *fieldpath.Set // as read
}

// managers holds the owners of an object's fields: the field sets and the entries, both by id.
type managers struct {
	sets    fieldpath.ManagedFields
	entries map[string]entry
}

func newManagers(n int) *managers {
	return &managers{sets: make(fieldpath.ManagedFields, n), entries: make(map[string]entry, n)}
}

// readManagers reads managedFields. If an owner has several entries, the last one wins.
func readManagers(list []any) (*managers, error) {
	m := newManagers(len(list) + 1)
	for i, item := range list {
		tree, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("managedFields[%d] must be an object", i)
		}
		e, err := readEntry(tree)
		if err != nil {
			return nil, fmt.Errorf("managedFields[%d]: %w", i, err)
		}
		id := e.id()
		m.entries[id] = e
		m.sets[id] = fieldpath.NewVersionedSet(e.set, fieldpath.APIVersion(e.apiVersion), e.operation == opApply)
	}
	return m, nil
}

func readEntry(tree map[string]any) (entry, error) {
	e, err := readHead(tree)
	if err != nil {
		return e, err
	}
	fields, ok := tree["fieldsV1"].(map[string]any)
	if !ok && tree["fieldsV1"] != nil {
		return e, fmt.Errorf("fieldsV1 must be an object")
	}
	if e.set, err = fieldsOf(fields); err != nil {
		return e, fmt.Errorf("fieldsV1: %w", err)
	}
	return e, nil
}

// readHead reads an entry except for its fields. The fast paths use it, because they do not need
// the fields as a set.
func readHead(tree map[string]any) (entry, error) {
	e := entry{tree: tree}
	wrong := "" // the first field that is no text
	text := func(name string) string {
		s, ok := tree[name].(string)
		if !ok && wrong == "" && tree[name] != nil {
			wrong = name
		}
		return s
	}
	e.manager, e.operation, e.apiVersion, e.subresource = text("manager"), text("operation"), text("apiVersion"), text("subresource")
	fieldsType, stamp := text("fieldsType"), text("time")
	switch {
	case wrong != "":
		return e, fmt.Errorf("%s must be a string", wrong)
	case e.operation != opApply && e.operation != opUpdate:
		return e, fmt.Errorf("operation must be Apply or Update, not %s", quoted(e.operation))
	case e.apiVersion == "":
		return e, fmt.Errorf("apiVersion must be set")
	case fieldsType != fieldsV1:
		return e, fmt.Errorf("fieldsType must be %s, not %s", fieldsV1, quoted(fieldsType))
	}
	if stamp != "" {
		var err error
		if e.time, err = meta.ParseTime(stamp); err != nil {
			return e, fmt.Errorf("time: %w", err)
		}
	}
	return e, nil
}

// forget drops the trees that were read, so that all entries are written again.
func (m *managers) forget() {
	for id, e := range m.entries {
		e.tree = nil
		m.entries[id] = e
	}
}

// own sets the fields of an owner. An empty set removes the owner.
func (m *managers) own(o owner, set *fieldpath.Set) {
	id := o.id()
	if set.Empty() {
		delete(m.sets, id)
		return
	}
	e := m.entries[id]
	e.owner = o
	m.entries[id] = e
	m.sets[id] = fieldpath.NewVersionedSet(set, fieldpath.APIVersion(o.apiVersion), o.operation == opApply)
}

// stamp sets the time of an owner's entry.
func (m *managers) stamp(o owner, t meta.Time) {
	id := o.id()
	e := m.entries[id]
	e.owner, e.time = o, t
	m.entries[id] = e
}

// list writes the entries as managedFields, nil if there are none. same reports whether the result
// equals the entries before.
func (m *managers) list(before []any) (out []any, same bool) {
	all := make([]entry, 0, len(m.sets))
	for id, set := range m.sets {
		e := m.entries[id]
		e.apiVersion = string(set.APIVersion())
		e.tree = e.write(set.Set())
		all = append(all, e)
	}
	slices.SortFunc(all, entry.compare)
	same = len(all) == len(before)
	for i, e := range all {
		out = append(out, e.tree)
		if same {
			was, _ := before[i].(map[string]any)
			same = sameMap(was, e.tree) || json.Equal(was, e.tree)
		}
	}
	return out, same
}

// compare defines the order of entries that clients expect: applies before updates, then by time,
// manager, version and subresource.
func (e entry) compare(other entry) int {
	return cmp.Or(
		strings.Compare(e.operation, other.operation),
		cmp.Compare(seconds(e.time), seconds(other.time)),
		strings.Compare(e.manager, other.manager),
		strings.Compare(e.apiVersion, other.apiVersion),
		strings.Compare(e.subresource, other.subresource))
}

// seconds returns a time at the precision with which entries are stored. A finer comparison would
// sort entries differently before and after they are stored.
func seconds(t meta.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// write returns the tree of an entry. It reuses the tree that was read if nothing changed.
func (e entry) write(set *fieldpath.Set) map[string]any {
	var fields any
	if e.tree != nil && e.set.Equals(set) {
		if e.tree["apiVersion"] == e.apiVersion && e.tree["time"] == e.stamp() {
			return e.tree
		}
		fields = e.tree["fieldsV1"]
	}
	if fields == nil {
		fields = fieldsTree(set)
	}
	return e.writeFields(fields)
}

// writeFields returns the tree of an entry with fields that are already in the form of FieldsV1.
func (e entry) writeFields(fields any) map[string]any {
	out := map[string]any{"manager": e.manager, "apiVersion": e.apiVersion, "fieldsType": fieldsV1, "fieldsV1": fields}
	if e.operation == opUpdate {
		out["operation"] = opUpdate // a constant needs no memory of its own
	} else {
		out["operation"] = e.operation
	}
	if stamp := e.stamp(); stamp != nil {
		out["time"] = stamp
	}
	if e.subresource != "" {
		out["subresource"] = e.subresource
	}
	return out
}

// stamp returns the time of the entry as it is written, or nil if it has none.
func (e entry) stamp() any {
	if e.time.IsZero() {
		return nil
	}
	var room [len("2006-01-02T15:04:05Z07:00")]byte
	return string(e.time.AppendFormatted(room[:0]))
}
