package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded is a disk that records what is done, and fails at one operation.
type recorded struct {
	done []string
	fail string
}

func (r *recorded) do(op string) error {
	r.done = append(r.done, op)
	if op == r.fail {
		return errors.New("the disk is broken")
	}
	return nil
}

func (r *recorded) disk() disk {
	return disk{
		create:        func(string, string) (file, error) { return recordedFile{r}, r.do("create") },
		open:          func(path string) (file, error) { return recordedFile{r}, r.do("open " + path) },
		rename:        func(from, to string) error { return r.do("rename " + from + " " + to) },
		remove:        func(path string) error { return r.do("remove " + path) },
		syncDirectory: func(path string) error { return r.do("sync directory " + path) },
	}
}

type recordedFile struct{ *recorded }

func (f recordedFile) Name() string                { return "temp" }
func (f recordedFile) Write(p []byte) (int, error) { return len(p), f.do("write") }
func (f recordedFile) Sync() error                 { return f.do("sync") }
func (f recordedFile) Close() error                { return f.do("close") }

func TestTheContentIsSyncedBeforeItHasAName(t *testing.T) {
	r := &recorded{}
	require.NoError(t, r.disk().write("dir/key", []byte("secret")))
	require.Equal(t, []string{"create", "write", "sync", "close", "rename temp dir/key", "sync directory dir"}, r.done)
}

func TestAFileIsSyncedBeforeItIsRenamed(t *testing.T) {
	steps := []string{"open dir/part", "sync", "close", "rename dir/part dir/log", "sync directory dir"}
	r := &recorded{}
	require.NoError(t, r.disk().moved("dir/part", "dir/log"))
	require.Equal(t, steps, r.done)
	for i, fail := range steps {
		r := &recorded{fail: fail}
		require.Error(t, r.disk().moved("dir/part", "dir/log"))
		end := i + 1
		if fail == "sync" { // the file is closed anyway
			end++
		}
		require.Equal(t, steps[:end], r.done)
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "part"), filepath.Join(dir, "log")
	require.NoError(t, Write(from, []byte("new")))
	require.NoError(t, Write(to, []byte("old")))
	require.NoError(t, Rename(from, to))
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "new", string(data))
	require.ErrorIs(t, Rename(from, to), os.ErrNotExist)
}

func TestAFailedWriteIsReportedAndLeavesNothing(t *testing.T) {
	for fail, want := range map[string][]string{
		"create":              {"create"},
		"write":               {"create", "write", "close", "remove temp"},
		"sync":                {"create", "write", "sync", "close", "remove temp"},
		"close":               {"create", "write", "sync", "close", "remove temp"},
		"rename temp dir/key": {"create", "write", "sync", "close", "rename temp dir/key", "remove temp"},
		"sync directory dir":  {"create", "write", "sync", "close", "rename temp dir/key", "sync directory dir"},
	} {
		r := &recorded{fail: fail}
		err := r.disk().write("dir/key", []byte("secret"))
		require.Error(t, err, fail)
		require.Equal(t, want, r.done)
	}
}

func TestAWrittenFileIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("a longer secret"), 0o644))
	require.NoError(t, Write(path, []byte("secret")))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
	require.Equal(t, []os.FileMode{0o600}, modes(t, path))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
	require.Error(t, Write(filepath.Join(path, "below"), nil))
}

// S8: a link that somebody planted does not lead the key elsewhere.
func TestALinkIsReplacedNotFollowed(t *testing.T) {
	dir := t.TempDir()
	elsewhere, link := filepath.Join(dir, "elsewhere"), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(elsewhere, []byte("old"), 0o644))
	require.NoError(t, os.Symlink(elsewhere, link))
	require.NoError(t, Write(link, []byte("secret")))
	data, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
}

func modes(t *testing.T, paths ...string) (out []os.FileMode) {
	for _, p := range paths {
		info, err := os.Stat(p)
		require.NoError(t, err)
		out = append(out, info.Mode().Perm())
	}
	return out
}
