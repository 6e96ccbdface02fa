package random

import "slices"

// attempts bounds how often a property runs while a case shrinks.
const attempts = 2000

// shrink returns the smallest choices that it finds for which fails returns true. fails also
// returns the choices that the case made, which may be fewer than those it was given.
func shrink(best []uint64, fails func([]uint64) ([]uint64, bool)) []uint64 {
	left := attempts
	try := func(choices []uint64) bool {
		if left--; left < 0 {
			return false
		}
		made, failed := fails(choices)
		if !failed || !smaller(made, best) {
			return false
		}
		best = made
		return true
	}
	for progress := true; progress && left > 0; {
		progress = false
		for _, size := range []int{128, 32, 16, 8, 6, 5, 4, 3, 2, 1} {
			for at := 0; at < len(best); {
				if try(slices.Concat(best[:at], best[min(at+size, len(best)):])) {
					progress = true
				} else {
					at++
				}
			}
		}
		for at := 0; at < len(best); at++ {
			for at < len(best) && best[at] > 0 && lower(best, at, try) {
				progress = true
			}
		}
	}
	return best
}

// lower tries smaller values for the choice at an index.
func lower(best []uint64, at int, try func([]uint64) bool) bool {
	for _, value := range []uint64{0, best[at] / 2, best[at] - 1} {
		choices := slices.Clone(best)
		if choices[at] = value; try(choices) {
			return true
		}
	}
	return false
}

func smaller(a, b []uint64) bool {
	return len(a) < len(b) || len(a) == len(b) && slices.Compare(a, b) < 0
}
