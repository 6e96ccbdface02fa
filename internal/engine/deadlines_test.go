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
