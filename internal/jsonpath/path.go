package jsonpath

// Path is a parsed path. It is immutable and safe for concurrent use.
type Path struct {
	parts [][]step // the actions in braces and the text between them
}

// op is what a step does.
type op uint8

const (
	opText       op = iota // selects its own text
	opNumber               // selects its own number
	opBool                 // selects its own boolean
	opIdentifier           // a keyword of templates
	opField
	opSlice
	opWildcard
	opRecursive
	opUnion
	opFilter
)

// step selects values from values.
type step struct {
	op       op
	text     string // of a field, a text or a keyword; the operator of a filter
	value    any    // of a number or a boolean
	slice    [3]bound
	branches [][]step // of a union; the left and the right side of a filter
}

// bound is the start, the end or the step of a slice.
type bound struct {
	value   int
	known   bool
	derived bool // the end of a single position
}

// exists is the operator of a filter without a comparison.
const exists = "exists"

// Plain returns the field names of a path that only consists of fields.
func (p *Path) Plain() (fields []string, ok bool) {
	if len(p.parts) != 1 || len(p.parts[0]) == 0 {
		return nil, false
	}
	fields = p.fields()
	return fields, len(fields) == len(p.parts[0])
}

// fields returns the names of the fields that a path begins with.
func (p *Path) fields() (names []string) {
	for _, s := range p.parts[0] {
		if s.op != opField {
			break
		}
		names = append(names, s.text)
	}
	return names
}

// Split returns at most so many fields that a path begins with, and a path from the value there to
// the values that p selects. It returns no fields if a value that is missing there has another answer
// than null.
func (p *Path) Split(most int) (fields []string, rest *Path) {
	if len(p.parts) != 1 || !selects(p.parts[0]) {
		return nil, p
	}
	fields = p.fields()
	fields = fields[:min(most, len(fields))]
	return fields, &Path{parts: [][]step{p.parts[0][len(fields):]}}
}

// selects reports whether steps only select from what they are given.
func selects(steps []step) bool {
	for _, s := range steps {
		switch s.op {
		case opText, opNumber, opBool, opIdentifier:
			return false
		case opUnion:
			for _, branch := range s.branches {
				if !selects(branch) {
					return false
				}
			}
		}
	}
	return true
}
