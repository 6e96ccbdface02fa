package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// Old states are decoded again and again, by lists at an old version for one. The queue keeps one
// deadline for each object, that of its newest state, whatever the order it is told of them.
func TestAQueueOfDeadlinesHasOneForEachObject(t *testing.T) {
	start := time.Unix(1000, 0)
	r := rand.New(rand.NewPCG(1, 2))
	var q deadlines
	newest := map[string]deadline{}
	for range 10_000 {
		d := deadline{start.Add(time.Duration(r.IntN(1000)) * time.Second), fmt.Sprint(r.IntN(20)), storage.Revision(r.IntN(1000))}
		had, known := newest[d.key]
		if !known || d.rev > had.rev {
			newest[d.key] = d
		}
		q.set(d)
		if r.IntN(50) == 0 {
			if got, ok := q.pop(start.Add(time.Hour)); ok {
				require.Equal(t, newest[got.key], got)
				for _, other := range newest {
					require.False(t, other.at.Before(got.at))
				}
				delete(newest, got.key)
			}
		}
		require.Len(t, q.heap, len(newest))
		require.Len(t, q.place, len(newest))
	}
	_, ok := q.pop(start.Add(-time.Second))
	require.False(t, ok, "none has passed")
}

// Records say when they were written by the clock of the wall. Once a process knows of one, the time that
// passes counts: else a clock that is set an hour forward ended all events at once, which leases of
// etcd do not.
func TestSTORE_06_DeadlinesDoNotFollowAClockThatIsSet(t *testing.T) {
	wall := time.Now().Round(0)
	for _, written := range []time.Time{wall, wall.Add(-time.Minute), wall.Add(-2 * time.Hour), wall.Add(2 * time.Hour), {}} {
		x := newExpiry(time.Hour)
		x.note("a", 1, written)
		d, ok := x.queue.first()
		require.True(t, ok)
		require.NotEqual(t, d.at.Round(0), d.at, "written %v: it has no reading of the clock that only passes", written)
		want := written
		if written.IsZero() || written.After(wall) {
			want = wall
		}
		require.WithinDuration(t, want.Add(time.Hour), d.at, time.Minute)
	}
}
