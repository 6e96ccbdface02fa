//go:build unix

package program

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The umask belongs to the process. No test may create files while this one runs, so no test of
// this package is parallel.
func TestD9_FilesBelongToTheirOwnerAlone(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "outer", "data")
	defer syscall.Umask(syscall.Umask(0))
	s := serveIn(t, dir, "--kubeconfig="+filepath.Join(parent, "config", "kubeconfig"))
	seen := 0
	look := func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		seen++
		assert.Equal(t, want, info.Mode().Perm(), path)
		return nil
	}
	for _, made := range []string{"outer", "config"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(parent, made), look))
	}
	assert.Equal(t, 0, s.stop())
	assert.GreaterOrEqual(t, seen, 10, "two directories and their parents, five files of the identity, the store and the kubeconfig")
}
