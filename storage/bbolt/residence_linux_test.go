package bbolt

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// resident returns how much of a file's map the process has in memory.
func resident(t *testing.T, path string) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	lines, ours, found := bufio.NewScanner(f), false, false
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			ours = fields[len(fields)-1] == path
			found = found || ours
		case ours && fields[0] == "Rss:":
			n, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			bytes += n << 10
		}
	}
	require.NoError(t, lines.Err())
	require.True(t, found, "%s is not mapped", path)
	return bytes
}

// Loading, reading everything and opening the file leave no more than a fixed part of its map in
// memory.
func TestMapOfTheFileIsGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, withoutSync, WithRecentBytes(1))
	value := []byte(strings.Repeat("x", 64<<10))
	const objects = 1000
	begin, err := db.Revision(t.Context())
	require.NoError(t, err)
	key := func(i int) string { return storage.ObjectKey("widgets", "ns", fmt.Sprintf("n%04d", i)) }
	for i := range objects {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(key(i), value, storage.Any)})
		require.NoError(t, err)
	}
	const most = 3 * residentBytes
	require.Greater(t, int(db.Statistics().FileBytes), 2*most)
	require.Less(t, resident(t, path), most)
	for i := range objects {
		r, err := db.Get(t.Context(), key(i))
		require.NoError(t, err)
		require.Equal(t, string(value), string(r.Value))
	}
	require.Less(t, resident(t, path), most)
	seen := 0
	for batch, err := range db.Watch(t.Context(), "/r/widgets/", begin) {
		require.NoError(t, err)
		if seen += len(batch.Changes); seen == objects {
			break
		}
	}
	require.Less(t, resident(t, path), most)
	require.NoError(t, db.Close())
	db = open(t, path)
	require.Less(t, resident(t, path), residentBytes/8)
	require.NoError(t, db.Check(t.Context()))
}
