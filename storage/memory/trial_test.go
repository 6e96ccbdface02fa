package memory_test

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// trials is how many histories of several processes are checked: go test -run Trials -trials=500.
var trials = flag.Int("trials", 5, "histories of clients in several processes")

// Three processes use one store over connections that break. Some order of the calls explains every
// answer.
func TestSTORE_04_Trials(t *testing.T) {
	f := storagetest.RunTrials(t, storagetest.Trials{
		Count: *trials,
		Open: func(t testing.TB, _ *rand.Rand) storagetest.Trial {
			db := memory.New()
			s, err := remotestore.Share(t.Context(), filepath.Join(t.TempDir(), "s"), 3, db)
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, s.Close())
				require.NoError(t, db.Close())
			})
			return storagetest.Trial{Handles: s.Handles, Faults: []func(){s.Cut}}
		},
	})
	require.Positive(t, f.Unknown)
	require.Positive(t, f.Resumed)
}
