package table

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
)

// A node is one step on the way to the values that are looked for.
type node struct {
	name     []byte // the member's name as JSON text, with its quotes
	index    int    // the same as a position in a list, -1 if it is none
	slots    []int  // where to note the value found here
	children []*node
}

// at returns the node below n for path, making it if need be.
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
		return -1 // an error would cost memory for each name
	}
	if i, err := strconv.Atoi(segment); err == nil && i >= 0 && strconv.Itoa(i) == segment {
		return i
	}
	return -1
}

// A finder walks over one JSON text and notes the values at the nodes of a tree. The text is canonical JSON, without blanks;
// whatever it is, the finder stays within it.
type finder struct {
	data  []byte
	pos   int
	found [][]byte // by slot; nil where there is nothing

	// data[from:to] of the next text are its managed fields, in which nothing is looked for.
	from, to int
}

// managed tells whether the managed fields are where they are said to be: one who writes them without tells the same.
func (f *finder) managed() bool {
	const name = `"managedFields":`
	return f.from+len(name) <= f.to && f.to <= len(f.data) && string(f.data[f.from:f.from+len(name)]) == name
}

// find notes the values of all nodes below root.
func (f *finder) find(data []byte, root *node) error {
	f.data, f.pos = data, 0
	clear(f.found)
	ok := len(data) > 0 && data[0] == '{' && f.value(root)
	f.from, f.to = 0, 0
	if !ok {
		return fmt.Errorf("the text of an object is damaged near byte %d", f.pos)
	}
	return nil
}

// value steps over a value, into it if something below it is looked for. It reports false where the text ends early.
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

// skip steps over a value of any kind.
func (f *finder) skip() bool {
	start, depth := f.pos, 0
	for f.pos < len(f.data) {
		switch f.data[f.pos] {
		case '"':
			if !f.text() {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return f.pos > start // the end of what the value is in
			}
			if depth--; depth == 0 {
				f.pos++
				return true
			}
		case ',':
			if depth == 0 {
				return f.pos > start
			}
		}
		f.pos++
	}
	return false
}

// text steps over a string.
func (f *finder) text() bool {
	for i := f.pos + 1; ; {
		next := bytes.IndexByte(f.data[i:], '"')
		if next < 0 {
			f.pos = len(f.data)
			return false
		}
		i += next + 1
		escapes := 0
		for f.data[i-2-escapes] == '\\' && i-2-escapes > f.pos {
			escapes++
		}
		if escapes%2 == 0 {
			f.pos = i
			return true
		}
	}
}
