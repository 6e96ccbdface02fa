package jsonpath

import (
	"cmp"
	"errors"
)

var errIncomparable = errors.New("values cannot be compared")

// compare compares two values of the same type. Objects, lists and null have no order, booleans only
// differ.
func compare(left any, operator string, right any) (bool, error) {
	order, ordered, err := orderOf(left, right)
	if err != nil {
		return false, err
	}
	if !ordered && operator != "==" && operator != "!=" {
		return false, errIncomparable
	}
	switch operator {
	case "==":
		return order == same, nil
	case "!=":
		return order != same, nil
	case "<":
		return order == less, nil
	case "<=":
		return order == less || order == same, nil
	case ">":
		return order != less && order != same, nil
	case ">=":
		return order != less, nil
	}
	return false, errIncomparable
}

// order is where a value stands to another.
type order uint8

const (
	same order = iota
	less
	other
)

func orderOf(left, right any) (out order, ordered bool, err error) {
	switch l := left.(type) {
	case bool:
		if r, ok := right.(bool); ok {
			if l == r {
				return same, false, nil
			}
			return other, false, nil
		}
	case string:
		if r, ok := right.(string); ok {
			return between(l, r), true, nil
		}
	case float64:
		if r, ok := right.(float64); ok {
			return between(l, r), true, nil
		}
	default:
		if l, ok := whole(left); ok {
			if r, ok := whole(right); ok {
				return between(l, r), true, nil
			}
		}
	}
	return other, false, errIncomparable
}

func between[T cmp.Ordered](l, r T) order {
	switch {
	case l == r:
		return same
	case l < r:
		return less
	}
	return other
}

func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case uint8:
		return int64(v), true
	}
	return 0, false
}
