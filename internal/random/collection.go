package random

import (
	"math"
	"slices"
)

const (
	unbounded = math.MaxInt
	usual     = 6 // the mean length of a list without a bound
)

// more draws whether a list that has n values gets another one.
func more(t *T, n, least, most int) bool {
	if n < least || n >= most {
		return n < least
	}
	return t.below(uint64(min(usual, most-least))+1) > 0
}

// SliceOf draws a list of at least least and at most most values.
func SliceOf[V any](g Generator[V], least, most int) Generator[[]V] {
	return func(t *T) []V {
		out := []V{}
		for more(t, len(out), least, most) {
			out = append(out, g(t))
		}
		return out
	}
}

// Distinct draws a list of at least least and at most most values, no two with the same key. The
// list is shorter if g has no other values.
func Distinct[V any, K comparable](g Generator[V], least, most int, key func(V) K) Generator[[]V] {
	const retries = 20
	return func(t *T) []V {
		out, seen := []V{}, map[K]bool{}
		for repeated := 0; repeated < retries && more(t, len(out), least, most); {
			v := g(t)
			if seen[key(v)] {
				repeated++
				continue
			}
			out, seen[key(v)] = append(out, v), true
		}
		return out
	}
}

// MapOf draws a map of at most most members.
func MapOf[K comparable, V any](keys Generator[K], values Generator[V], most int) Generator[map[K]V] {
	return func(t *T) map[K]V {
		out := map[K]V{}
		for _, key := range Distinct(keys, 0, most, ID)(t) {
			out[key] = values(t)
		}
		return out
	}
}

// Permutation draws an order of the values.
func Permutation[V any](values []V) Generator[[]V] {
	return func(t *T) []V {
		out := slices.Clone(values)
		for i := len(out) - 1; i > 0; i-- {
			j := i - int(t.below(uint64(i)+1)) // 0 leaves the order as it is
			out[i], out[j] = out[j], out[i]
		}
		return out
	}
}

// ID returns its argument, as the key of values that are their own.
func ID[V any](v V) V { return v }
