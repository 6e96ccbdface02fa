package json

import "slices"

// Paths selects the places whose values ScanObject returns. It is immutable and safe for concurrent
// use.
type Paths struct {
	root  *place
	count int
}

// place is a node in the tree of paths.
type place struct {
	value   int // the index of the path that ends here, or -1
	members map[string]*place
}

// NewPaths compiles paths of field names. They must not lead into metadata.
func NewPaths(paths ...[]string) *Paths {
	out := &Paths{root: &place{value: -1}, count: len(paths)}
	for i, path := range paths {
		at := out.root
		for _, name := range path {
			next := at.members[name]
			if next == nil {
				next = &place{value: -1}
				if at.members == nil {
					at.members = map[string]*place{}
				}
				at.members[name] = next
			}
			at = next
		}
		at.value = i
	}
	return out
}

// wanted scans the value of a member and records the values that the paths select in it.
func (m *metadataScanner) wanted(name []byte) *SyntaxError {
	if m.place == nil {
		return m.skip(maxEncodeDepth)
	}
	outside := m.place
	next := outside.members[string(name)]
	if next == nil {
		return m.skip(maxEncodeDepth)
	}
	if m.peek() == '{' && len(next.members) > 0 {
		m.place = next
		err := m.object(func(name []byte, _ int) *SyntaxError { return m.wanted(name) })
		m.place = outside
		return err
	}
	if next.value < 0 {
		return m.skip(maxEncodeDepth)
	}
	return m.scalar(&m.values[next.value])
}

// scalar reads a string, an integer or a boolean. For other values it leaves to unchanged.
func (m *metadataScanner) scalar(to *string) (err *SyntaxError) {
	switch c := m.peek(); {
	case c == '"':
		*to, err = m.text()
		return err
	case c == 't' || c == 'f':
		start := m.pos
		if err := m.skip(maxEncodeDepth); err != nil {
			return err
		}
		*to = view(m.data[start:m.pos])
		return nil
	case c == '-' || '0' <= c && c <= '9':
		raw, integer, err := m.numberBytes()
		if err == nil && integer && !slices.Equal(raw, []byte("-0")) {
			*to = view(raw)
		}
		return err
	}
	return m.skip(maxEncodeDepth)
}
