package admission

// Notes is what plugins remember of one write. A write that loses a race against another one begins
// again, and asks its plugins again. A plugin that has an effect outside of the object, such as a count,
// notes what it has done, and does not do it twice. The zero value is empty. Notes belong to one request,
// whose tries follow one another, so they need no lock.
type Notes struct{ of map[string]any }

// Get returns what a plugin has noted, nil if it has noted nothing. Nil Notes are empty.
func (n *Notes) Get(plugin string) any {
	if n == nil {
		return nil
	}
	return n.of[plugin]
}

// Set replaces what a plugin has noted. Nil Notes, as those of a Request made by hand, keep nothing.
func (n *Notes) Set(plugin string, note any) {
	if n == nil {
		return
	}
	if n.of == nil {
		n.of = map[string]any{}
	}
	n.of[plugin] = note
}
