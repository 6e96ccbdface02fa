//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/bbolt"
)

// nobody is a user with few rights.
const nobody = 65534

// asNobody runs the program as a user with few rights, which the super-user is not.
func asNobody(t *testing.T, program string, args ...string) (code int, text string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), asProgram+"="+strings.Join(args, "\n"))
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// copied is a copy of the tests' program that everybody may run.
func copied(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	in, err := os.Open(self)
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	path := filepath.Join(open(t, t.TempDir()), "program")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(f, in)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return path
}

// open lets everybody reach a temporary directory.
func open(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

// A store in a directory that is read-only can be read and copied, and nothing can be made there.
func TestOPS_BadInputInAReadOnlyDirectory(t *testing.T) {
	program := copied(t)
	path, want := stopped(t, 30)
	dir := open(t, filepath.Dir(path))
	empty := filepath.Join(dir, "empty.db")
	db, err := bbolt.Open(empty)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	outside := open(t, t.TempDir())
	for _, p := range []string{path, empty, dir, outside} {
		if os.Geteuid() == 0 {
			require.NoError(t, os.Chown(p, nobody, nobody))
		}
	}
	for _, p := range []string{path, empty} {
		require.NoError(t, os.Chmod(p, 0o400))
	}
	require.NoError(t, os.Chmod(dir, 0o500))
	w := &watched{t: t, dirs: []string{dir}}
	before := w.state()
	for name, args := range map[string][]string{
		"copy":                   {"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + filepath.Join(dir, "x.db")},
		"copy to what is there":  {"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + empty},
		"backup":                 {"backup", "--from", "bbolt:" + path, "--to", filepath.Join(dir, "x.db")},
		"restore":                {"restore", "--from", path, "--to", "bbolt:" + filepath.Join(dir, "x.db")},
		"backup of another kind": {"backup", "--from", "http://127.0.0.1:1", "--to", filepath.Join(dir, "x.db")},
	} {
		code, text := asNobody(t, program, args...)
		require.Equal(t, exitFailure, code, "%s: %s", name, text)
		if args[2] != "http://127.0.0.1:1" { // nobody answers there
			require.Contains(t, text, "give this process the right to read and write", name)
		}
		require.Equal(t, before, w.state(), name)
	}
	target := filepath.Join(outside, "copy.db")
	for _, args := range [][]string{
		{"check", "--from", "bbolt:" + path},
		{"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + target},
		{"backup", "--from", "bbolt:" + path, "--to", filepath.Join(outside, "backup.db")},
		{"restore", "--from", path, "--to", "bbolt:" + filepath.Join(outside, "restored.db")},
	} {
		code, text := asNobody(t, program, args...)
		require.Zero(t, code, text)
		require.Equal(t, before, w.state(), args[0])
	}
	require.Equal(t, want, in(t, target))
	require.NoError(t, os.Chmod(dir, 0o700))
}
