package ordered_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/internal/random"
)

// strangeKeys hold separators, case, emptiness, prefixes of one another and
// bytes that are not text.
var strangeKeys = []string{"", "/", "a", "A", "a/", "a/b/", "a-b/", "a\x00", "a\x00\x00", "\xff", "\xff\xff", "z", "ä"}

func model(m map[string]int, from string) []string {
	var keys []string
	for k := range m {
		if k >= from {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	return keys
}

func keysOf(t interface{ Errorf(string, ...any) }, m *ordered.Map[int], from string, want map[string]int) []string {
	var keys []string
	for k, v := range m.Ascend(from) {
		if want[k] != v {
			t.Errorf("key %q has value %d, want %d", k, v, want[k])
		}
		keys = append(keys, k)
	}
	return keys
}

func TestMapAgainstPlainMap(t *testing.T) {
	random.Check(t, func(t *random.T) {
		tree, plain := ordered.New[int](), map[string]int{}
		type frozen struct {
			tree  *ordered.Map[int]
			plain map[string]int
		}
		var snapshots []frozen
		below := random.Custom(func(t *random.T) string {
			return random.StringOf("abc", 0, 3).Draw(t, "directory") + "/" + random.StringOf("0123456789", 0, 3).Draw(t, "file")
		})
		key := random.OneOf(random.SampledFrom(strangeKeys), below)
		for range random.Range(1, 60).Draw(t, "steps") {
			switch random.SampledFrom([]string{"set", "delete", "snapshot", "write to a snapshot"}).Draw(t, "step") {
			case "set":
				k, v := key.Draw(t, "key"), random.Number[int]().Draw(t, "value")
				old, had := plain[k]
				got, replaced := tree.Set(k, v)
				require.Equal(t, had, replaced)
				require.Equal(t, old, got)
				plain[k] = v
			case "delete":
				k := key.Draw(t, "key")
				old, had := plain[k]
				got, deleted := tree.Delete(k)
				require.Equal(t, had, deleted)
				require.Equal(t, old, got)
				delete(plain, k)
			case "snapshot":
				snapshots = append(snapshots, frozen{tree.Snapshot(), maps.Clone(plain)})
			case "write to a snapshot":
				if len(snapshots) == 0 {
					continue
				}
				s := snapshots[len(snapshots)-1]
				k := key.Draw(t, "key")
				s.tree.Set(k, -1)
				s.plain[k] = -1
			}
			from := key.Draw(t, "from")
			require.Equal(t, model(plain, from), keysOf(t, tree, from, plain))
			require.Equal(t, len(plain), tree.Len())
			require.Equal(t, len(plain)-len(model(plain, from)), tree.Rank(from))
			for _, s := range snapshots {
				require.Equal(t, model(s.plain, ""), keysOf(t, s.tree, "", s.plain))
			}
		}
	})
}

func TestAfterLeavesOutTheKeyItself(t *testing.T) {
	m := ordered.New[int]()
	for i, k := range strangeKeys {
		m.Set(k, i)
	}
	sorted := slices.Sorted(slices.Values(strangeKeys))
	for i, k := range sorted {
		var got []string
		for next := range m.After(k) {
			got = append(got, next)
		}
		require.Equal(t, sorted[i+1:], append([]string{}, got...), "after %q", k)
	}
}

func TestBreakEndsTheWalk(t *testing.T) {
	m := ordered.New[int]()
	for i := range 500 {
		m.Set(fmt.Sprintf("%04d", i), i)
	}
	seen := 0
	for range m.Ascend("0100") {
		if seen++; seen == 3 {
			break
		}
	}
	require.Equal(t, 3, seen)
	require.Equal(t, 100, m.Rank("0100"))
	require.Equal(t, 500, m.Rank("~"))
	require.Positive(t, m.Depth())
	require.Zero(t, ordered.New[int]().Depth())
}

// Snapshots taken under the writer's lock are read without any: the race
// detector is the judge here.
func TestSnapshotsAreReadWhileTheMapChanges(t *testing.T) {
	var lock sync.Mutex
	m := ordered.New[int]()
	var readers sync.WaitGroup
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		lock.Lock()
		for range 20 {
			m.Set(fmt.Sprint(random.IntN(1000)), round)
			m.Delete(fmt.Sprint(random.IntN(1000)))
		}
		snapshot, size := m.Snapshot(), m.Len()
		lock.Unlock()
		readers.Go(func() {
			count := 0
			for range snapshot.Ascend("") {
				count++
			}
			if count != size || snapshot.Rank("\xff") != size {
				t.Errorf("snapshot of %d keys yielded %d", size, count)
			}
		})
	}
	readers.Wait()
}

func BenchmarkSet(b *testing.B) {
	for _, every := range []int{0, 100, 1} {
		b.Run(fmt.Sprintf("100k keys, snapshot every %d", every), func(b *testing.B) {
			m := ordered.New[*int]()
			keys := make([]string, 100_000)
			for i := range keys {
				keys[i] = fmt.Sprintf("/r/core/widgets/ns-%d/name-%d/", i%100, i)
				m.Set(keys[i], nil)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if every > 0 && i%every == 0 {
					m.Snapshot()
				}
				m.Set(keys[i*7919%len(keys)], nil)
				i++
			}
		})
	}
}

func BenchmarkAscend(b *testing.B) {
	m := ordered.New[*int]()
	for i := range 10_000 {
		m.Set(fmt.Sprintf("/r/core/widgets/ns/name-%d/", i), nil)
	}
	b.ReportAllocs()
	for b.Loop() {
		for range m.Ascend("") {
		}
	}
}
