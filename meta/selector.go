package meta

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxRequirements is the largest number of requirements in a label or field selector. Each
// requirement costs up to one look-up per object, so this bounds the work that one request can
// cause.
const MaxRequirements = 1000

// Selector is a set of requirements on labels, all of which must hold. The zero value matches
// everything. A Selector never changes and is safe for concurrent use. Source: QUERY-19.
type Selector struct{ reqs []requirement } // sorted, distinct

// LabelSelector is the form of a selector in request and object bodies. All of its parts must hold.
// [SelectorFrom] converts it.
type LabelSelector struct {
	MatchLabels      map[string]string          `json:"matchLabels,omitempty" protobuf:"bytes,1,rep,name=matchLabels"`
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty" protobuf:"bytes,2,rep,name=matchExpressions"`
}

// LabelSelectorRequirement is one condition of a LabelSelector. Operator is In, NotIn, Exists or
// DoesNotExist.
type LabelSelectorRequirement struct {
	Key      string   `json:"key" protobuf:"bytes,1,opt,name=key"`
	Operator Operator `json:"operator" protobuf:"bytes,2,opt,name=operator"`
	Values   []string `json:"values,omitempty" protobuf:"bytes,3,rep,name=values"`
}

// ParseSelector parses a label selector. An invalid selector is an error; it never matches
// everything.
//
// Requirements are separated by commas, and blanks between tokens are ignored. Each requirement has
// one of the forms
//
//	k   !k   k=v   k==v   k!=v   k in (v,w)   k notin (v,w)   k>1   k<1
//
// k!=v and notin also match objects without the label. Values may be empty ("k=", "k in (,v)").
//
// Parsing takes linear time, apart from sorting the values. Every error starts with "unable to
// parse requirement: ", quotes only short parts of s, and belongs in a 400 response.
func ParseSelector(s string) (Selector, error) {
	p := selectorParser{rest: s}
	reqs, err := p.parse()
	if err != nil {
		return Selector{}, fmt.Errorf("unable to parse requirement: %w", err)
	}
	return canonicalSelector(reqs), nil
}

// SelectorFrom converts the body form of a selector. As in every Kubernetes API, nil matches
// nothing and an empty selector matches everything. An unknown operator, an invalid key or an
// invalid value is an error.
func SelectorFrom(s *LabelSelector) (Selector, error) {
	if s == nil {
		return Nothing(), nil
	}
	reqs := make([]Requirement, 0, min(len(s.MatchLabels)+len(s.MatchExpressions), MaxRequirements+1))
	for k, v := range s.MatchLabels {
		reqs = append(reqs, Requirement{Key: k, Op: In, Values: []string{v}})
	}
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case In, NotIn, Exists, DoesNotExist:
		default:
			return Selector{}, fmt.Errorf("%s is not a valid label selector operator", quoteShort(string(e.Operator)))
		}
		reqs = append(reqs, Requirement{Key: e.Key, Op: e.Operator, Values: e.Values})
	}
	return NewSelector(reqs...)
}

// NewSelector checks and combines requirements. Without requirements it returns a selector that
// matches everything. It copies the values, which may be in any order.
func NewSelector(reqs ...Requirement) (Selector, error) {
	if len(reqs) > MaxRequirements {
		return Selector{}, errTooManyRequirements
	}
	checked := make([]requirement, 0, len(reqs))
	for _, r := range reqs {
		c, err := newRequirement(r.Key, r.Op, slices.Clone(r.Values))
		if err != nil {
			return Selector{}, err
		}
		checked = append(checked, c)
	}
	return canonicalSelector(checked), nil
}

// Nothing returns a selector that matches no object: it requires one label to be both present and
// absent.
func Nothing() Selector {
	return canonicalSelector([]requirement{{key: "nothing", op: Exists}, {key: "nothing", op: DoesNotExist}})
}

func canonicalSelector(reqs []requirement) Selector {
	if len(reqs) == 0 {
		return Selector{}
	}
	slices.SortFunc(reqs, compareRequirements)
	same := func(a, b requirement) bool { return compareRequirements(a, b) == 0 }
	return Selector{reqs: slices.CompactFunc(reqs, same)}
}

// Matches reports whether all requirements hold. It does not allocate.
func (s Selector) Matches(l Labels) bool {
	for i := range s.reqs {
		if !s.reqs[i].matches(l) {
			return false
		}
	}
	return true
}

// Empty reports whether s matches everything because it requires nothing.
func (s Selector) Empty() bool { return len(s.reqs) == 0 }

// String returns the canonical form. It is equal for selectors that differ only in order,
// repetition, blanks or "==" instead of "=". Parsing it gives an equal selector.
func (s Selector) String() string {
	var b strings.Builder
	for i := range s.reqs {
		if i > 0 {
			b.WriteByte(',')
		}
		s.reqs[i].appendTo(&b)
	}
	return b.String()
}

// Requirements returns a copy of the requirements in canonical order.
func (s Selector) Requirements() []Requirement { return s.RequirementsUpTo(math.MaxInt) }

// RequirementsUpTo is Requirements without the values of requirements that have more than so many. It
// spares the copy of a long list that the caller has no use for.
func (s Selector) RequirementsUpTo(values int) []Requirement {
	out := make([]Requirement, len(s.reqs))
	for i := range s.reqs {
		if len(s.reqs[i].values) > values {
			out[i] = Requirement{Key: s.reqs[i].key, Op: s.reqs[i].op}
			continue
		}
		out[i] = s.reqs[i].public()
	}
	return out
}
