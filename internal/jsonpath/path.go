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
	fields, rest := p.Split()
	return fields, rest == nil && len(fields) > 0
}

// Split returns the fields that a path begins with, and a path from the value there to the values
// that p selects. The rest is nil if p only consists of fields. A value that is missing there has the
// same answer as null.
func (p *Path) Split() (fields []string, rest *Path) {
	if len(p.parts) != 1 || !selects(p.parts[0]) {
		return nil, p
	}
	steps := p.parts[0]
	for len(steps) > 0 && steps[0].op == opField {
		fields, steps = append(fields, steps[0].text), steps[1:]
	}
	if len(steps) == 0 && len(fields) > 0 {
		return fields, nil
	}
	return fields, &Path{parts: [][]step{steps}}
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
