package bbolt

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/kindwright/kindwright/internal/files"
)

const (
	// lockWait is how long Open waits for another holder of the file, so that the two processes of
	// a restart may overlap a little.
	lockWait  = 1500 * time.Millisecond
	lockRetry = 20 * time.Millisecond
	fileMode  = 0o600
	// growBytes is the step in which the file grows. Each step costs a sync.
	growBytes = 1 << 20
)

// mapBytes is the address space reserved for the map of the file. As long as the file fits, growing
// it remaps nothing. A remap waits for all readers, and new readers wait for it. The reservation
// costs no memory. On 32-bit systems address space is scarce.
const mapBytes = 1 << (28 + 6*(bits.UintSize/64))

// opened is a file that we have locked and verified and that bbolt has open.
type opened struct {
	file     *os.File
	site     site
	bolt     *bolt.DB
	contents *contents
}

// openFile opens the file, or creates it if there is none.
func openFile(path string, o *options) (*opened, error) {
	// Another process that does the same can create or remove the file between two steps. A few
	// rounds settle it.
	const rounds = 5
	var err error
	for range rounds {
		var f *os.File
		f, err = openRegular(path, o.readOnly)
		if errors.Is(err, fs.ErrNotExist) && !o.readOnly {
			if err = createFile(path, o); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
			continue
		}
		var op *opened
		if err == nil {
			op, err = openLocked(f, path, o)
		}
		switch {
		case errors.Is(err, errReplaced):
		case errors.Is(err, syscall.ENOMEM) && o.mapBytes > 0:
			o.mapBytes = 0 // the address space is limited: remap as the file grows
		default:
			return op, err
		}
	}
	return nil, err
}

// errReplaced: another file took the path while this one was opened.
var errReplaced = errors.New("other processes keep replacing the file")

// openRegular opens an existing file. It rejects everything that is not clearly the regular file at
// this path.
func openRegular(path string, readOnly bool) (*os.File, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is a %s", ErrUnsafeFile, kindOf(before.Mode()))
	}
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, err
	}
	// A link that replaced the file in between leads to another file.
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		return nil, errors.Join(errReplaced, err, f.Close())
	}
	return f, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m.IsDir():
		return "directory"
	}
	return "device, pipe or socket"
}

// openLocked locks the file and verifies it before bbolt maps it. It closes f unless it succeeds,
// and until then it changes nothing.
func openLocked(f *os.File, path string, o *options) (op *opened, err error) {
	defer func() {
		if err != nil {
			// A second close is harmless: bbolt closes its file when it fails to open.
			_ = unlock(f)
			_ = f.Close()
		}
	}()
	if err := lock(f, lockWait); err != nil {
		return nil, err
	}
	locked, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(now, locked) {
		return nil, errReplaced
	}
	c, err := readUnlocked(f, locked.Size())
	if err != nil {
		return nil, err
	}
	raise := c.format < format && !o.readOnly // the records of the older one are valid
	if raise {
		if err := keep(f, path, c.format); err != nil {
			return nil, fmt.Errorf("cannot copy the file before changing its format: %w", err)
		}
	}
	b, err := openBolt(f, o.mapBytes, o.readOnly)
	if err != nil {
		return nil, err
	}
	if raise {
		if err := migrate(b); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	if locked.Mode().Perm()&^fileMode != 0 && !o.readOnly {
		if err := f.Chmod(fileMode); err != nil {
			return nil, errors.Join(fmt.Errorf("others may read it and its rights cannot be changed: %w", err), b.Close())
		}
	}
	where, err := siteOf(path, locked)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &opened{file: f, site: where, bolt: b, contents: c}, nil
}

// readUnlocked reads the contents. On systems where lock does nothing, another process may be
// writing at the same time. Then the meta pages change, and the contents mean nothing.
func readUnlocked(f *os.File, size int64) (*contents, error) {
	im, err := newImage(f, size)
	if err != nil {
		return nil, notForeign(err, f, size)
	}
	c, err := readContents(im)
	if err == nil {
		return c, nil
	}
	err = notForeign(err, f, size)
	if now, again := newImage(f, size); again == nil && (now.root != im.root || now.pages != im.pages) {
		return nil, ErrInUse
	}
	return nil, err
}

// notForeign says that a file is damaged if it seems to be none of ours, but has parts of a store.
func notForeign(err error, f *os.File, size int64) error {
	if !errors.Is(err, ErrForeign) || !hasFormat(f, size) {
		return err
	}
	// The text of err, without what it is.
	why := strings.TrimPrefix(err.Error(), ErrForeign.Error()+": ")
	return damaged("it has parts of a store, as a copy has that was made while a process wrote: %s", why)
}

// openBolt lets bbolt map a file that is open.
//
// The list of free pages is not written to the file (NoFreelistSync). After a compaction it is
// long, and every transaction would sort and write it again. It would only save reading each page
// at Open. Without it, damage has one thing less to turn against pages in use.
func openBolt(f *os.File, mapBytes int, readOnly bool) (b *bolt.DB, err error) {
	o := &bolt.Options{
		Timeout:         lockWait,
		NoFreelistSync:  true,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: mapBytes,
		NoStatistics:    true,
		ReadOnly:        readOnly,
		OpenFile:        func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	}
	if runtime.GOOS == "windows" {
		o.InitialMmapSize = 0 // on those systems the file would be made that large
	}
	err = guard(func() (err error) {
		b, err = bolt.Open(f.Name(), fileMode, o)
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, ErrInUse
	case err != nil:
		return nil, err
	}
	b.AllocSize = growBytes
	return b, nil
}

// createFile creates an empty store at path atomically: it makes the file under another name and
// then links it. The error is fs.ErrExist if another process was faster.
func createFile(path string, o *options) error {
	base := max(1, clockRevision(o.now()))
	s := state{last: base, reserved: base, compacted: base}
	_, _ = rand.Read(s.id[:]) // it never fails
	return makeFile(path, s, func(*bolt.DB) error { return nil })
}

// makeFile makes a store with a state at path, after fill has put its records into the log. The
// error is fs.ErrExist if path exists.
func makeFile(path string, s state, fill func(*bolt.DB) error) (err error) {
	dir, name := filepath.Split(path)
	if name == "" {
		return fmt.Errorf("%w: it ends without the name of a file", ErrUnsafeFile)
	}
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, "."+name+".new-*") // with rights for the owner alone
	if err != nil {
		return err
	}
	temp := f.Name()
	defer func() { err = errors.Join(err, ignore(os.Remove(temp), fs.ErrNotExist)) }()
	b, err := openBolt(f, 0, false)
	if err != nil {
		return errors.Join(err, ignore(f.Close(), fs.ErrClosed))
	}
	b.NoSync = true // no other process sees the file before all of it is synced
	err = guard(func() error {
		return errors.Join(b.Update(func(tx *bolt.Tx) error { return initialize(tx, &s) }), fill(b))
	})
	if err == nil {
		err = b.Sync()
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	return publishFile(temp, path)
}

// initialize makes the buckets and writes the parts that never change.
func initialize(tx *bolt.Tx, s *state) error {
	if _, err := tx.CreateBucket([]byte(logBucket)); err != nil {
		return err
	}
	m, err := tx.CreateBucket([]byte(metaBucket))
	if err != nil {
		return err
	}
	if err := m.Put([]byte(formatKey), formatRecord(format)); err != nil {
		return err
	}
	return m.Put([]byte(stateKey), s.encode())
}

// publishFile gives a finished file its name, which must be free, and makes the name durable.
func publishFile(temp, path string) error {
	err := os.Link(temp, path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// This file system has no hard links. Renaming would replace a file that has just appeared;
		// the check before it leaves little time for that.
		if _, there := os.Lstat(path); !errors.Is(there, fs.ErrNotExist) {
			return fs.ErrExist
		}
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return files.SyncDirectory(filepath.Dir(path))
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
