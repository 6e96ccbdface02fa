package watch

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// roster is the index of a cache's cursors by what they wait for, so that a commit looks only at
// those it may concern. Cursors that ask for the same are a group, judged once. A group is filed
// under the most particular thing its filter insists on, and a commit looks in the few places its
// entries belong to. Guarded by the cache's lock.
//
// A cursor stays in the roster for its whole life. Whether a commit has to do anything about it is
// its parked flag.
type roster struct {
	groups map[question]*group
	places map[place][]filed
	fields []int          // by declared field: how many groups are filed under a value of it
	labels map[string]int // by label: how many groups are filed under it or a value of it
	count  int            // cursors
}

// question is a filter in a form that can be compared.
type question struct{ namespace, name, labels, fields string }

// group is the cursors with one filter.
type group struct {
	question question
	filter   Filter
	places   []place
	slots    []int // in the lists of these places
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
	placeValue     = -6 // as placeLabel, and c its value
)

// maxValues is under how many values of a label a group is filed: more of them are filed under the
// label alone.
const maxValues = 16

func newRoster(fields int) roster {
	return roster{
		groups: make(map[question]*group),
		places: make(map[place][]filed),
		fields: make([]int, fields),
		labels: make(map[string]int),
	}
}

// placesOf finds where a filter's cursors are filed: nothing that it matches belongs to none of
// these places.
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

// labelPlaces is the values of the label of which the fewest will do, or a label that must be
// there, or nothing.
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
			continue // hold where there is no label as well
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

// add files a cursor with a filter, and tells it the group it belongs to.
func (r *roster) add(c *Cursor, f *Filter, fields []string) {
	q := question{f.Namespace, f.Name, f.Labels.String(), f.Fields.String()}
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

// take removes what is at a slot of a place's list.
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

// unpark gives every parked cursor that the change concerns its position, and appends it to woken.
// Watchers of a declared field or a label are looked for under the value before and the value now;
// everything else cannot change.
func (r *roster) unpark(c *change, woken []*Cursor) []*Cursor {
	if r.count == 0 {
		return woken
	}
	entry := c.next
	if entry == nil {
		entry = c.prev
	}
	namespace, name := entry.namespace, entry.name
	woken = r.unparkAt(place{field: placeAll}, c, woken)
	woken = r.unparkAt(place{field: placeNamespace, a: namespace}, c, woken)
	woken = r.unparkAt(place{field: placeName, a: name}, c, woken)
	woken = r.unparkAt(place{field: placeObject, a: namespace, b: name}, c, woken)
	for i, groups := range r.fields {
		if groups == 0 {
			continue
		}
		now := entry.values()[i]
		woken = r.unparkAt(place{field: i, a: now}, c, woken)
		if c.prev != nil && c.prev.values()[i] != now {
			woken = r.unparkAt(place{field: i, a: c.prev.values()[i]}, c, woken)
		}
	}
	if len(r.labels) > 0 {
		woken = r.unparkLabels(c, entry, woken)
	}
	return woken
}

// unparkLabels looks under the labels that are there now, or were at last, and under those that are
// no more.
func (r *roster) unparkLabels(c *change, now *Entry, woken []*Cursor) []*Cursor {
	for _, l := range now.labels {
		woken = r.unparkLabel(now.namespace, l, c, woken)
	}
	if c.prev == nil || c.prev == now {
		return woken
	}
	for _, l := range c.prev.labels {
		if value, ok := now.labels.Get(l.Key); !ok || value != l.Value {
			woken = r.unparkLabel(now.namespace, l, c, woken)
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
			woken = f.group.unpark(c.revision, woken)
		}
	}
	return woken
}

func (g *group) unpark(revision storage.Revision, woken []*Cursor) []*Cursor {
	for _, cursor := range g.cursors {
		// A cursor may be parked ahead of the cache: it began at, or read from the store, a
		// revision still to come.
		if !cursor.parked || revision <= cursor.at {
			continue
		}
		cursor.parked = false
		cursor.at = revision - 1
		woken = append(woken, cursor)
	}
	return woken
}
