package meta

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Operator says how a label requirement compares.
type Operator string

// The operators of label requirements. Only the first four exist in bodies
// ([LabelSelectorRequirement]).
const (
	In           Operator = "In"           // the label has one of the values: k=v, k==v, k in (…)
	NotIn        Operator = "NotIn"        // the label is absent or has another value: k!=v, k notin (…)
	Exists       Operator = "Exists"       // the label exists: k
	DoesNotExist Operator = "DoesNotExist" // the label is absent: !k
	GreaterThan  Operator = "Gt"           // the label is an integer above the value: k>1
	LessThan     Operator = "Lt"           // the label is an integer below the value: k<1
)

// Requirement is one condition on labels. Values are sorted and distinct for In and NotIn, empty
// for Exists and DoesNotExist, and one decimal integer for GreaterThan and LessThan.
type Requirement struct {
	Key    string
	Op     Operator
	Values []string
}

// requirement is a checked Requirement in a form that matches quickly. It never changes.
type requirement struct {
	key    string
	op     Operator
	values []string // sorted, distinct; In and NotIn only
	bound  int64    // GreaterThan and LessThan only
}

// newRequirement checks and normalizes. It takes ownership of values.
func newRequirement(key string, op Operator, values []string) (requirement, error) {
	if p := CheckLabelKey(key); p != "" {
		return requirement{}, fmt.Errorf("key %s: %s", quoteShort(key), p)
	}
	for _, v := range values {
		if p := CheckLabelValue(v); p != "" {
			return requirement{}, fmt.Errorf("value %s of key %s: %s", quoteShort(v), quoteShort(key), p)
		}
	}
	r := requirement{key: key, op: op}
	switch op {
	case In, NotIn:
		if len(values) == 0 {
			return requirement{}, fmt.Errorf("key %s: operator %s needs at least one value", quoteShort(key), op)
		}
		slices.Sort(values)
		r.values = slices.Compact(values)
	case Exists, DoesNotExist:
		if len(values) != 0 {
			return requirement{}, fmt.Errorf("key %s: operator %s takes no values", quoteShort(key), op)
		}
	case GreaterThan, LessThan:
		if len(values) != 1 {
			return requirement{}, fmt.Errorf("key %s: operator %s takes exactly one value", quoteShort(key), op)
		}
		n, ok := parseInt(values[0])
		if !ok {
			return requirement{}, fmt.Errorf("key %s: %s is not an integer", quoteShort(key), quoteShort(values[0]))
		}
		r.bound = n
	default:
		return requirement{}, fmt.Errorf("key %s: %s is not an operator", quoteShort(key), quoteShort(string(op)))
	}
	return r, nil
}

func (r *requirement) matches(l Labels) bool {
	value, ok := l.Get(r.key)
	switch r.op {
	case In:
		return ok && r.has(value)
	case NotIn:
		return !ok || !r.has(value)
	case Exists:
		return ok
	case DoesNotExist:
		return !ok
	default:
		if !ok {
			return false
		}
		n, ok := parseInt(value)
		return ok && (r.op == GreaterThan && n > r.bound || r.op == LessThan && n < r.bound)
	}
}

func (r *requirement) has(value string) bool {
	if len(r.values) == 1 {
		return r.values[0] == value
	}
	_, ok := slices.BinarySearch(r.values, value)
	return ok
}

func (r *requirement) public() Requirement {
	p := Requirement{Key: r.key, Op: r.op, Values: slices.Clone(r.values)}
	if r.op == GreaterThan || r.op == LessThan {
		p.Values = []string{strconv.FormatInt(r.bound, 10)}
	}
	return p
}

// compareRequirements orders by key, operator, values: the order of the canonical form.
func compareRequirements(a, b requirement) int {
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c
	}
	if c := strings.Compare(string(a.op), string(b.op)); c != 0 {
		return c
	}
	if a.bound != b.bound {
		if a.bound < b.bound {
			return -1
		}
		return 1
	}
	return slices.Compare(a.values, b.values)
}

func (r *requirement) appendTo(b *strings.Builder) {
	switch r.op {
	case Exists:
		b.WriteString(r.key)
	case DoesNotExist:
		b.WriteByte('!')
		b.WriteString(r.key)
	case GreaterThan, LessThan:
		b.WriteString(r.key)
		if r.op == GreaterThan {
			b.WriteByte('>')
		} else {
			b.WriteByte('<')
		}
		b.WriteString(strconv.FormatInt(r.bound, 10))
	default:
		r.appendSet(b)
	}
}

func (r *requirement) appendSet(b *strings.Builder) {
	b.WriteString(r.key)
	single, several := "=", " in ("
	if r.op == NotIn {
		single, several = "!=", " notin ("
	}
	if len(r.values) == 1 {
		b.WriteString(single)
		b.WriteString(r.values[0])
		return
	}
	b.WriteString(several)
	for i, v := range r.values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(v)
	}
	b.WriteByte(')')
}

// parseInt is strconv.ParseInt in base 10 without the allocated error. It runs once per label and
// match.
func parseInt(s string) (int64, bool) {
	negative := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if s == "" {
		return 0, false
	}
	var n uint64
	limit := uint64(1<<63 - 1)
	if negative {
		limit = 1 << 63
	}
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if !isDigit(s[i]) || n > (limit-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}
