package log

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
