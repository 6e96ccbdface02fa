package table

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
)

// A node is one step on the path to the values to find.
type node struct {
	name     []byte // the member's name as JSON, with quotes
	index    int    // the name as a list index, or -1
	slots    []int  // where to store the value at this node
	children []*node
}

// at returns the node at path below n and creates it if necessary.
func (n *node) at(path ...string) *node {
	for _, segment := range path {
		name := json.AppendString(nil, segment)
		i := slices.IndexFunc(n.children, func(c *node) bool { return bytes.Equal(c.name, name) })
		if i < 0 {
			i = len(n.children)
			n.children = append(n.children, &node{name: name, index: position(segment)})
		}
		n = n.children[i]
	}
	return n
}

func position(segment string) int {
	if segment == "" || segment[0] < '0' || segment[0] > '9' {
		return -1 // check first: an error would allocate for each name
	}
	if i, err := strconv.Atoi(segment); err == nil && i >= 0 && strconv.Itoa(i) == segment {
		return i
	}
	return -1
}

// A finder scans JSON and records the values at the nodes of a tree. It expects canonical JSON
// without whitespace but stays within bounds for any text.
type finder struct {
	data  []byte
	pos   int
	found [][]byte // by slot; nil if absent

	// data[from:to] of the next text are its managed fields. They are skipped.
	from, to int
}

// managed checks that the managed fields are at the given position. Callers give the same position
// for objects from which the fields have been omitted.
func (f *finder) managed() bool {
	const name = `"managedFields":`
	return f.from+len(name) <= f.to && f.to <= len(f.data) && string(f.data[f.from:f.from+len(name)]) == name
}

// find records the values of all nodes below root.
func (f *finder) find(data []byte, root *node) error {
	f.data, f.pos = data, 0
	clear(f.found)
	ok := len(data) > 0 && data[0] == '{' && f.value(root)
	f.from, f.to = 0, 0
	if !ok {
		return fmt.Errorf("the JSON of an object is damaged near byte %d", f.pos)
	}
	return nil
}

// value scans a value. It descends if the tree has nodes below it. ok is false if the text is
// incomplete.
func (f *finder) value(n *node) (ok bool) {
	start := f.pos
	switch {
	case len(n.children) > 0 && f.at('{'):
		ok = f.object(n)
	case len(n.children) > 0 && f.at('['):
		ok = f.list(n)
	default:
		ok = f.skip()
	}
	for _, slot := range n.slots {
		f.found[slot] = f.data[start:f.pos]
	}
	return ok
}

func (f *finder) object(n *node) bool {
	f.pos++
	for !f.at('}') {
		if f.pos == f.from && f.managed() {
			f.pos = f.to
			continue
		}
		start := f.pos
		if !f.at('"') || !f.text() {
			return false
		}
		name := f.data[start:f.pos]
		if !f.at(':') {
			return false
		}
		f.pos++
		if child := n.child(name); child == nil {
			if !f.skip() {
				return false
			}
		} else if !f.value(child) {
			return false
		}
		if !f.at(',') && !f.at('}') {
			return false
		}
		if f.at(',') {
			f.pos++
		}
	}
	f.pos++
	return true
}

func (n *node) child(name []byte) *node {
	for _, c := range n.children {
		if bytes.Equal(c.name, name) {
			return c
		}
	}
	return nil
}

func (f *finder) list(n *node) bool {
	f.pos++
	for i := 0; !f.at(']'); i++ {
		item := slices.IndexFunc(n.children, func(c *node) bool { return c.index == i })
		if item < 0 {
			if !f.skip() {
				return false
			}
		} else if !f.value(n.children[item]) {
			return false
		}
		if !f.at(',') && !f.at(']') {
			return false
		}
		if f.at(',') {
			f.pos++
		}
	}
	f.pos++
	return true
}

func (f *finder) at(c byte) bool { return f.pos < len(f.data) && f.data[f.pos] == c }

// skip skips a value of any type.
func (f *finder) skip() (ok bool) {
	f.pos, ok = json.SkipValue(f.data, f.pos)
	return ok
}

// text skips a string.
func (f *finder) text() (ok bool) {
	f.pos, ok = json.SkipText(f.data, f.pos)
	return ok
}
