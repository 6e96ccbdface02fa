package status

import (
	"slices"
	"strconv"
	"strings"
)

// Path identifies a field of an object: "spec.items[0].name". Paths are linked from the end to the
// root and never change, so a validator can keep and share one per level. A nil Path is the object
// itself.
type Path struct {
	parent *Path
	text   string // one name, or one "[…]"
}

// At returns the path of these names from the root. Without names it is the object itself.
func At(names ...string) *Path {
	var p *Path
	for _, n := range names {
		p = p.Child(n)
	}
	return p
}

// Child returns the path of a named field.
func (p *Path) Child(name string) *Path { return &Path{parent: p, text: name} }

// Index returns the path of the i-th item of a list.
func (p *Path) Index(i int) *Path { return &Path{parent: p, text: "[" + strconv.Itoa(i) + "]"} }

// Key returns the path of a map entry, or of an item of a keyed list.
func (p *Path) Key(s string) *Path { return &Path{parent: p, text: "[" + s + "]"} }

// String returns the path as responses show it; it is empty for the object itself.
func (p *Path) String() string {
	var most [16]string
	parts, length := most[:0], 0
	for ; p != nil; p = p.parent {
		parts, length = append(parts, p.text), length+len(".")+len(p.text)
	}
	var b strings.Builder
	b.Grow(length)
	for _, part := range slices.Backward(parts) {
		if b.Len() > 0 && !strings.HasPrefix(part, "[") {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}
