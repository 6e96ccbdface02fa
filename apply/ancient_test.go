package apply

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// A client can send tens of thousands of entries. Merging them costs about as much as the number of
// their fields.
//
// Source: B15.
func TestB15_ManyUpdatersMergeInNearlyLinearSpace(t *testing.T) {
	spent := func(n int) uint64 {
		m := newManagers(n)
		for i := range n {
			m.own(owner{manager: fmt.Sprint("m", i), operation: opUpdate, apiVersion: "v1"}, fieldpath.NewSet(Path{fmt.Sprint("field-", i)}.elements()))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m.collapse()
		runtime.ReadMemStats(&after)
		require.Len(t, m.sets, maxUpdaters)
		merged := m.sets[owner{manager: ancient, operation: opUpdate, apiVersion: "v1"}.id()]
		require.Equal(t, n-maxUpdaters+1, merged.Set().Size())
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, spent(8000), 10*spent(2000), "four times as many; squares would be sixteen times as much")
}
