package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Write replaces a file, readable by its owner only. A reader sees the old content or the new one,
// also after a power cut. A symbolic link at the path is replaced, not followed.
func Write(path string, data []byte) error { return system().write(path, data) }

// Rename gives a finished file another name, in the same directory, and replaces the file that has it.
// After a power cut, the name belongs to the old file or to all of the new one.
func Rename(from, to string) error { return system().moved(from, to) }

// disk is what Write and Rename need of the operating system.
type disk struct {
	create        func(dir, pattern string) (file, error)
	open          func(path string) (file, error)
	rename        func(from, to string) error
	remove        func(path string) error
	syncDirectory func(path string) error
}

// file is a file that is being written.
type file interface {
	io.WriteCloser
	Name() string
	Sync() error
}

func system() disk {
	return disk{
		create:        func(dir, pattern string) (file, error) { return os.CreateTemp(dir, pattern) }, // with mode 0600
		open:          func(path string) (file, error) { return os.OpenFile(path, os.O_RDWR, 0) },
		rename:        os.Rename,
		remove:        os.Remove,
		syncDirectory: SyncDirectory,
	}
}

// write syncs the content before the file gets its name: after a power cut, a name whose content was
// not synced may belong to an empty file. The sync of the directory makes the name durable.
func (d disk) write(path string, data []byte) error {
	f, err := d.create(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, d.remove(f.Name()))
	}
	return d.syncDirectory(filepath.Dir(path))
}

// moved syncs the content before it has the new name, as write does.
func (d disk) moved(from, to string) error {
	f, err := d.open(from)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.rename(from, to); err != nil {
		return err
	}
	return d.syncDirectory(filepath.Dir(to))
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced and need not be
	}
	d, err := os.Open(path) //nolint:gosec // the caller's own directory
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // this file system does not sync directories
	}
	return errors.Join(err, d.Close())
}
