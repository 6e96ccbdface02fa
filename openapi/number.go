package openapi

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
)

// Bounds for conversions between int64 and float64. A float64 represents every integer up to
// maxExactInteger exactly. The bounds of int64 are written as values that are exact in both types.
const (
	maxExactInteger = 1 << 53
	minInt64        = -1 << 63
	pastInt64       = 1 << 63
)

// integral returns f as an int64 if f is a whole number within the range of int64.
func integral(f float64) (int64, bool) {
	if f >= minInt64 && f < pastInt64 && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// compareNumbers compares two int64 or float64 values exactly. Converting the int64 to a float
// would round large values, so a bound such as 2^53+1 would also admit its neighbour.
func compareNumbers(a, b any) int {
	switch a := a.(type) {
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b)
		case float64:
			return compareIntFloat(a, b)
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return -compareIntFloat(b, a)
		case float64:
			return cmp.Compare(a, b)
		}
	}
	return 0
}

// compareIntFloat compares without converting the integer to a float. It first handles floats
// outside int64, for which the conversion to int64 is undefined.
func compareIntFloat(i int64, f float64) int {
	switch {
	case f >= pastInt64:
		return -1
	case f < minInt64:
		return 1
	}
	if c := cmp.Compare(i, int64(f)); c != 0 {
		return c
	}
	return -cmp.Compare(f-math.Trunc(f), 0)
}

// multipleOf reports whether a is an integer multiple of b. It treats floats as the decimals that
// are written in the document: 0.3 is a multiple of 0.1 here, although it is not in binary.
func multipleOf(a, b any) bool {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return b != 0 && a%b == 0
		}
	}
	x, okX := rational(a)
	y, okY := rational(b)
	return okX && okY && y.Sign() != 0 && x.Quo(x, y).IsInt()
}

// rational returns a number as an exact fraction. It reads a float from its shortest decimal text,
// not from its binary value.
func rational(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case float64:
		return new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return nil, false
}

// canonicalNumber returns the number as Go writes a float64, or a float32 if single is set. A whole
// number becomes an int64. If the number is already in this form, it returns v itself, so callers
// can compare the result with v to detect a change.
func canonicalNumber(v any, single bool) any {
	var f float64
	switch n := v.(type) {
	case int64:
		if -maxExactInteger <= n && n <= maxExactInteger && !single {
			return v
		}
		f = float64(n)
	case float64:
		f = n
	default:
		return v
	}
	if single && math.Abs(f) <= math.MaxFloat32 {
		// Use the shortest decimal of the float32. A Go client writes the same digits back.
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', -1, 32), 64)
	}
	if i, ok := integral(f); ok {
		if old, same := v.(int64); same && old == i {
			return v
		}
		return i
	}
	if old, same := v.(float64); same && old == f {
		return v
	}
	return f
}
