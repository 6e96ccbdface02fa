package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// fileSystem is ext4 in a file, mounted through a loop device.
type fileSystem struct {
	t            *testing.T
	image, mount string
	options      string
}

func newFileSystem(t *testing.T, mebibytes int, options string) *fileSystem {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("mounting a file system needs root: run it with sudo, or leave out -cuts and -full")
	}
	dir := t.TempDir()
	fs := &fileSystem{t: t, image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount"), options: "loop," + options}
	require.NoError(t, os.Mkdir(fs.mount, 0o700))
	require.NoError(t, os.WriteFile(fs.image, nil, 0o600))
	require.NoError(t, os.Truncate(fs.image, int64(mebibytes)<<20))
	fs.command("mkfs.ext4", "-q", "-F", fs.image)
	fs.up()
	t.Cleanup(func() { _ = exec.Command("umount", fs.mount).Run() })
	return fs
}

func (fs *fileSystem) command(name string, args ...string) {
	fs.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(fs.t, err, "%s: %s", name, out)
}

func (fs *fileSystem) up()   { fs.t.Helper(); fs.command("mount", "-o", fs.options, fs.image, fs.mount) }
func (fs *fileSystem) down() { fs.t.Helper(); fs.command("umount", fs.mount) }

// cut shuts the file system down: what was not synced is gone, and no write passes any more.
func (fs *fileSystem) cut() error {
	const shutdown, withoutFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	f, err := os.Open(fs.mount)
	if err != nil {
		return err
	}
	flag := uint32(withoutFlush)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flag))) //nolint:gosec // an ioctl
	if errno != 0 {
		err = errno
	}
	return errors.Join(err, f.Close())
}

// acksBeforeCut is how many writes are acknowledged between two power cuts, at least: on a busy machine
// a process may have written nothing that could be lost.
const acksBeforeCut = 12

// powerCuts cuts the power n times, and returns how often something was wrong afterwards.
func powerCuts(t *testing.T, command []string, options string, n int) (acks, bad int) {
	fs := newFileSystem(t, 48, options)
	path := filepath.Join(fs.mount, "store.db")
	m := newModel()
	for i := range n {
		m.after = acksBeforeCut
		m.run(t, command, path, func(p *os.Process) {
			time.Sleep(time.Duration(5+i*7919%60) * time.Millisecond)
			if err := fs.cut(); err != nil {
				t.Errorf("the power cannot be cut: %v", err)
			}
			_ = p.Kill()
		})
		fs.down()
		fs.up()
		if wrong := m.verify(path); len(wrong) > 0 {
			bad++
			acks += m.acks
			m = newModel() // begin anew
			require.NoError(t, errors.Join(os.Remove(path)))
		}
	}
	return acks + m.acks, bad
}

// What was acknowledged is there after a power cut. A build that does not sync loses it.
func TestPowerCuts(t *testing.T) {
	mounts := []string{"defaults", "commit=1", "data=writeback,commit=1000", "nobarrier"}
	acks, bad := 0, 0
	for _, options := range mounts {
		if n := *cuts / len(mounts); n > 0 {
			a, b := powerCuts(t, self(t), options, n)
			acks, bad = acks+a, bad+b
		}
	}
	require.Zero(t, bad)
	if *cuts == 0 {
		return // only the lab has the rights
	}
	n := max(10, *cuts/50)
	_, lost := powerCuts(t, []string{unsynced(t)}, mounts[0], n)
	require.GreaterOrEqual(t, lost, n*9/10, "a store that does not sync must lose something")
	row(t, "power cuts, four mount options", fmt.Sprintf("%d cuts, %d acknowledged writes: 0 lost", *cuts, acks),
		fmt.Sprintf("a build without syncs loses something in %d of %d cuts", lost, n))
}

// unsynced builds this test with a copy of bbolt, and of our own file that makes room in it, which sync
// nothing: with the syncs for a file that grows, half of the cuts come when all is on the disk.
func unsynced(t *testing.T) string {
	dir := t.TempDir()
	const module = "go.etcd.io/bbolt"
	original, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	broken := filepath.Join(dir, "bbolt")
	require.NoError(t, os.CopyFS(broken, os.DirFS(strings.TrimSpace(string(original)))))
	source := filepath.Join(broken, "bolt_linux.go")
	require.NoError(t, os.Remove(source))
	require.NoError(t, os.WriteFile(source, []byte("package bbolt\n\nfunc fdatasync(*DB) error { return nil }\n"), 0o600))
	const sync = ".file.Sync()"
	edited := func(file, with string) []byte {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), sync)
		return regexp.MustCompile(`\w+\.file\.Sync\(\)`).ReplaceAll(text, []byte(with))
	}
	grows := filepath.Join(broken, "db.go")
	text := edited(grows, "error(nil)")
	require.NoError(t, os.Remove(grows))
	require.NoError(t, os.WriteFile(grows, text, 0o600))
	space, err := filepath.Abs(filepath.Join("..", "..", "storage", "bbolt", "space.go"))
	require.NoError(t, err)
	room := filepath.Join(dir, "space.go")
	require.NoError(t, os.WriteFile(room, edited(space, "nil"), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{space: room}})
	require.NoError(t, err)
	overlaid := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlaid, overlay, 0o600))
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", module, broken)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	binary := filepath.Join(dir, "unsynced.test")
	out, err := exec.Command("go", "test", "-c", "-modfile", filepath.Join(dir, "go.mod"),
		"-overlay", overlaid, "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// A disk is filled again and again: nothing is lost, deletions go on, and writes do when there is room.
func TestFullDisks(t *testing.T) {
	if *full == 0 {
		return
	}
	fs := newFileSystem(t, 16, "defaults")
	path, ballast := filepath.Join(fs.mount, "store.db"), filepath.Join(fs.mount, "ballast")
	db, err := bbolt.Open(path)
	require.NoError(t, err)
	want := map[string]int{}
	n, deleted, refused := 0, 0, 0
	put := func() error {
		n++
		key := storage.ObjectKey("boats", "ns", fmt.Sprint("n", n))
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(key, valueOf(n), storage.Any)})
		if err == nil {
			want[key] = n
		}
		return err
	}
	check := func() {
		page, err := db.List(t.Context(), storage.ListRequest{Limit: 100_000})
		require.NoError(t, err)
		have := map[string]int{}
		for _, r := range page.Records {
			have[r.Key] = numberIn(r.Value)
		}
		require.Equal(t, want, have)
	}
	for range *full {
		fillDisk(t, ballast)
		for err = put(); err == nil; err = put() {
		}
		require.ErrorIs(t, err, storage.ErrNoSpace)
		require.NoError(t, db.Healthy())
		refused++
		check()
		var rev storage.Revision
		left := 1500 // the reserve is for so many, and more
		for key := range want {
			if left--; left < 0 {
				break
			}
			rev, err = db.Commit(t.Context(), []storage.Op{storage.Delete(key, storage.Any)})
			require.NoError(t, err, "deletions go on")
			delete(want, key)
			deleted++
		}
		require.NoError(t, os.Remove(ballast))
		// In later rounds the file has the whole disk. Then only compaction makes room.
		require.NoError(t, db.Compact(t.Context(), rev))
		require.Eventually(t, func() bool { return put() == nil }, time.Minute, 20*time.Millisecond, "writes go on when there is room")
		check()
		require.NoError(t, db.Check(t.Context()))
	}
	require.NoError(t, db.Close())
	db, err = bbolt.Open(path)
	require.NoError(t, err)
	check()
	require.NoError(t, db.Close())
	row(t, "full disk, 16 MiB", fmt.Sprintf("%d times full, %d puts, %d deletions: 0 lost, 0 refused and there, no restart", refused, n, deleted),
		"a failed sync, for want of space or not, stays")
}

// fillDisk takes all that is left of a file system.
func fillDisk(t *testing.T, path string) {
	f, err := os.Create(path)
	require.NoError(t, err)
	for size := 1 << 20; size >= 512; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	_ = f.Sync()
	require.NoError(t, f.Close())
}

// A call that the system fails is never followed by an acknowledged write that is lost, nor by a refused
// one that is there. After a failed sync nothing is acknowledged.
func TestFailedCalls(t *testing.T) {
	if *syncs == 0 {
		return
	}
	strace, err := exec.LookPath("strace")
	require.NoError(t, err, "install strace, or leave out -syncs")
	calls := []string{"fdatasync:error=EIO", "pwrite64:error=EIO", "pwrite64:error=ENOSPC", "fallocate:error=ENOSPC", "fsync:error=EIO", "fdatasync:error=ENOSPC"}
	acks, fired := 0, 0
	for i := range *syncs {
		call := calls[i%len(calls)]
		dir := t.TempDir()
		path, trace := filepath.Join(dir, "store.db"), filepath.Join(dir, "trace")
		m := newModel()
		m.run(t, self(t), path, killAfter(0)) // make it
		require.Empty(t, m.verify(path))
		name, _, _ := strings.Cut(call, ":")
		command := append([]string{strace, "-f", "-o", trace, "-e", "trace=" + name, "-e", fmt.Sprintf("inject=%s:when=%d", call, 1+i*7%40)}, self(t)...)
		late := m.late
		if !m.attempt(t, command, path) {
			fired++ // it could not even open
		} else if text, err := os.ReadFile(trace); err == nil && strings.Contains(string(text), "(INJECTED)") {
			fired++
			if strings.Contains(call, "sync") || strings.Contains(call, "EIO") {
				require.Equal(t, late, m.late, "%s: acknowledged after the failure", call)
			}
		}
		require.Empty(t, m.verify(path), call)
		acks += m.acks
		require.NoError(t, os.RemoveAll(dir))
	}
	require.Greater(t, fired, *syncs/2)
	row(t, "failed syncs, writes and growth", fmt.Sprintf("%d runs, %d calls failed, %d acknowledged writes: 0 lost, 0 after a failed sync", *syncs, fired, acks),
		"see power cuts: without syncs they are lost")
}

// attempt is run with a process that is killed a moment after it began to write. It reports whether the
// store was opened.
func (m *model) attempt(t *testing.T, command []string, path string) (opened bool) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), childVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // strace and the process
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	err = m.read(out, func() {
		opened = true
		time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	})
	require.NoError(t, err)
	_ = cmd.Wait()
	return opened
}
