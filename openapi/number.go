package openapi

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
)

// The integers that a float holds exactly, and the bounds of int64 as floats.
const (
	maxExactInteger = 1 << 53
	minInt64        = -1 << 63
	pastInt64       = 1 << 63
)

// integral returns the int64 that a float is, if it is one.
func integral(f float64) (int64, bool) {
	if f >= minInt64 && f < pastInt64 && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// compareNumbers compares int64 and float64 values of a tree without rounding either.
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

// multipleOf tells whether a is a whole number of times b, reading floats as the decimals that they are written as: 0.3
// is a multiple of 0.1, which it is not in binary.
func multipleOf(a, b any) bool {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return a%b == 0
		}
	}
	x, okX := rational(a)
	y, okY := rational(b)
	return okX && okY && y.Sign() != 0 && x.Quo(x, y).IsInt()
}

func rational(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case float64:
		return new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return nil, false
}

// canonicalNumber writes a number as a Go float64 (or float32) would hold it, and as an integer where it is one; v itself
// if that is it.
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
		// The shortest decimal of the float32, which is what a Go client writes back.
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
