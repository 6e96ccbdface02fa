package flow_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/flow"
)

// What kube-apiserver 1.36 gives its levels when nobody asks for anything: 600 seats, most of which
// could be lent, in proportion to what each must keep.
func TestAPF_03_SeatsWithoutDemand(t *testing.T) {
	nominal := []int{13, 49, 25, 98, 74, 98, 245}
	lend := []int{0, 50, 0, 25, 33, 50, 90}
	var levels []flow.Share
	for i, n := range nominal {
		levels = append(levels, flow.Share{Nominal: n, Min: n - (n*lend[i]+50)/100, Max: n + 600})
	}
	seats, _, _ := flow.Allocate(600, levels)
	require.InDelta(t, 30, seats[0], 1)
	require.InDelta(t, 56, seats[6], 1)
}

// APF-03: a level that lends gets its part back when it needs it, and no level goes beyond its bounds.
func TestAPF_03_Borrowing(t *testing.T) {
	levels := []flow.Share{
		{Nominal: 50, Min: 10, Max: 150, Highest: 0},
		{Nominal: 50, Min: 50, Max: 150, Highest: 200, Smoothed: 200},
	}
	seats, _, _ := flow.Allocate(100, levels)
	require.Equal(t, []int{10, 90}, seats, "what the first does not need, the second has")

	levels[0].Highest, levels[0].Smoothed = 200, 200
	seats, _, _ = flow.Allocate(100, levels)
	require.Equal(t, []int{50, 50}, seats)

	levels[1].Max = 60
	levels[0].Highest, levels[0].Smoothed = 5, 5
	seats, _, _ = flow.Allocate(100, levels)
	require.Equal(t, []int{40, 60}, seats, "nobody borrows more than they may")
}

// Whatever the demand, each level has at least what it needs of its own part, at most what it may
// borrow, and all together have what there is, but for rounding.
func TestAPF_03_AllocateAgainstItsRules(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		total, n := 1+r.IntN(1000), 1+r.IntN(8)
		levels := make([]flow.Share, n)
		most, need := 0, 0
		for i := range levels {
			nominal := total / n
			levels[i] = flow.Share{
				Nominal: nominal, Min: r.IntN(nominal + 1), Max: nominal + r.IntN(total),
				Highest: float64(r.IntN(2 * total)), Smoothed: r.Float64() * float64(total),
			}
			most += levels[i].Max
			need += max(levels[i].Min, min(nominal, int(levels[i].Highest)))
		}
		seats, _, _ := flow.Allocate(total, levels)
		sum := 0
		for i, l := range levels {
			require.GreaterOrEqual(t, seats[i], max(l.Min, min(l.Nominal, int(l.Highest))))
			require.LessOrEqual(t, seats[i], l.Max)
			sum += seats[i]
		}
		require.LessOrEqual(t, sum, max(total, need))
		if most > total {
			require.GreaterOrEqual(t, sum, total-n, "%+v", levels)
		}
	}
}
