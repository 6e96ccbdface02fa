package linear

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// access is a write of a value to a register, or a read that returned it.
type access struct {
	write bool
	value int
}

func step(state int, a access) (int, bool) {
	if a.write {
		return a.value, true
	}
	return state, a.value == state
}

func write(value int, begin, end int64) Operation[access] {
	return Operation[access]{access{true, value}, begin, end}
}

func read(value int, begin, end int64) Operation[access] {
	return Operation[access]{access{false, value}, begin, end}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		history []Operation[access]
		want    bool
	}{
		"nothing happened":                      {nil, true},
		"a read sees the write before it":       {[]Operation[access]{write(1, 0, 1), read(1, 2, 3)}, true},
		"a read misses the write before it":     {[]Operation[access]{write(1, 0, 1), read(0, 2, 3)}, false},
		"a read during a write sees either":     {[]Operation[access]{write(1, 0, 9), read(0, 1, 2), read(1, 3, 4)}, true},
		"two reads see a write and then do not": {[]Operation[access]{write(1, 0, 9), read(1, 1, 2), read(0, 3, 4)}, false},
		"a common moment is an overlap":         {[]Operation[access]{write(1, 0, 2), read(0, 2, 3)}, true},
		"a read of what was never written":      {[]Operation[access]{write(1, 0, 9), read(2, 0, 9)}, false},
		"the first choice has to be taken back": {[]Operation[access]{write(1, 0, 9), write(2, 0, 9), read(1, 10, 11)}, true},
		"both orders are needed":                {[]Operation[access]{write(1, 0, 9), write(2, 0, 9), read(1, 10, 11), read(2, 12, 13)}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Check(0, c.history, step)) })
	}
}

// explained tries every order.
func explained(state int, rest []Operation[access]) bool {
	if len(rest) == 0 {
		return true
	}
	for i, o := range rest {
		first := true
		for _, other := range rest {
			first = first && o.Begin <= other.End
		}
		next, ok := step(state, o.Call)
		if !first || !ok {
			continue
		}
		others := append(append([]Operation[access]{}, rest[:i]...), rest[i+1:]...)
		if explained(next, others) {
			return true
		}
	}
	return false
}

func TestCheckAgreesWithTryingEveryOrder(t *testing.T) {
	results := map[bool]int{}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		history := make([]Operation[access], 1+random.IntN(7))
		for i := range history {
			begin := random.Int64N(12)
			history[i] = Operation[access]{access{random.IntN(2) == 0, random.IntN(3)}, begin, begin + random.Int64N(8)}
		}
		want := explained(0, history)
		results[want]++
		require.Equal(t, want, Check(0, history, step), "seed %d: %+v", seed, history)
	}
	require.Greater(t, results[true], 500)
	require.Greater(t, results[false], 500)
}
