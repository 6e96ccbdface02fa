package flow

import (
	"math"
	"time"
)

// demand integrates a number over time.
type demand struct {
	value            int
	since            time.Time // when value was last counted in
	span, sum, sumSq float64   // seconds, and integrals over them
	high             int
}

// become counts the old value in and takes the new one.
func (d *demand) become(value int, now time.Time) {
	if !d.since.IsZero() {
		if t := now.Sub(d.since).Seconds(); t > 0 {
			v := float64(d.value)
			d.span += t
			d.sum += t * v
			d.sumSq += t * v * v
		}
	}
	d.value, d.since, d.high = value, now, max(d.high, value)
}

// read returns the mean over time, the standard deviation and the highest value, and begins anew.
func (d *demand) read() (average, deviation, highest float64) {
	average, highest = float64(d.value), float64(d.high)
	if d.span > 0 {
		average = d.sum / d.span
		deviation = math.Sqrt(max(0, d.sumSq/d.span-average*average))
	}
	d.span, d.sum, d.sumSq, d.high = 0, 0, 0, d.value
	return average, deviation, highest
}

// Share is what one level may have of the seats of all.
type Share struct {
	Nominal  int     // its part by the configuration
	Min, Max int     // what is left if it lends all it may, and what it has if it borrows all it may
	Highest  float64 // how many seats it asked for at most, lately
	Smoothed float64 // how many it asks for, smoothed over time
}

// Allocate divides seats among levels. A level that needs its nominal part has it, and what others do
// not need is lent to those that ask for more, in proportion to their demand. The sum is total, as
// far as the bounds of the levels allow it. fraction is what each has of its target.
//
// Source: KEP-1040, "Dispatching"; APF-03.
func Allocate(total int, levels []Share) (seats []int, targets []float64, fraction float64) {
	least := make([]float64, len(levels))
	targets = make([]float64, len(levels))
	sum := 0.0
	for i, s := range levels {
		least[i] = max(float64(s.Min), min(float64(s.Nominal), s.Highest))
		targets[i] = max(least[i], s.Smoothed)
		sum += least[i]
	}
	seats = make([]int, len(levels))
	at := func(fraction float64) (sum float64) {
		for i, s := range levels {
			v := math.Round(max(least[i], min(float64(s.Max), fraction*targets[i])))
			seats[i] = int(v)
			sum += v
		}
		return sum
	}
	if sum >= float64(total) {
		at(0)
		return seats, targets, 0
	}
	low, high := 0.0, 1.0
	for range 40 {
		if at(high) >= float64(total) {
			break
		}
		low, high = high, high*2
	}
	for range 50 {
		if middle := (low + high) / 2; at(middle) <= float64(total) {
			low = middle
		} else {
			high = middle
		}
	}
	at(low)
	return seats, targets, low
}
