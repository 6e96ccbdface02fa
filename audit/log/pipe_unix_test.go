//go:build unix

package log

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
)

// fifo makes a pipe with a name.
func fifo(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(path, 0o600))
}

// reader opens a pipe to read it.
func reader(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // ours
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// D4: what a pipe takes while nobody reads it is nowhere, so it takes nothing.
func TestAUD_20_APipeThatNobodyReadsTakesNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	fifo(t, path)
	l, err := Open(path, Options{Mode: audit.ModeBlockingStrict})
	require.NoError(t, err, "the reader may come later")
	require.Error(t, l.Write(context.Background(), []byte(`{"a":1}`)))
	from := reader(t, path)
	require.NoError(t, l.Write(context.Background(), []byte(`{"a":2}`)))
	line, err := bufio.NewReader(from).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "{\"a\":2}\n", line)
	require.NoError(t, from.Close())
	require.Error(t, l.Write(context.Background(), []byte(`{"a":3}`)))
	from = reader(t, path)
	require.NoError(t, l.Write(context.Background(), []byte(`{"a":4}`)))
	line, err = bufio.NewReader(from).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "{\"a\":4}\n", line)
	require.NoError(t, l.Close())
}

// D5: a pipe whose reader hangs costs a bounded time.
func TestAUD_20_AFullPipeFailsAfterATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	fifo(t, path)
	reader(t, path)
	r := &rotating{path: path, now: time.Now, open: func(path string) (file, int64, error) {
		f, size, err := openFile(path)
		if p, ok := f.(pipe); ok {
			f = pipe{p.File, 10 * time.Millisecond}
		}
		return f, size, err
	}}
	require.NoError(t, r.reopen())
	w := newWriter(r)
	line := []byte(strings.Repeat("x", 100_000)) // more than a pipe holds
	require.ErrorIs(t, w.write(line), os.ErrDeadlineExceeded)
	require.ErrorIs(t, w.write(line), os.ErrDeadlineExceeded)
	require.NoError(t, w.close())
}

// A pipe has no size, so it is never replaced: it would be closed, and who reads it would see its end.
func TestAUD_34_APipeIsNeverReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	fifo(t, path)
	from := reader(t, path)
	opened := 0
	r := &rotating{path: path, most: 10, now: time.Now, open: func(path string) (file, int64, error) {
		opened++
		return openFile(path)
	}}
	require.NoError(t, r.reopen())
	for range 5 {
		require.NoError(t, r.append([]byte("123456789\n")))
	}
	all := make([]byte, 100)
	n, err := from.Read(all)
	require.NoError(t, err)
	require.Equal(t, 50, n)
	require.Equal(t, 1, opened)
	require.NoError(t, r.close())
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// A pipe in the place of the file is left when it loses the name, as a file is.
func TestAUD_20_APipeThatLosesItsNameIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	now := time.Now()
	r := &rotating{path: path, now: func() time.Time { return now }, open: openFile}
	require.NoError(t, r.reopen())
	require.NoError(t, r.append([]byte("1\n")))
	require.NoError(t, os.Rename(path, path+".1"))
	fifo(t, path)
	now = now.Add(lookEvery)
	require.Error(t, r.append([]byte("2\n")), "nobody reads")
	from := reader(t, path)
	require.NoError(t, r.append([]byte("3\n")))
	require.NoError(t, os.Rename(path, path+".2"))
	now = now.Add(lookEvery)
	require.NoError(t, r.append([]byte("4\n")))
	text, err := os.ReadFile(path) //nolint:gosec // ours
	require.NoError(t, err)
	require.Equal(t, "4\n", string(text))
	require.NoError(t, r.close())
	require.NoError(t, from.Close())
}
