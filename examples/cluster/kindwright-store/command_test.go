package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// asProgram has the arguments of the program, in lines, if the process of the tests is to be one.
const asProgram = "KINDWRIGHT_STORE_ARGUMENTS"

func TestMain(m *testing.M) {
	if args := os.Getenv(asProgram); args != "" {
		os.Exit(run(context.Background(), strings.Split(args, "\n"), os.Stdout, os.Stderr))
	}
	etcdtest.Main(m)
}

// command runs the program and returns its exit code and what it prints.
func command(ctx context.Context, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(ctx, args, &o, &e)
	return code, o.String(), e.String()
}

// succeeds runs a command that must.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := command(t.Context(), args...)
	require.Zero(t, code, "%s%s", out, errOut)
	require.Empty(t, errOut)
	return out
}

// fails runs a command that must end with a code and a sentence.
func fails(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	got, out, errOut := command(t.Context(), args...)
	require.Equal(t, code, got, "%s%s", out, errOut)
	require.Contains(t, errOut, says)
}

func widget(i int) string {
	return storage.ObjectKey("example.dev/widgets", "team", fmt.Sprint("w", i))
}

// stopped makes the file of a stopped server and returns its path and contents.
func stopped(t *testing.T, objects int) (path string, want []storage.Record) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kindwright.db")
	db, err := bbolt.Open(path)
	require.NoError(t, err)
	for i := range objects {
		put(t, db, widget(i), fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 200)))
	}
	want = all(t, db)
	require.NoError(t, db.Close())
	return path, want
}

func put(t *testing.T, b storage.Backend, key, value string) storage.Revision {
	t.Helper()
	rev, err := b.Commit(context.Background(), []storage.Op{storage.Put(key, []byte(value), storage.Any)})
	require.NoError(t, err)
	return rev
}

func all(t *testing.T, b storage.Backend) (out []storage.Record) {
	t.Helper()
	r := storage.ListRequest{Limit: 500}
	for more := true; more; {
		p, err := b.List(context.Background(), r)
		require.NoError(t, err)
		out = append(out, p.Records...)
		if more = p.More; more {
			r.After = out[len(out)-1].Key
		}
	}
	return out
}

// in reads a file's contents.
func in(t *testing.T, path string) []storage.Record {
	t.Helper()
	db, err := bbolt.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.Check(t.Context()))
	return all(t, db)
}

func openEtcd(t *testing.T, endpoint, prefix string) *etcd.DB {
	t.Helper()
	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}, Prefix: prefix, Owner: "example.dev"})
	require.NoError(t, err)
	return db
}

// A store moves from a file to etcd and back into another file. In between it is written to.
func TestOPS_FromAFileToEtcdAndBack(t *testing.T) {
	endpoint := etcdtest.Start(t, 1, etcdtest.Options{}).Endpoints()[0]
	path, _ := stopped(t, 700)
	place := "etcd:" + endpoint + "/moved"

	// A backup brings most of it over while a server would run, the file itself the rest.
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup.db")
	require.Contains(t, succeeds(t, "backup", "--from", "bbolt:"+path, "--to", backup), "done: ")
	db, err := bbolt.Open(path)
	require.NoError(t, err)
	put(t, db, widget(3), "later")
	last := put(t, db, widget(1000), "new")
	_, err = db.Commit(t.Context(), []storage.Op{storage.Delete(widget(5), storage.Any)})
	require.NoError(t, err)
	want := all(t, db)
	require.NoError(t, db.Close())
	require.Contains(t, succeeds(t, "copy", "--prepare", "--from", "bbolt:"+backup, "--to", place), "before another copy has finished it")
	fails(t, exitFailure, "unfinished copy", "check", "--from", place)
	require.Contains(t, succeeds(t, "copy", "--from", "bbolt:"+path, "--to", place), "done: ")
	require.Contains(t, succeeds(t, "check", "--from", place), "intact: 700 records")

	b := openEtcd(t, endpoint, "/moved")
	require.Equal(t, want, all(t, b), "with their revisions")
	next := put(t, b, widget(4), "written in etcd")
	require.Greater(t, next, last)
	ctx, interrupt := context.WithCancel(t.Context())
	rev := put(t, b, widget(6), "before the copy")

	// And back, while etcd is written to, until the program is interrupted.
	again := filepath.Join(dir, "again.db")
	said := &waiting{wanted: "following", heard: make(chan struct{})}
	var errOut bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"copy", "--follow", "--from", place, "--to", "bbolt:" + again}, said, &errOut)
	}()
	<-said.heard
	rev = max(rev, put(t, b, widget(7), "while it follows"))
	want = all(t, b)
	interrupt()
	require.Zero(t, <-ended, errOut.String())
	require.Equal(t, want, in(t, again))
	moved, err := bbolt.Open(again)
	require.NoError(t, err)
	require.Greater(t, put(t, moved, widget(1), "on"), rev)
	require.NoError(t, moved.Close())

	// A backup of etcd in use, restored as another store in etcd.
	saved := filepath.Join(dir, "saved.db")
	succeeds(t, "backup", "--from", place, "--to", saved)
	succeeds(t, "restore", "--from", saved, "--to", "etcd:"+endpoint+"/restored")
	restored := openEtcd(t, endpoint, "/restored")
	require.Equal(t, want, all(t, restored))
	require.Greater(t, put(t, restored, widget(1), "on"), rev)

	fails(t, exitFailure, "not empty", "copy", "--from", "bbolt:"+path, "--to", place)
	fails(t, exitFailure, "not cleared", "clear", "--to", place)
	succeeds(t, "copy", "--prepare", "--from", "bbolt:"+path, "--to", "etcd:"+endpoint+"/half")
	require.Contains(t, succeeds(t, "clear", "--to", "etcd:"+endpoint+"/half"), "empty")
	// What etcd has no room for is named before anything is written.
	large, _ := stopped(t, 3)
	db, err = bbolt.Open(large)
	require.NoError(t, err)
	put(t, db, widget(9), strings.Repeat("x", 2<<20))
	require.NoError(t, db.Close())
	fails(t, exitFailure, "example.dev/widgets team/w9", "copy", "--from", "bbolt:"+large, "--to", "etcd:"+endpoint+"/half")
	half := openEtcd(t, endpoint, "/half")
	require.Empty(t, all(t, half))
	for _, db := range []*etcd.DB{b, restored, half} {
		require.NoError(t, db.Close())
	}
}

// waiting tells when something has been printed.
type waiting struct {
	wanted string
	heard  chan struct{}
	told   bool
}

func (w *waiting) Write(p []byte) (int, error) {
	if !w.told && bytes.Contains(p, []byte(w.wanted)) {
		w.told = true
		close(w.heard)
	}
	return len(p), nil
}

// tree is the names and contents of all files in a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(data)
	}
	return files
}

// newer makes a file one of a format that does not exist yet.
func newer(t *testing.T, data []byte) []byte {
	t.Helper()
	const magic = "kindwright"
	table := crc32.MakeTable(crc32.Castagnoli)
	for at := 0; at+len(magic)+8 <= len(data); at++ {
		record, sum := data[at:at+len(magic)+4], data[at+len(magic)+4:at+len(magic)+8]
		if bytes.HasPrefix(record, []byte(magic)) && binary.BigEndian.Uint32(sum) == crc32.Checksum(record, table) {
			binary.BigEndian.PutUint32(record[len(magic):], 99)
			binary.BigEndian.PutUint32(sum, crc32.Checksum(record, table))
		}
	}
	return data
}

// Each command says what is wrong with what it is given and what to do, and writes nothing.
func TestOPS_BadInput(t *testing.T) {
	path, _ := stopped(t, 100)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	other, _ := stopped(t, 1)
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"another program's file": {bytes.Repeat([]byte("a letter home\n"), 1000), "not a store"},
		"a newer format":         {newer(t, bytes.Clone(good)), "newer format"},
		"a torn copy":            {good[:5*4096], "damaged"},
		"a copy with a hole":     {append(append(bytes.Clone(good[:16384]), make([]byte, 16384)...), good[32768:]...), "damaged"},
		"an empty file":          {nil, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bad := filepath.Join(dir, "bad.db")
			require.NoError(t, os.WriteFile(bad, c.data, 0o600))
			before := tree(t, dir)
			target := filepath.Join(dir, "target.db")
			fails(t, exitFailure, c.says, "copy", "--from", "bbolt:"+bad, "--to", "bbolt:"+target)
			fails(t, exitFailure, c.says, "copy", "--from", "bbolt:"+path, "--to", "bbolt:"+bad)
			fails(t, exitFailure, c.says, "backup", "--from", "bbolt:"+bad, "--to", target)
			fails(t, exitFailure, c.says, "restore", "--from", bad, "--to", "bbolt:"+target)
			code, out, errOut := command(t.Context(), "check", "--from", "bbolt:"+bad)
			require.Equal(t, exitFailure, code)
			require.Contains(t, out+errOut, c.says)
			require.Equal(t, before, tree(t, dir))
		})
	}
	dir := t.TempDir()
	missing, target := filepath.Join(dir, "missing.db"), "bbolt:"+filepath.Join(dir, "target.db")
	fails(t, exitFailure, "missing.db", "copy", "--from", "bbolt:"+missing, "--to", target)
	fails(t, exitFailure, "missing.db", "restore", "--from", missing, "--to", target)
	fails(t, exitFailure, "missing.db", "check", "--from", "bbolt:"+missing)
	fails(t, exitFailure, "not empty", "copy", "--from", "bbolt:"+path, "--to", "bbolt:"+other)
	fails(t, exitFailure, "move it away", "restore", "--from", path, "--to", "bbolt:"+other)
	fails(t, exitFailure, "give the name of a new file", "backup", "--from", "bbolt:"+path, "--to", other)
	fails(t, exitFailure, "directory", "copy", "--from", "bbolt:"+path, "--to", "bbolt:"+filepath.Join(dir, "no", "x.db"))
	fails(t, exitFailure, "nothing listens there", "copy", "--from", "bbolt:"+path, "--to", "etcd:http://127.0.0.1:1/x")
	fails(t, exitFailure, "refused", "backup", "--from", "http://127.0.0.1:1", "--to", filepath.Join(dir, "b.db"))
	held, err := bbolt.Open(path)
	require.NoError(t, err)
	fails(t, exitFailure, "--serve-backup", "backup", "--from", "bbolt:"+path, "--to", filepath.Join(dir, "b.db"))
	fails(t, exitFailure, "in use", "check", "--from", "bbolt:"+path)
	require.NoError(t, held.Close())
	fails(t, exitUsage, "--from is missing", "check")
	fails(t, exitUsage, "--to is missing", "copy", "--from", "bbolt:x")
	fails(t, exitUsage, "must be bbolt:PATH", "check", "--from", "x.db")
	fails(t, exitUsage, "the same store", "copy", "--from", "bbolt:x", "--to", "bbolt:x")
	fails(t, exitUsage, "no command", "move")
	fails(t, exitUsage, "give a command")
	fails(t, exitUsage, "unexpected argument", "check", "x")
	fails(t, exitUsage, "not defined", "check", "--nonsense")
	fails(t, exitUsage, "give one of them", "copy", "--prepare", "--follow", "--from", "bbolt:x", "--to", "bbolt:y")
	fails(t, exitUsage, "--etcd-keyfile", "check", "--from", "etcd:https://x:1/x", "--etcd-certfile", "c")
	fails(t, exitUsage, "give at most", "copy", "--from", "bbolt:"+path, "--to", target, "--above", "18446744073709551615")
	fails(t, exitUsage, "give at most", "restore", "--from", path, "--to", target, "--above", "9223372036854775807")
	require.Empty(t, tree(t, dir))
	code, _, errOut := command(t.Context(), "--help")
	require.Zero(t, code)
	require.Contains(t, errOut, "usage")
}

// What can be read of a damaged file is brought over, and what cannot is named.
func TestOPS_TheRestOfADamagedFileIsBroughtOver(t *testing.T) {
	path, want := stopped(t, 300)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	hurt := 0
	for at := bytes.Index(data, []byte(`{"n":123,`)); at >= 0; at = bytes.Index(data, []byte(`{"n":123,`)) {
		data[at+1] = '!'
		hurt++
	}
	require.Positive(t, hurt)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	code, out, errOut := command(t.Context(), "check", "--from", "bbolt:"+path)
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "it seems to be of example.dev/widgets team/w123")
	require.Contains(t, errOut, "1 of its parts cannot be read, 299 records can")
	dir := t.TempDir()
	target := filepath.Join(dir, "rest.db")
	fails(t, exitFailure, "--leave-out-unreadable", "copy", "--from", "bbolt:"+path, "--to", "bbolt:"+target)
	require.Empty(t, tree(t, dir))
	out = succeeds(t, "copy", "--leave-out-unreadable", "--from", "bbolt:"+path, "--to", "bbolt:"+target)
	require.Contains(t, out, "left out: ")
	require.Contains(t, out, "team/w123")
	got := in(t, target)
	var rest []storage.Record
	for _, r := range want {
		if r.Key != widget(123) {
			rest = append(rest, r)
		}
	}
	require.Equal(t, rest, got)
	require.NoError(t, os.Remove(target))
	succeeds(t, "restore", "--leave-out-unreadable", "--from", path, "--to", "bbolt:"+target)
	require.Len(t, in(t, target), 299)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, after), "the damaged file stays as it is")
}
