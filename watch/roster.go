package watch

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// roster indexes a cache's cursors by what they wait for, so that a commit looks only at those it
// may concern. Cursors with equal filters form a group, which is matched once. A group is filed
// under the most specific requirement of its filter, and a commit looks only in the few places
// where its entries belong. Guarded by the cache's lock.
//
// A cursor stays in the roster for its whole life. Its parked flag says whether a commit must wake
// it.
type roster struct {
	groups map[question]*group
	places map[place][]filed
	fields []int          // by declared field: the number of groups filed under a value of it
	labels map[string]int // by label: the number of groups filed under it or a value of it
	count  int            // cursors

	before storage.Revision // where the cache was before the change that unpark looks at
}

// question is a filter in comparable form.
type question struct{ namespace, name, labels, fields, shards string }

// group is the cursors with one filter.
type group struct {
	question question
	filter   Filter
	places   []place
	slots    []int // in the lists of places
	cursors  []*Cursor
}

// filed is a group in the list of the nth of its places.
type filed struct {
	group *group
	nth   int
}

// place is a key of the roster.
type place struct {
	field   int // a declared field with the value a, or one of the below
	a, b, c string
}

const (
	placeAll       = -1 // everything
	placeNamespace = -2 // a is the namespace
	placeName      = -3 // a is the name, in any namespace
	placeObject    = -4 // a is the namespace, b the name
	placeLabel     = -5 // a is the namespace or "" for any, b a label that must be there
	placeValue     = -6 // as placeLabel, with c as the value
)

// maxValues is the largest number of label values under which a group is filed. With more, it is
// filed under the label alone.
const maxValues = 16

func newRoster(fields int) roster {
	return roster{
		groups: make(map[question]*group),
		places: make(map[place][]filed),
		fields: make([]int, fields),
		labels: make(map[string]int),
	}
}

// placesOf returns where a filter's cursors are filed: every object that it matches belongs to one
// of these places.
func placesOf(f *Filter, fields []string) []place {
	namespace, name := f.pinned()
	switch {
	case name != "" && namespace != "":
		return []place{{field: placeObject, a: namespace, b: name}}
	case name != "":
		return []place{{field: placeName, a: name}}
	}
	for i, field := range fields {
		if value, ok := f.Fields.Exact(field); ok {
			return []place{{field: i, a: value}}
		}
	}
	if places := labelPlaces(namespace, f.Labels); places != nil {
		return places
	}
	if namespace != "" {
		return []place{{field: placeNamespace, a: namespace}}
	}
	return []place{{field: placeAll}}
}

// labelPlaces returns the places for the required label with the fewest values, for a label that
// must exist, or nil.
func labelPlaces(namespace string, selector meta.Selector) []place {
	if selector.Empty() {
		return nil
	}
	var label string
	var values []string
	for _, r := range selector.Requirements() {
		switch r.Op {
		case meta.In:
			if len(r.Values) <= maxValues && (values == nil || len(r.Values) < len(values)) {
				label, values = r.Key, r.Values
				continue
			}
		case meta.NotIn, meta.DoesNotExist:
			continue // hold without the label, too
		}
		if label == "" {
			label = r.Key
		}
	}
	if label == "" {
		return nil
	}
	if values == nil {
		return []place{{field: placeLabel, a: namespace, b: label}}
	}
	places := make([]place, len(values))
	for i, value := range values {
		places[i] = place{field: placeValue, a: namespace, b: label, c: value}
	}
	return places
}

// add files a cursor under its filter and sets its group.
func (r *roster) add(c *Cursor, f *Filter, fields []string) {
	q := question{f.Namespace, f.Name, f.Labels.String(), f.Fields.String(), f.Shards.String()}
	g, ok := r.groups[q]
	if !ok {
		g = &group{question: q, filter: *f, places: placesOf(f, fields)}
		g.slots = make([]int, len(g.places))
		r.groups[q] = g
		for nth, p := range g.places {
			g.slots[nth] = len(r.places[p])
			r.places[p] = append(r.places[p], filed{g, nth})
			r.account(p, 1)
		}
	}
	c.group, c.slot = g, len(g.cursors)
	g.cursors = append(g.cursors, c)
	r.count++
}

func (r *roster) account(p place, n int) {
	switch {
	case p.field >= 0:
		r.fields[p.field] += n
	case p.field == placeLabel || p.field == placeValue:
		if r.labels[p.b] += n; r.labels[p.b] == 0 {
			delete(r.labels, p.b)
		}
	}
}

func (r *roster) remove(c *Cursor) {
	g := c.group
	last := len(g.cursors) - 1
	g.cursors[c.slot] = g.cursors[last]
	g.cursors[c.slot].slot = c.slot
	g.cursors[last] = nil
	g.cursors = g.cursors[:last]
	r.count--
	if last > 0 {
		return
	}
	delete(r.groups, g.question)
	for nth, p := range g.places {
		r.take(p, g.slots[nth])
		r.account(p, -1)
	}
}

// take removes the group at a slot of a place's list.
func (r *roster) take(p place, slot int) {
	list := r.places[p]
	last := len(list) - 1
	list[slot] = list[last]
	list[slot].group.slots[list[slot].nth] = slot
	list[last] = filed{}
	if last == 0 {
		delete(r.places, p)
	} else {
		r.places[p] = list[:last]
	}
}

// all calls yield for every cursor.
func (r *roster) all(yield func(*Cursor)) {
	for _, g := range r.groups {
		for _, c := range g.cursors {
			yield(c)
		}
	}
}

// unpark sets the position of every parked cursor that the change concerns, and appends the cursor
// to woken. It looks up watchers of a declared field or a label under both the old and the new
// value. Nothing else of an object can change. The new position is before, the one that the cache had:
// a revision between that and the change may never have been issued, and a bookmark must not tell it.
func (r *roster) unpark(c *change, before storage.Revision, woken []*Cursor) []*Cursor {
	if r.count == 0 {
		return woken
	}
	r.before = before
	entry := c.next
	if entry == nil {
		entry = c.prev
	}
	namespace, name := entry.Namespace(), entry.Name()
	woken = r.unparkAt(place{field: placeAll}, c, woken)
	woken = r.unparkAt(place{field: placeNamespace, a: namespace}, c, woken)
	woken = r.unparkAt(place{field: placeName, a: name}, c, woken)
	woken = r.unparkAt(place{field: placeObject, a: namespace, b: name}, c, woken)
	for i, groups := range r.fields {
		if groups == 0 {
			continue
		}
		now := entry.field(i)
		woken = r.unparkAt(place{field: i, a: now}, c, woken)
		if c.prev == nil {
			continue
		}
		if was := c.prev.field(i); was != now {
			woken = r.unparkAt(place{field: i, a: was}, c, woken)
		}
	}
	if len(r.labels) > 0 {
		woken = r.unparkLabels(c, entry, woken)
	}
	return woken
}

// unparkLabels looks under the current labels (of a deleted object, the last ones) and under the
// removed ones.
func (r *roster) unparkLabels(c *change, now *Entry, woken []*Cursor) []*Cursor {
	namespace := now.Namespace()
	u := now.unpack()
	for range u.number() {
		woken = r.unparkLabel(namespace, meta.Label{Key: u.string(), Value: u.string()}, c, woken)
	}
	if c.prev == nil || c.prev == now {
		return woken
	}
	u = c.prev.unpack()
	for range u.number() {
		l := meta.Label{Key: u.string(), Value: u.string()}
		if value, ok := (*entryLabels)(now).Get(l.Key); !ok || value != l.Value {
			woken = r.unparkLabel(namespace, l, c, woken)
		}
	}
	return woken
}

func (r *roster) unparkLabel(namespace string, l meta.Label, c *change, woken []*Cursor) []*Cursor {
	if r.labels[l.Key] == 0 {
		return woken
	}
	for _, in := range [2]string{"", namespace} {
		woken = r.unparkAt(place{field: placeLabel, a: in, b: l.Key}, c, woken)
		woken = r.unparkAt(place{field: placeValue, a: in, b: l.Key, c: l.Value}, c, woken)
		if namespace == "" {
			break // a kind without namespaces
		}
	}
	return woken
}

func (r *roster) unparkAt(p place, c *change, woken []*Cursor) []*Cursor {
	for _, f := range r.places[p] {
		if f.group.filter.touches(c) {
			woken = f.group.unpark(c.revision, r.before, woken)
		}
	}
	return woken
}

func (g *group) unpark(revision, before storage.Revision, woken []*Cursor) []*Cursor {
	for _, cursor := range g.cursors {
		// A cursor may be parked ahead of the cache if it started at, or read from the store, a
		// later revision.
		if !cursor.parked || revision <= cursor.at {
			continue
		}
		cursor.parked = false
		cursor.at = max(cursor.at, before)
		woken = append(woken, cursor)
	}
	return woken
}
