package driver_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/bench/driver"
	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/server"
	"github.com/kindwright/kindwright/bench/shape"
)

func TestMain(m *testing.M) {
	if server.IsChild() {
		os.Exit(server.Main())
	}
	os.Exit(m.Run())
}

// few is a scale at which every workload runs, too small to measure speed.
func few() driver.Scale {
	return driver.Scale{
		Operations: 70, Scratch: 64,
		Objects: 300, ListOperations: 2,
		Watchers: []int{1, 7}, Deliveries: 100, Pace: 2000,
		MemoryObjects: []int{100, 200}, IdleWatchers: []int{10},
		Live: 10, Stalled: 5, StalledWrites: 100,
		ChurnWatchers: 20, ChurnRate: 200, ChurnTime: 300 * time.Millisecond,
		Timeout: 10 * time.Second,
	}
}

// target starts a server and connects to it.
func target(t *testing.T, backend server.Backend, s shape.Shape, faults limit.Faults, scale driver.Scale) *driver.Target {
	id, err := server.NewIdentity("secret")
	require.NoError(t, err)
	child, err := server.Start(t.Context(), id, backend, t.TempDir(), faults)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, child.Stop()) })
	to, err := driver.Open(t.Context(), driver.Config{
		Name: "it", URL: child.URL, Token: "secret", TLS: id.TLS(), Shape: s, Processes: child.Processes, LiveHeap: child.LiveHeap,
	}, scale)
	require.NoError(t, err)
	t.Cleanup(to.Close)
	return to
}

func workload(t *testing.T, scale driver.Scale, name string) driver.Workload {
	for _, w := range driver.Workloads(scale) {
		if w.Name == name {
			return w
		}
	}
	require.Fail(t, "no workload "+name)
	return driver.Workload{}
}

// operations returns the number of operations of a workload at the scale few, if it is fixed.
func operations(name string) int {
	switch {
	case strings.HasPrefix(name, "list/"):
		return 2
	case strings.HasSuffix(name, "/7") && strings.HasPrefix(name, "watch"):
		return 700
	case strings.HasPrefix(name, "watch"):
		return 100
	case name == "memory/load-100":
		return 100
	case name == "memory/load-200":
		return 200
	case name == "memory/lists16":
		return 32
	case name == "memory/idle-10":
		return 10
	case name == "memory/stalled":
		return 2 * 10 * 100
	case strings.HasPrefix(name, "memory/"):
		return 0
	default:
		return 70
	}
}

func TestEveryWorkloadIsServedOrGivesAReason(t *testing.T) {
	// Server-side apply is reported either way; this package does not decide whether it is served.
	apply := map[string]string{"apply-change/c16": "415", "apply-noop/c16": "415"}
	for _, c := range []struct {
		backend server.Backend
		shape   shape.Shape
		refused map[string]string // the workloads that are not served, with the message
	}{
		{server.Memory, shape.ConfigMap(), map[string]string{"list/field1pct": "configmaps have no field"}},
		{server.Bolt, shape.Gadget(), map[string]string{"list/protobuf": "406"}},
		{server.Limit, shape.ConfigMap(), map[string]string{
			"list/gzip": "not compressed", "list/table": "406", "list/partial": "406", "list/protobuf": "406", "list/paged": "400",
			"list/watchlist": "400", "list/label1pct": "400", "list/field1pct": "configmaps have no field", "memory/churn": "400",
		}},
	} {
		t.Run(string(c.backend)+" "+c.shape.Name, func(t *testing.T) {
			to := target(t, c.backend, c.shape, limit.Faults{}, few())
			for _, w := range driver.Workloads(few()) {
				r := w.Run(t.Context(), to)
				assert.Equal(t, w.Name, r.Workload)
				assert.NotEmpty(t, w.Doc)
				require.Zero(t, r.Errors, "%s: %s", w.Name, r.FirstError)
				why, refused := c.refused[w.Name]
				if r.NotServed != "" && !refused {
					why, refused = apply[w.Name]
				}
				if refused {
					require.NotEmpty(t, r.NotServed, "%s was served", w.Name)
					assert.Contains(t, r.NotServed, why, w.Name)
					assert.Zero(t, r.Operations, w.Name)
					continue
				}
				require.Empty(t, r.NotServed, w.Name)
				if want := operations(w.Name); want > 0 {
					assert.Equal(t, want, r.Operations, w.Name)
				}
				assert.Positive(t, r.Operations, w.Name)
				if w.Fresh {
					assert.NotEmpty(t, r.Figures, w.Name)
					if w.Name != "memory/stalled" {
						assert.Positive(t, r.Figures["heap_MiB"], w.Name)
					}
				} else {
					assert.Positive(t, r.PerSecond, w.Name)
					assert.GreaterOrEqual(t, r.P99, r.P50, w.Name)
				}
			}
			if c.backend != server.Limit { // the limit server has no collection deletes
				require.NoError(t, to.Clean(t.Context()))
			}
		})
	}
}

func TestLostAndSwappedEventsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		faults             limit.Faults
		missed, reordered  float64
		workload, firstErr string
	}{
		"none":    {limit.Faults{}, 0, 0, "watch/7", ""},
		"dropped": {limit.Faults{DropEvery: 100}, 7, 0, "watch/7", "7 missed"},
		"swapped": {limit.Faults{SwapEvery: 40}, 0, 14, "watch-paced/7", "14 reordered"},
	} {
		t.Run(name, func(t *testing.T) {
			scale := few()
			scale.Timeout = 3 * time.Second // missing events never arrive
			to := target(t, server.Limit, shape.Gadget(), c.faults, scale)
			r := workload(t, scale, c.workload).Run(t.Context(), to)
			assert.InDelta(t, c.missed, r.Figures["missed"], 0)
			assert.InDelta(t, c.reordered, r.Figures["reordered"], 0)
			assert.Equal(t, int(c.missed+c.reordered), r.Errors, r.FirstError)
			assert.Contains(t, r.FirstError, c.firstErr)
			assert.Equal(t, 700-int(c.missed), r.Operations)
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	_, err := driver.Open(t.Context(), driver.Config{Name: "nobody", URL: "https://127.0.0.1:1", Shape: shape.Gadget()}, few())
	require.ErrorContains(t, err, "nobody")
	for _, url := range []string{"//127.0.0.1:1", "http://127.0.0.1", "https://"} {
		_, err = driver.Open(t.Context(), driver.Config{URL: url}, few())
		require.ErrorContains(t, err, "want an https URL", url)
	}
}
