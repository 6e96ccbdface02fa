package random

import (
	"fmt"
	"math"
)

// Generator makes values from the choices of a case.
type Generator[V any] func(*T) V

// Draw returns a value. If the case fails, the report has the value with its label.
func (g Generator[V]) Draw(t *T, label string) V {
	t.depth++
	v := g(t)
	if t.depth--; t.noting && t.depth == 0 {
		t.notes = append(t.notes, fmt.Sprintf("%s: %#v", label, v))
	}
	return v
}

// AsAny returns the same values as type any.
func (g Generator[V]) AsAny() Generator[any] { return Map(g, func(v V) any { return v }) }

// Integer is a type that [Range] and [Number] have values of.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint64 | ~byte
}

// few is how many values a range has that are drawn with the same chance each.
const few = 256

// Range draws a number from lo to hi. If the range is large, numbers near zero, lo and hi are more
// frequent.
func Range[N Integer](lo, hi N) Generator[N] {
	if lo > hi {
		panic(fmt.Sprintf("random: the range from %v to %v is empty", lo, hi))
	}
	middle := lo
	if lo < 0 && hi >= 0 {
		middle = 0
	}
	return func(t *T) N {
		if span := uint64(hi) - uint64(lo); span < few && middle == lo {
			return lo + N(t.below(span+1))
		}
		anchor := []N{middle, middle, middle, middle, lo, hi}[t.below(6)]
		far := t.below(65) // bits of the distance
		var distance uint64
		if far > 0 {
			distance = t.below(1 << far) // 0, any number, for 64 bits
		}
		up, down := uint64(hi)-uint64(anchor), uint64(anchor)-uint64(lo)
		if up == 0 || down > 0 && t.below(2) == 1 {
			return N(uint64(anchor) - within(distance, down))
		}
		return N(uint64(anchor) + within(distance, up))
	}
}

// within returns distance if it is at most room, and else one that is.
func within(distance, room uint64) uint64 {
	if distance > room {
		return distance % (room + 1)
	}
	return distance
}

// Number draws any number. Small ones are more frequent.
func Number[N Integer]() Generator[N] {
	all := Range[int64](math.MinInt64, math.MaxInt64)
	return func(t *T) N { return N(all(t)) }
}

// Float64 draws any finite number. Whole and extreme ones are more frequent.
func Float64() Generator[float64] {
	special := SampledFrom([]float64{0, 1, -1, 0.1, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1 << 53, 1e21})
	whole := Number[int64]()
	return func(t *T) float64 {
		switch t.below(4) {
		case 0:
			return special(t)
		case 1:
			return float64(whole(t))
		case 2:
			return float64(whole(t)) / float64(uint64(1)<<t.below(64))
		}
		f := math.Float64frombits(t.below(0))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return special(t)
		}
		return f
	}
}

// Bool draws true or false.
func Bool() Generator[bool] { return func(t *T) bool { return t.below(2) == 1 } }

// awkward are characters that encodings treat in a special way.
var awkward = []rune("\"\\/'`<>&%~:#-{}[],\x00\x01\t\n\r\x1f\x7f\u0080\u0085\u00a0éß\u0301\u200b\u2028\u2029\ud7ff\ue000\ufeff\ufffd\uffff😀\U0010ffff")

// Rune draws any character. ASCII and those that encodings treat in a special way are more frequent.
func Rune() Generator[rune] {
	const surrogates, last = 0xd800, 0x10ffff - 0x800
	return func(t *T) rune {
		switch t.below(4) {
		case 0:
			return 'a' + rune(t.below(26))
		case 1:
			return ' ' + rune(t.below(0x7f-' '))
		case 2:
			return awkward[t.below(uint64(len(awkward)))]
		}
		r := rune(t.below(1 + last))
		if r >= surrogates {
			r += 0x800
		}
		return r
	}
}

// String draws valid text.
func String() Generator[string] { return StringN(0, unbounded) }

// StringN draws valid text of at least least and at most most characters.
func StringN(least, most int) Generator[string] { return text(Rune(), least, most) }

// StringOf draws text of at least least and at most most of some characters.
func StringOf(characters string, least, most int) Generator[string] {
	return text(SampledFrom([]rune(characters)), least, most)
}

func text(characters Generator[rune], least, most int) Generator[string] {
	return Map(SliceOf(characters, least, most), func(r []rune) string { return string(r) })
}

// Custom draws what make returns.
func Custom[V any](make func(*T) V) Generator[V] { return make }

// Just draws always the same value.
func Just[V any](v V) Generator[V] { return func(*T) V { return v } }

// SampledFrom draws one of some values.
func SampledFrom[V any](values []V) Generator[V] {
	return func(t *T) V { return values[t.below(uint64(len(values)))] }
}

// OneOf draws a value of one of some generators.
func OneOf[V any](generators ...Generator[V]) Generator[V] {
	return func(t *T) V { return SampledFrom(generators)(t)(t) }
}

// Map draws what convert makes of a value of g.
func Map[V, W any](g Generator[V], convert func(V) W) Generator[W] {
	return func(t *T) W { return convert(g(t)) }
}
