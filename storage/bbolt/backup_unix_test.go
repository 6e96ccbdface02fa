//go:build unix

package bbolt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// looking is a writer that looks what is in the directory for temporary files.
type looking struct {
	t     *testing.T
	bytes int
}

func (l *looking) Write(p []byte) (int, error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*", "*"))
	require.NoError(l.t, err)
	require.Empty(l.t, left)
	l.bytes += len(p)
	return len(p), nil
}

// Sending a copy may take minutes. A process that is killed meanwhile leaves none of it behind, with all
// the secrets in it.
func TestOPS_ACopyThatIsBeingSentHasNoName(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), "store.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Commit(t.Context(), []storage.Op{storage.Put("/r/a/b/c/", []byte("value"), storage.Any)})
	require.NoError(t, err)
	t.Setenv("TMPDIR", t.TempDir())
	w := &looking{t: t}
	_, err = db.BackupTo(t.Context(), w)
	require.NoError(t, err)
	require.Positive(t, w.bytes)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}
