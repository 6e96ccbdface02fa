package apitest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
)

// fill makes n widgets.
func fill(t testing.TB, srv *apitest.Server, n int) {
	t.Helper()
	c := client.For(srv.Client(), Widgets)
	for i := range n {
		w := widget(fmt.Sprintf("w-%05d", i))
		w.Labels = map[string]string{"app": "shop", "tier": fmt.Sprint(i % 10)}
		_, err := c.Create(context.Background(), w)
		require.NoError(t, err)
	}
}

func list(t testing.TB, srv *apitest.Server) []string {
	t.Helper()
	var out []string
	all, err := client.For(srv.Client(), Widgets).List(context.Background(), client.In("default"))
	require.NoError(t, err)
	for _, w := range all.Items {
		out = append(out, w.Name+" "+w.ResourceVersion)
	}
	return out
}

func TestAForkBeginsAsItsParentIsAndGoesItsOwnWay(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 3)
	before := list(t, srv)
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			fork := srv.Fork(t)
			require.Equal(t, before, list(t, fork))
			c := client.For(fork.Client(), Widgets)
			require.NoError(t, c.Delete(t.Context(), widget("w-00001").Key()))
			_, err := c.Create(t.Context(), widget(fmt.Sprint("of-fork-", i)))
			require.NoError(t, err)
			again := fork.Fork(t)
			fork.Close()
			require.Len(t, list(t, again), 3)
			require.Contains(t, list(t, again)[0], fmt.Sprint("of-fork-", i))
			require.Equal(t, before, list(t, srv))
		})
	}
}

// BenchmarkFork is what a test pays for a copy of a server with ten thousand objects.
func BenchmarkFork(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		srv := apitest.New(b, Widgets)
		fill(b, srv, n)
		for name, first := range map[string]func(c *client.Client[Widget]) error{
			"get": func(c *client.Client[Widget]) error {
				_, err := c.Get(b.Context(), widget("w-00007").Key())
				return err
			},
			"create": func(c *client.Client[Widget]) error {
				_, err := c.Create(b.Context(), widget("a"))
				return err
			},
		} {
			b.Run(fmt.Sprintf("%d objects/%s", n, name), func(b *testing.B) {
				var starts, stops []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					s := &scope{}
					began := time.Now()
					err := first(client.For(srv.Fork(s).Client(), Widgets))
					starts = append(starts, time.Since(began))
					require.NoError(b, err)
					began = time.Now()
					problems := s.end()
					stops = append(stops, time.Since(began))
					require.Empty(b, problems)
				}
				b.ReportMetric(median(starts), "median-start-ms")
				b.ReportMetric(median(stops), "median-stop-ms")
			})
		}
	}
}
