//go:build unix

package bbolt

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestD9_RightsOfNewFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db := open(t, path)
	put(t, db, widget(1), "x")
	_, err := db.Backup(context.Background(), filepath.Join(dir, "backup.db"))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing else is left behind")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode(), e.Name())
	}
}

func TestD9_RightsOfOldFile(t *testing.T) {
	path, _, want := written(t, 3)
	require.NoError(t, os.Chmod(path, 0o664))
	db := open(t, path)
	same(t, want, tell(t, db), "reopened")
	require.NoError(t, db.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

func TestD9_NotARegularFile(t *testing.T) {
	target, _, _ := written(t, 3)
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"link to a store":  func(path string) error { return os.Symlink(target, path) },
		"link to nothing":  func(path string) error { return os.Symlink(filepath.Join(dir, "nothing"), path) },
		"directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"socket or device": func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			require.NoError(t, make(path))
			before := readFile(t, target)
			_, err := Open(path)
			refused(t, path, err, ErrUnsafeFile)
			require.Equal(t, before, readFile(t, target))
			_, err = os.Stat(filepath.Join(dir, "nothing"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}
