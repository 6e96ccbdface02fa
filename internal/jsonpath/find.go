package jsonpath

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

var (
	errTooMuch  = errors.New("the path selects too many values")
	errTemplate = errors.New("the keywords of templates are not supported")
	errOneOnly  = errors.New("a filter can only compare one value")
)

// Find returns the values that a path selects from a tree. A path that is not there selects nothing.
// Values can be null, which is nil. A wildcard over a string selects its bytes, as uint8; a number
// that is written in the path is an int.
//
// The caller must not change what Find returns: it can be a part of the tree.
func (p *Path) Find(tree any) ([]any, error) {
	found, _, err := p.FindCounting(tree)
	return found, err
}

// FindCounting is Find. It also returns how many steps that took, for callers that evaluate many
// paths and bound what they take together. A step takes about a microsecond at most.
func (p *Path) FindCounting(tree any) (found []any, steps int, err error) {
	e := evaluation{tree: tree, left: freeValues}
	for i, part := range p.parts {
		values, err := e.list([]any{tree}, part)
		if err != nil {
			return nil, e.taken, err
		}
		if i == 0 {
			found = values
		}
	}
	return found, e.taken, nil
}

// An evaluation may produce freeValues values, and then sharePerValue for each value in the tree.
// Recursive descents and unions multiply what they are given; without a limit, a short path could
// take all memory.
const (
	freeValues    = 1 << 16
	sharePerValue = 8
)

type evaluation struct {
	tree    any
	left    int // values that it may still produce
	taken   int // those it has produced
	counted bool
}

// take counts values that are about to be produced.
func (e *evaluation) take(n int) error {
	e.taken += n
	if e.left -= n; e.left < 0 && !e.counted {
		e.counted = true
		e.taken += size(e.tree)
		e.left += sharePerValue * size(e.tree)
	}
	if e.left < 0 {
		return errTooMuch
	}
	return nil
}

// size returns the number of values in a tree. Long strings count as several.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / sharePerValue
	case []any:
		for _, item := range v {
			n += size(item)
		}
	case map[string]any:
		for _, field := range v {
			n += size(field)
		}
	}
	return n
}

// list applies steps one after another. With an error it returns the values of the step that failed,
// as the steps do: a filter that asks whether something exists looks at them.
func (e *evaluation) list(values []any, steps []step) ([]any, error) {
	for i := range steps {
		var err error
		if values, err = e.step(values, &steps[i]); err != nil {
			return values, err
		}
	}
	return values, nil
}

// step selects from values. With an error, it returns its input.
func (e *evaluation) step(input []any, s *step) ([]any, error) {
	switch s.op {
	case opText:
		return []any{s.text}, nil
	case opNumber, opBool:
		return e.repeat(input, s.value)
	case opField:
		return e.field(input, s.text)
	case opSlice:
		return e.slices(input, s)
	case opWildcard:
		return e.wildcard(input)
	case opRecursive:
		out, err := e.recursive(nil, input)
		if err != nil {
			return input, err
		}
		return out, nil
	case opUnion:
		return e.union(input, s)
	case opFilter:
		return e.filter(input, s)
	default:
		return input, errTemplate
	}
}

func (e *evaluation) repeat(input []any, value any) ([]any, error) {
	if err := e.take(len(input)); err != nil {
		return input, err
	}
	return slices.Repeat([]any{value}, len(input)), nil
}

func (e *evaluation) field(input []any, name string) ([]any, error) {
	if err := e.take(len(input)); err != nil {
		return input, err
	}
	var out []any
	for _, v := range input {
		if m, ok := v.(map[string]any); ok {
			if field, ok := m[name]; ok {
				out = append(out, field)
			}
		}
	}
	return out, nil
}

func (e *evaluation) slices(input []any, s *step) ([]any, error) {
	var out []any
	for _, v := range input {
		if v == nil {
			continue
		}
		items, ok := v.([]any)
		if !ok {
			return input, errors.New("a position in a value that is not a list")
		}
		from, to, err := s.bounds(len(items))
		if err != nil {
			return input, err
		}
		if from == to {
			return out, nil // client-go ends here, even if there is more input
		}
		step := 1
		if s.slice[2].known {
			step = s.slice[2].value
		}
		if step <= 0 {
			return input, errors.New("the step of a slice must be greater than 0")
		}
		selected := items[from:to:to]
		if step == 1 && len(input) == 1 {
			return selected, nil
		}
		if err := e.take((len(selected)-1)/step + 1); err != nil {
			return input, err
		}
		for i := 0; i < len(selected); {
			out = append(out, selected[i])
			if i > len(selected)-step {
				break
			}
			i += step
		}
	}
	return out, nil
}

// bounds returns the start and the end of a slice of a list. They are equal if it is empty.
func (s *step) bounds(length int) (from, to int, err error) {
	from, to = s.slice[0].value, s.slice[1].value
	if !s.slice[0].known {
		from = 0
	}
	if from < 0 {
		from += length
	}
	if !s.slice[1].known {
		to = length
	}
	if to < 0 || to == 0 && s.slice[1].derived {
		to += length
	}
	if from == to {
		return from, to, nil
	}
	if from < 0 || from >= length || to < 0 || to > length || from > to {
		return 0, 0, fmt.Errorf("there are no items from %d to %d in a list of %d", from, to, length)
	}
	return from, to, nil
}

func (e *evaluation) wildcard(input []any) ([]any, error) {
	if len(input) == 1 {
		if list, ok := input[0].([]any); ok {
			if err := e.take(len(list)); err != nil {
				return input, err
			}
			return list[:len(list):len(list)], nil
		}
	}
	var out []any
	for _, v := range input {
		var err error
		if out, err = e.children(out, v); err != nil {
			return input, err
		}
	}
	return out, nil
}

// children appends the values in a value.
func (e *evaluation) children(to []any, of any) ([]any, error) {
	switch v := of.(type) {
	case map[string]any:
		if err := e.take(len(v)); err != nil {
			return to, err
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to = append(to, v[name])
		}
	case []any:
		if err := e.take(len(v)); err != nil {
			return to, err
		}
		to = append(to, v...)
	case string:
		if err := e.take(len(v)); err != nil {
			return to, err
		}
		for i := range len(v) {
			to = append(to, v[i])
		}
	}
	return to, nil
}

// recursive appends each value that has values in it, before those.
func (e *evaluation) recursive(to, values []any) ([]any, error) {
	var err error
	for _, v := range values {
		var inside []any
		switch v := v.(type) {
		case map[string]any:
			if inside, err = e.children(nil, v); err != nil {
				return to, err
			}
		case []any:
			inside = v
		case string:
			if v != "" { // its bytes have nothing in them
				to = append(to, v)
			}
		}
		if err := e.take(1); err != nil {
			return to, err
		}
		if len(inside) == 0 {
			continue
		}
		to = append(to, v)
		if to, err = e.recursive(to, inside); err != nil {
			return to, err
		}
	}
	return to, nil
}

func (e *evaluation) union(input []any, s *step) ([]any, error) {
	var out []any
	for _, branch := range s.branches {
		values, err := e.list(input, branch)
		if err == nil {
			err = e.take(len(values))
		}
		if err != nil {
			return input, err
		}
		out = append(out, values...)
	}
	return out, nil
}

func (e *evaluation) filter(input []any, s *step) ([]any, error) {
	var out []any
	for _, v := range input {
		items, ok := v.([]any)
		if !ok {
			return input, errors.New("a filter of a value that is not a list")
		}
		for i := range items {
			if err := e.take(1); err != nil {
				return input, err
			}
			pass, err := e.passes(items[i:i+1:i+1], s)
			if errors.Is(err, errIncomparable) {
				return out, err
			}
			if err != nil {
				return input, err
			}
			if pass {
				out = append(out, items[i])
			}
		}
	}
	return out, nil
}

// bytesPerStep is how much text is compared in one step.
const bytesPerStep = 256

// compared returns how many steps it takes to compare two values. Few paths compare long texts, but
// one that does can do so for each value that a recursive descent finds.
func compared(left, right any) int {
	l, _ := left.(string)
	r, _ := right.(string)
	return min(len(l), len(r)) / bytesPerStep
}

// passes evaluates the condition of a filter for one item.
func (e *evaluation) passes(item []any, s *step) (bool, error) {
	left, err := e.list(item, s.branches[0])
	switch {
	case errors.Is(err, errTooMuch):
		return false, err
	case s.text == exists:
		return len(left) > 0, nil // even if there is an error
	case err != nil || len(left) == 0:
		return false, err
	case len(left) > 1:
		return false, errOneOnly
	}
	right, err := e.list(item, s.branches[1])
	switch {
	case err != nil || len(right) == 0:
		return false, err
	case len(right) > 1:
		return false, errOneOnly
	}
	if err := e.take(compared(left[0], right[0])); err != nil {
		return false, err
	}
	return compare(left[0], s.text, right[0])
}
