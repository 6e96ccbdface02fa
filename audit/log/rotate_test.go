package log

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
)

// D5: a directory that takes no new names costs no record, and holds up nobody. Here the names of
// replaced files are too long.
func TestAUD_19_AFileThatCannotBeReplacedGrowsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("a", 250))
	now, failures := time.Now(), 0
	r := &rotating{path: path, most: 10, now: func() time.Time { return now }, open: openFile, failed: func(error) { failures++ }}
	require.NoError(t, r.reopen())
	for range 5 {
		require.NoError(t, r.append([]byte("eight\n\n\n")))
	}
	require.Equal(t, 1, failures, "it is not tried for each record")
	now = now.Add(2 * rotatePause)
	require.NoError(t, r.append([]byte("last\n")))
	require.Equal(t, 2, failures)
	require.NoError(t, r.close())
	text, err := os.ReadFile(path) //nolint:gosec // ours
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("eight\n\n\n", 5)+"last\n", string(text))
}

// D5: a disk without room for another file, too.
func TestAUD_19_AFileThatCannotBeMadeLeavesTheOldOne(t *testing.T) {
	path, full := filepath.Join(t.TempDir(), "audit.log"), false
	r := &rotating{path: path, most: 10, now: time.Now, open: func(path string) (file, int64, error) {
		if _, err := os.Stat(path); full && errors.Is(err, os.ErrNotExist) {
			return nil, 0, errors.New("no space left")
		}
		return openFile(path)
	}}
	require.NoError(t, r.reopen())
	require.NoError(t, r.append([]byte("before\n")))
	full = true
	require.NoError(t, r.append([]byte("within\n")))
	r.not, full = time.Time{}, false
	require.NoError(t, r.append([]byte("after\n")))
	require.NoError(t, r.close())
	text, err := os.ReadFile(path) //nolint:gosec // ours
	require.NoError(t, err)
	require.Equal(t, "after\n", string(text))
	all, err := filepath.Glob(filepath.Dir(path) + "/*")
	require.NoError(t, err)
	require.Len(t, all, 2)
	text, err = os.ReadFile(all[0])
	require.NoError(t, err)
	require.Equal(t, "before\nwithin\n", string(text))
}

// D4, D5: a file without its name takes no record. Before, strict mode went on without a word.
func TestSEC_D4_D5_AFileThatOthersTakeAwayIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "logs", "audit.log"), filepath.Join(dir, "moved")
	l, err := Open(path, Options{Mode: audit.ModeBlockingStrict})
	require.NoError(t, err)
	now, file := time.Now(), l.file.to.(*rotating) //nolint:forcetypeassert // it is not the standard output
	file.now = func() time.Time { return now }
	write := func(id string) error { return l.Write(t.Context(), record(id, 1)) }

	require.NoError(t, write("before"))
	require.NoError(t, os.Rename(path, moved))
	require.NoError(t, write("at once"))
	now = now.Add(lookEvery)
	require.NoError(t, write("renamed"))
	require.Equal(t, []string{"before", "at once"}, linesOf(t, read(t, moved)))
	require.Equal(t, []string{"renamed"}, linesOf(t, read(t, path)))

	require.NoError(t, os.Remove(path))
	require.NoError(t, write("removed"))
	require.Equal(t, []string{"removed"}, linesOf(t, read(t, path)))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.Rename(moved, path), "another file has the name")
	now = now.Add(lookEvery)
	require.NoError(t, write("replaced"))
	require.Equal(t, []string{"before", "at once", "replaced"}, linesOf(t, read(t, path)))

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	require.Error(t, write("nowhere"), "strict mode says that there is no place for it")
	require.Error(t, write("nowhere"))
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, write("again"))
	require.Equal(t, []string{"again"}, linesOf(t, read(t, path)))
	_, lost := l.Losses()
	require.Equal(t, uint64(2), lost)
	require.NoError(t, l.Close())
}

// Only strict mode looks at the file before each write. The other modes trust a look for a millisecond.
func TestSEC_D4_D5_AFileThatOthersTakeAwayIsMissedSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, Options{Mode: audit.ModeBlocking})
	require.NoError(t, err)
	now, file := time.Now(), l.file.to.(*rotating) //nolint:forcetypeassert // it is not the standard output
	file.now = func() time.Time { return now }
	write := func(id string) { require.NoError(t, l.Write(t.Context(), record(id, 1))) }

	write("before")
	require.NoError(t, os.Remove(path))
	now = now.Add(trustFor - 1)
	write("gone")
	require.NoFileExists(t, path)
	now = now.Add(1)
	write("new")
	require.Equal(t, []string{"new"}, linesOf(t, read(t, path)))
	require.NoError(t, os.Remove(path))
	now = now.Add(-time.Hour) // a clock that is put back is no reason to trust for an hour
	write("later")
	require.Equal(t, []string{"later"}, linesOf(t, read(t, path)))
	require.NoError(t, l.Close())
}

// Another program copies the file and empties it. Its size is what it is: nothing is rotated too early,
// and cutting off half a line does not fill the file with zeros.
func TestSEC_D4_D5_AFileThatOthersEmptyGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	r := &rotating{path: path, most: 20, now: time.Now, open: openFile}
	require.NoError(t, r.reopen())
	require.NoError(t, r.append([]byte("fifteen bytes.\n")))
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, r.append([]byte("fifteen bytes.\n")))
	require.NoError(t, os.Truncate(path, 4))
	require.NoError(t, r.append([]byte("ten bytes\n")))
	require.NoError(t, r.close())
	require.Equal(t, "fift\nten bytes\n", string(read(t, path)))
	all, err := filepath.Glob(filepath.Dir(path) + "/*")
	require.NoError(t, err)
	require.Len(t, all, 1)
}
