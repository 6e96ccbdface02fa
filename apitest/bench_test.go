package apitest_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/effort"
)

// BenchmarkNewToFirstAnswer is what every test pays for a server of its own. The clean-up is
// measured apart.
func BenchmarkNewToFirstAnswer(b *testing.B) {
	var starts, stops []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		s := &scope{}
		began := time.Now()
		c := client.For(apitest.New(s, Widgets).Client(), Widgets)
		_, err := c.Create(b.Context(), widget("a"))
		starts = append(starts, time.Since(began))
		require.NoError(b, err)
		began = time.Now()
		problems := s.end()
		stops = append(stops, time.Since(began))
		require.Empty(b, problems)
	}
	b.ReportMetric(median(starts), "median-start-ms")
	b.ReportMetric(median(stops), "median-stop-ms")
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}

// TestServersAreSmall reports the memory per server: first for five hundred servers, each with its
// namespaces, an object and an open watch, then for five hundred forks of one of them.
func TestServersAreSmall(t *testing.T) {
	servers := effort.Of(500)
	first := apitest.New(t, Widgets)
	fill(t, first, 100)
	for _, c := range []struct {
		name  string
		begin func(t testing.TB) *apitest.Server
		limit uint64 // bytes
	}{
		{"made anew", func(t testing.TB) *apitest.Server { return apitest.New(t, Widgets) }, 700 << 10},
		{"forked", func(t testing.TB) *apitest.Server { return first.Fork(t) }, 200 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			var made, garbage runtime.MemStats
			before := inUse()
			runtime.ReadMemStats(&made)
			for range servers {
				srv := c.begin(t)
				w, err := client.For(srv.Client(), Widgets).Create(t.Context(), widget("a"))
				require.NoError(t, err)
				res, err := srv.Client().Get(srv.URL + widgetsPath + "?watch=1&resourceVersion=" + w.ResourceVersion)
				require.NoError(t, err)
				defer res.Body.Close()
			}
			runtime.ReadMemStats(&garbage)
			each := (inUse() - before) / uint64(servers)
			t.Logf("a server takes %d KiB of heap and stacks; %d KiB were allocated for it", each>>10, (garbage.TotalAlloc-made.TotalAlloc)/uint64(servers)>>10)
			require.Less(t, each, c.limit)
			require.Less(t, (garbage.TotalAlloc-made.TotalAlloc)/uint64(servers), uint64(3<<19))
		})
	}
}

// inUse is the memory that is in use after a collection: of the heap and of stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
