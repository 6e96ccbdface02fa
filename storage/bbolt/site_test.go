package bbolt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// A file that is gone from its place is not found at the next start. What would be lost then is not
// acknowledged.
func TestSTORE_08_NothingIsAcknowledgedInAFileThatIsNotInItsPlace(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"moved":   func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".old")) },
		"replaced": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".copy", data, 0o600))
			require.NoError(t, os.Rename(path+".copy", path))
		},
		"moved with its directory": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+"-old"))
		},
		"cut short": func(t *testing.T, path string) {
			require.NoError(t, os.Truncate(path, int64(3*os.Getpagesize()))) // the pages of the state are mapped
		},
	} {
		t.Run(name, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.Mkdir(directory, 0o700))
			path := filepath.Join(directory, "store.db")
			db := open(t, path)
			defer db.Close() //nolint:errcheck // its file may be gone
			key := storage.ObjectKey("things", "default", "a")
			_, err := db.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("1"), storage.Any)})
			require.NoError(t, err)
			require.NoError(t, db.Ready())

			fault(t, path)
			if name != "cut short" { // which is damage, and may be met by any read first
				require.ErrorContains(t, db.Ready(), "start again", "nobody has to write for it to be noticed")
			}
			for range 2 {
				_, err = db.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("2"), storage.Any)})
				require.ErrorIs(t, err, storage.ErrClosed)
				require.NotErrorIs(t, err, storage.ErrUnknownOutcome, "nothing was written")
			}
			require.ErrorContains(t, db.Healthy(), "while it was open")
			if name == "cut short" {
				return
			}
			r, err := db.Get(t.Context(), key)
			require.NoError(t, err, "reads go on")
			require.Equal(t, "1", string(r.Value))
		})
	}
}

// The path is that of the time at which the file was opened.
func TestARelativePathOutlivesAChangeOfTheDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	db := open(t, "store.db")
	defer db.Close() //nolint:errcheck // the commit is what counts
	t.Chdir(t.TempDir())
	_, err := db.Commit(t.Context(), []storage.Op{storage.Put(storage.ObjectKey("things", "default", "a"), nil, storage.Any)})
	require.NoError(t, err)
}
