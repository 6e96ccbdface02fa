//go:build unix

package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func file600(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func readers() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){"Read": Read, "ReadSecret": ReadSecret, "ReadOwn": ReadOwn}
}

func TestAFileIsRead(t *testing.T) {
	for name, read := range readers() {
		path := file600(t, "text")
		link := path + ".link"
		require.NoError(t, os.Symlink(path, link)) // as mounted secrets have them
		for _, p := range []string{path, link} {
			data, err := read(p)
			require.NoError(t, err, name)
			require.Equal(t, "text", string(data))
		}
		_, err := read(path + ".absent")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// S26: none of them keeps the server waiting, fills its memory, or is half a file.
func TestWhatIsNotARegularFileIsRejected(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(pipe, link))
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, maxBytes+1))
	for name, read := range readers() {
		for path, why := range map[string]string{
			pipe: "pipe", link: "pipe", "/dev/zero": "device", dir: "directory", large: "at most 16777216",
		} {
			_, err := read(path)
			require.ErrorContains(t, err, why, name)
			require.ErrorContains(t, err, path)
		}
	}
	// A pipe may take the place of the file after the first look.
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = readOpen(f, checkPublic)
	require.ErrorContains(t, err, "pipe")
	require.NoError(t, f.Close())
}

func TestAFileThatChangesWhileItIsReadIsRejected(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"grows":   func(path string) error { return os.WriteFile(path, []byte("a longer text"), 0o600) },
		"shrinks": func(path string) error { return os.Truncate(path, 1) },
	} {
		path := file600(t, "text")
		f, err := os.Open(path)
		require.NoError(t, err)
		_, err = readOpen(f, func(*os.File, fs.FileInfo) error { return change(path) })
		require.ErrorContains(t, err, "changed while it was read", name)
		require.NoError(t, f.Close())
	}
}

// S8
func TestPermissionsThatOthersHaveAreTakenAway(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0o600: 0o600, 0o400: 0o400, 0o640: 0o640, 0o644: 0o640, 0o660: 0o640, 0o666: 0o640, 0o604: 0o600} {
		path := file600(t, "key")
		require.NoError(t, os.Chmod(path, mode))
		_, err := ReadSecret(path)
		require.NoError(t, err)
		require.Equal(t, []os.FileMode{want}, modes(t, path), "%#o", mode)
		_, err = ReadOwn(path)
		require.NoError(t, err)
		require.Zero(t, modes(t, path)[0]&0o077)
	}
	path := file600(t, "certificate")
	require.NoError(t, os.Chmod(path, 0o664))
	_, err := Read(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o666))
	_, err = Read(path)
	require.ErrorContains(t, err, "every user may write it")
}

func TestPermissionsThatCannotBeTakenAwayAreRejected(t *testing.T) {
	path := file600(t, "key")
	require.NoError(t, os.Chmod(path, 0o644))
	info, err := os.Stat(path)
	require.NoError(t, err)
	closed, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, closed.Close()) // its mode cannot be changed
	require.ErrorContains(t, checkSecret(closed, info), "other users have access to it (mode 0644), and that cannot be changed")
}

// strange is what the system says about a file of another user.
type strange struct{ fs.FileInfo }

func (s strange) Sys() any { return &syscall.Stat_t{Uid: uint32(os.Geteuid()) + 1} }

func TestFilesOfOtherUsersAreRejected(t *testing.T) {
	path := file600(t, "key")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, owned(info))
	require.ErrorContains(t, owned(strange{info}), "it belongs to the user with id")
	require.ErrorContains(t, checkSecret(nil, strange{info}), "it belongs to the user with id")
	_, err = acceptable(path, strange{dirInfo(t)})
	require.ErrorContains(t, err, "it belongs to the user with id")
}

func dirInfo(t *testing.T) fs.FileInfo {
	info, err := os.Stat(t.TempDir())
	require.NoError(t, err)
	return info
}

func TestADirectoryIsMadeOrChecked(t *testing.T) {
	outer := filepath.Join(t.TempDir(), "outer")
	path := filepath.Join(outer, "data")
	for range 2 {
		require.NoError(t, Directory(path))
		require.Equal(t, []os.FileMode{0o700, 0o700}, modes(t, outer, path))
	}
	for _, mode := range []os.FileMode{0o777, 0o770, 0o702, 0o720} {
		require.NoError(t, os.Chmod(path, mode))
		require.ErrorContains(t, Directory(path), "other users may write to it")
	}
	require.NoError(t, os.Chmod(path, 0o755))
	require.NoError(t, Directory(path))
	require.ErrorContains(t, Directory(file600(t, "")), "it is not a directory")
	require.Error(t, Directory(filepath.Join(file600(t, ""), "below")))
}

// A volume of a pod with an fsGroup belongs to root and the group, mode 2775. The files and
// directories in it have the group and its write permission after each start of the pod.
func TestAVolumeOfAPodIsADirectory(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.Chmod(path, 0o775|os.ModeSetgid))
	info, err := os.Stat(path)
	require.NoError(t, err)
	shared, err := acceptable(path, info)
	require.NoError(t, err)
	require.True(t, shared)

	_, err = acceptable(path, volume{FileInfo: info, gid: 1 << 30})
	require.ErrorContains(t, err, "set the fsGroup of the pod", "the process is not in the group")
	shared, err = acceptable(path, volume{FileInfo: info, gid: uint32(os.Getegid())})
	require.NoError(t, err)
	require.True(t, shared, "root's")

	require.NoError(t, Directory(path))
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, 0o755|os.ModeDir|os.ModeSetgid, info.Mode(), "the owner puts it right")
	require.NoError(t, os.Chmod(path, 0o777|os.ModeSetgid))
	require.ErrorContains(t, Directory(path), "other users may write to it (mode 0777)")
}

// volume is what the system says about a directory of root's.
type volume struct {
	fs.FileInfo
	gid uint32
}

func (v volume) Sys() any { return &syscall.Stat_t{Uid: 0, Gid: v.gid} }
