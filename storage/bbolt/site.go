package bbolt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// site is where the file was when it was opened. A file that is removed or moved while it is open can
// be written as before, and nobody finds it at the next start. So commits are not acknowledged then.
type site struct {
	path string      // absolute: the process may change its directory
	file fs.FileInfo // what was there
}

// errMoved: commits would be in a file that the next Open does not find.
var errMoved = errors.New("it was removed, moved or replaced while it was open")

func siteOf(path string, file fs.FileInfo) (site, error) {
	absolute, err := filepath.Abs(path)
	return site{path: absolute, file: file}, err
}

// check returns an error if the file is not in its place any more, or is shorter than what is in it. If
// it cannot be looked at for another reason, that says nothing about commits.
func (s site) check(size int64) error {
	now, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(s.file, now):
		return errMoved
	case err == nil && now.Size() < size:
		return damaged("it was cut to %d bytes while it was open", now.Size())
	}
	return nil
}
