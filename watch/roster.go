package watch

// roster is the index of a cache's cursors by what they wait for, so that a commit looks only at those it may concern.
// A cursor is in exactly one place, under the most particular thing its filter insists on; a commit looks in the few
// places its entries belong to. Guarded by the cache's lock.
//
// A cursor stays in the roster for its whole life. Whether a commit has to do anything about it is its parked flag.
type roster struct {
	places map[place][]*Cursor
	fields []int // by declared field: how many cursors are filed under a value of it
}

// place is a key of the roster.
type place struct {
	field int // a declared field, or one of the below
	a, b  string
}

const (
	placeAll       = -1 // everything
	placeNamespace = -2 // a is the namespace
	placeName      = -3 // a is the name, in any namespace
	placeObject    = -4 // a is the namespace, b the name
)

func newRoster(fields int) roster {
	return roster{places: make(map[place][]*Cursor), fields: make([]int, fields)}
}

// placeOf finds where a filter's cursors are filed.
func placeOf(f *Filter, fields []string) place {
	namespace, name := f.pinned()
	switch {
	case name != "" && namespace != "":
		return place{field: placeObject, a: namespace, b: name}
	case name != "":
		return place{field: placeName, a: name}
	}
	for i, field := range fields {
		if value, ok := f.Fields.Exact(field); ok {
			return place{field: i, a: value}
		}
	}
	if namespace != "" {
		return place{field: placeNamespace, a: namespace}
	}
	return place{field: placeAll}
}

func (r *roster) add(c *Cursor) {
	c.slot = len(r.places[c.place])
	r.places[c.place] = append(r.places[c.place], c)
	if c.place.field >= 0 {
		r.fields[c.place.field]++
	}
}

func (r *roster) remove(c *Cursor) {
	list := r.places[c.place]
	last := len(list) - 1
	list[c.slot] = list[last]
	list[c.slot].slot = c.slot
	list[last] = nil
	if last == 0 {
		delete(r.places, c.place)
	} else {
		r.places[c.place] = list[:last]
	}
	if c.place.field >= 0 {
		r.fields[c.place.field]--
	}
}

// all calls yield for every cursor.
func (r *roster) all(yield func(*Cursor)) {
	for _, list := range r.places {
		for _, c := range list {
			yield(c)
		}
	}
}

// unpark gives every parked cursor that the change concerns its position, and appends it to woken. Watchers of a
// declared field are looked for under the value before and the value now; everything else cannot change.
func (r *roster) unpark(c *change, woken []*Cursor) []*Cursor {
	if len(r.places) == 0 {
		return woken
	}
	entry := c.next
	if entry == nil {
		entry = c.prev
	}
	namespace, name := entry.facts.Namespace, entry.facts.Name
	woken = r.unparkAt(place{field: placeAll}, c, woken)
	woken = r.unparkAt(place{field: placeNamespace, a: namespace}, c, woken)
	woken = r.unparkAt(place{field: placeName, a: name}, c, woken)
	woken = r.unparkAt(place{field: placeObject, a: namespace, b: name}, c, woken)
	for i, cursors := range r.fields {
		if cursors == 0 {
			continue
		}
		now := entry.facts.Fields[i]
		woken = r.unparkAt(place{field: i, a: now}, c, woken)
		if c.prev != nil && c.prev.facts.Fields[i] != now {
			woken = r.unparkAt(place{field: i, a: c.prev.facts.Fields[i]}, c, woken)
		}
	}
	return woken
}

func (r *roster) unparkAt(p place, c *change, woken []*Cursor) []*Cursor {
	for _, cursor := range r.places[p] {
		// A cursor may be parked ahead of the cache: it began at, or read from the store, a revision still to come.
		if !cursor.parked || c.revision <= cursor.at || !cursor.filter.touches(c) {
			continue
		}
		cursor.parked = false
		cursor.at = c.revision - 1
		woken = append(woken, cursor)
	}
	return woken
}
