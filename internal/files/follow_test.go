package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// S26: the first part of a file is not taken for the file, although it does not change while it is read.
func TestS26_AFileThatIsBeingWrittenIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string, at time.Time) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
	}
	got := ""
	write("first", time.Now().Add(-time.Hour))
	f, err := Follow(func() error {
		data, err := Read(path)
		got = string(data)
		return err
	}, func(err error) { require.NoError(t, err) }, path)
	require.NoError(t, err)
	look := func() string {
		f.lastLook = time.Time{}
		f.Look()
		return got
	}
	require.Equal(t, "first", look())

	write("half", time.Now().Add(time.Minute)) // of a clock that is ahead: it would never be read
	require.Equal(t, "half", look())
	write("first", time.Now().Add(-time.Minute))
	require.Equal(t, "first", look())

	at := time.Now().Add(-time.Second)
	write("ha", at)
	f.now = func() time.Time { return at.Add(settles - 1) }
	require.Equal(t, "first", look())
	write("halves", at)
	require.Equal(t, "first", look())
	f.now = func() time.Time { return at.Add(settles) }
	require.Equal(t, "halves", look())

	other := path + ".new"
	require.NoError(t, os.WriteFile(other, []byte("whole"), 0o600))
	require.NoError(t, os.Rename(other, path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	f.now = info.ModTime
	require.Equal(t, "whole", look(), "it has replaced another one")
}
