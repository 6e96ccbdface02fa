package bbolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// actVariable makes the test binary act as another process instead of testing.
const actVariable = "KINDWRIGHT_BBOLT_ACT"

func TestMain(m *testing.M) {
	if act := os.Getenv(actVariable); act != "" {
		path := os.Args[len(os.Args)-1]
		if err := acts[act](path); err != nil {
			_, _ = fmt.Fprintln(os.Stdout, "failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var acts = map[string]func(path string) error{
	// hold opens the store, reports that, and waits until its standard input ends.
	"hold": func(path string) error {
		db, err := Open(path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(os.Stdout, "open")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return db.Close()
	},
	// write commits until it is killed, and reports each acknowledged commit.
	"write": func(path string) error {
		db, err := Open(path)
		if err != nil {
			return err
		}
		told := make(chan string, 1000)
		for w := range 4 {
			go func() {
				for i := 0; ; i++ {
					key := storage.SysKey("key", fmt.Sprint(w), fmt.Sprint(i%50))
					rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(key, fmt.Appendf(nil, "%d %01000d", i, i), storage.Any)})
					told <- fmt.Sprintln(rev, w, i, err)
					if i%100 == 99 {
						_ = db.Compact(context.Background(), rev-50)
					}
				}
			}()
		}
		for line := range told {
			_, _ = fmt.Fprint(os.Stdout, line)
		}
		return nil
	},
}

// act starts another process.
func act(t testing.TB, name, path string) (*exec.Cmd, *bufio.Reader, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), actVariable+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewReader(out), func() { require.NoError(t, in.Close()) }
}

func TestD7_TwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	other, said, letGo := act(t, "hold", path)
	line, err := said.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "open\n", line)

	_, err = openInert(t, path)
	refused(t, path, err, ErrInUse)

	letGo()
	require.NoError(t, other.Wait(), "the first is unharmed")
	db := open(t, path)
	put(t, db, widget(1), "x")
	require.NoError(t, db.Close())
}

func TestD7_TwiceInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path)
	rev := put(t, db, widget(1), "x")
	_, err := Open(path)
	refused(t, path, err, ErrInUse)
	require.Less(t, lockWait+lockRetry, 2*time.Second)
	require.Greater(t, put(t, db, widget(1), "y"), rev)
	require.NoError(t, db.Close())
	require.NoError(t, open(t, path).Close())
}

// A process that opens the file while another is leaving gets it in time.
func TestOpenWaitsForAnotherToClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path)
	rev := put(t, db, widget(1), "x")
	opened := make(chan *DB)
	go func() {
		next, err := Open(path)
		if err != nil {
			t.Error(err)
		}
		opened <- next
	}()
	require.NoError(t, db.Close())
	next := <-opened
	require.GreaterOrEqual(t, next.Statistics().Revision, rev)
	require.NoError(t, next.Close())
}

func TestOpenInMissingDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "store.db")
	_, err := Open(path)
	refused(t, path, err, fs.ErrNotExist)
	_, err = os.Stat(filepath.Dir(path))
	require.ErrorIs(t, err, fs.ErrNotExist, "directories are the caller's")
}

func TestOpenWithoutAName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{"", "missing/"} {
		_, err := Open(path)
		refused(t, path, err, ErrUnsafeFile)
		require.ErrorContains(t, err, "without the name of a file")
	}
	_, err := open(t, "store.db").Backup(t.Context(), "")
	require.ErrorIs(t, err, ErrUnsafeFile)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the store is left")
}

func TestOpenRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	db := open(t, "store.db")
	put(t, db, widget(1), "x")
	require.NoError(t, db.Close())
	require.NoError(t, open(t, "./store.db").Close())
}

// STORE-03: a store without its past starts above any revision that an earlier store of the same
// name may have issued.
func TestSTORE_03_NewStoreBeginsAtTheTime(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	db := openFast(t, WithNow(func() time.Time { return now }), nil)
	start := db.Statistics().Revision
	require.Equal(t, storage.Revision(now.UnixMicro()), start)
	put(t, db, widget(1), "x")
	b := tell(t, db).batches[0]
	require.Greater(t, b.Revision, start)
	require.True(t, now.Equal(b.Time), "%v", b.Time)
	require.NoError(t, db.Close())
}

// Processes that start together on a new path get one store, created once.
func TestOpenTogether(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	results := make(chan error)
	const starters = 4
	for i := range starters {
		go func() {
			db, err := Open(path)
			if err == nil {
				_, err = db.Commit(context.Background(), []storage.Op{storage.Put(widget(i), nil, storage.Absent)})
				err = errors.Join(err, db.Close())
			}
			results <- err
		}()
	}
	done := 0
	for range starters {
		if err := <-results; err == nil {
			done++
		} else {
			refused(t, path, err, ErrInUse)
		}
	}
	db := open(t, path)
	require.Len(t, listAll(t, db, 0), done, "each that opened it wrote to the same store")
	require.NoError(t, db.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A new file never replaces an existing one, with hard links or without.
func TestPublishFileTakesNoName(t *testing.T) {
	dir := t.TempDir()
	temp, path := filepath.Join(dir, "temp"), filepath.Join(dir, "path")
	require.NoError(t, os.WriteFile(temp, nil, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	require.ErrorIs(t, publishFile(temp, path), fs.ErrExist)
	require.Equal(t, "precious", string(readFile(t, path)))

	missing := filepath.Join(dir, "missing") // cannot be linked
	require.ErrorIs(t, publishFile(missing, path), fs.ErrExist)
	require.Equal(t, "precious", string(readFile(t, path)))
	require.ErrorIs(t, publishFile(missing, filepath.Join(dir, "free")), fs.ErrNotExist)
}

// Where address space is limited, the map has the size of the file.
func TestOpenWithoutAddressSpace(t *testing.T) {
	db := openFast(t, func(o *options) { o.mapBytes = 1 << (bits.UintSize - 17) })
	require.NoError(t, db.Healthy())
	fill(t, db, 5000) // it is mapped anew several times
	require.NoError(t, db.Check(t.Context()))
	require.NoError(t, db.Close())
}

// D8: a program that stops at any moment, here by SIGKILL, loses no acknowledged commit.
func TestKilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for round := range 3 {
		writer, said, _ := act(t, "write", path)
		told := map[string]string{} // key to its newest acknowledged number
		newest := storage.Revision(0)
		for range 300 + 200*round {
			line, err := said.ReadString('\n')
			require.NoError(t, err)
			var rev storage.Revision
			var w, i int
			var failed string
			_, err = fmt.Sscan(line, &rev, &w, &i, &failed)
			require.NoError(t, err)
			require.Equal(t, "<nil>", failed, line)
			told[storage.SysKey("key", fmt.Sprint(w), fmt.Sprint(i%50))] = fmt.Sprint(i)
			newest = max(newest, rev)
		}
		require.NoError(t, writer.Process.Kill())
		_ = writer.Wait()

		db := open(t, path)
		require.GreaterOrEqual(t, db.Statistics().Revision, newest)
		for key, i := range told {
			r, err := db.Get(context.Background(), key)
			require.NoError(t, err, key)
			got, _, _ := strings.Cut(string(r.Value), " ")
			var have, want int
			_, err = fmt.Sscan(got, &have)
			require.NoError(t, err)
			_, err = fmt.Sscan(i, &want)
			require.NoError(t, err)
			require.GreaterOrEqual(t, have, want, key)
		}
		require.NoError(t, db.Check(context.Background()))
		require.NoError(t, db.Close())
	}
}
