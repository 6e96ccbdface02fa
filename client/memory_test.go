package client

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryStaysWithinItsBudget(t *testing.T) {
	m := memory{budget: 10_000}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		m.put(identity{"default", fmt.Sprint(random.IntN(50)), fmt.Sprint(i)}, make([]byte, random.IntN(3000)))
		bytes := 0
		for e := m.used.Front(); e != nil; e = e.Next() {
			bytes += len(e.Value.(*remembered).text) + entryBytes
		}
		require.Equal(t, bytes, m.bytes)
		require.LessOrEqual(t, m.bytes, m.budget)
		require.Len(t, m.index, m.used.Len())
	}
}

func TestMemoryKeepsWhatWasUsedLast(t *testing.T) {
	m := memory{budget: 3 * (entryBytes + 1)}
	id := func(name string) identity { return identity{"default", name, "1"} }
	for _, name := range []string{"a", "b", "c"} {
		m.put(id(name), []byte(name))
	}
	_, ok := m.get(id("a"))
	require.True(t, ok)
	m.put(id("b"), []byte("b")) // seen again
	m.put(id("d"), []byte("d"))
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "d": true} {
		text, ok := m.get(id(name))
		require.Equal(t, want, ok, name)
		if ok {
			require.Equal(t, name, string(text))
		}
	}
	_, ok = m.get(identity{"default", "a", "2"})
	require.False(t, ok, "another state is another thing")
}

func TestMemoryOfNothing(t *testing.T) {
	var m memory
	m.put(identity{"default", "a", "1"}, []byte("a"))
	_, ok := m.get(identity{"default", "a", "1"})
	require.False(t, ok)
	m.budget = 1000
	m.put(identity{"default", "a", ""}, []byte("a"))
	_, ok = m.get(identity{"default", "a", ""})
	require.False(t, ok, "an object without a version cannot be told from a later one")
	m.put(identity{"default", "a", "1"}, make([]byte, 1001))
	require.Zero(t, m.bytes)
}
