package bbolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The problems of a store's file; [FileError] has the details.
var (
	// ErrInUse means that this or another process has the file open.
	ErrInUse = errors.New("the file is in use")
	// ErrDamaged means that the file is not what was written. It is rejected as a whole, because it
	// is unknown what is missing.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNewerFormat means that a newer version of this package wrote the file.
	ErrNewerFormat = errors.New("the file has a newer format")
	// ErrOlderFormat means that a version before the first release of this package wrote the file.
	ErrOlderFormat = errors.New("the file has an older format")
	// ErrForeign means that the file is not a store.
	ErrForeign = errors.New("the file is not a store")
	// ErrUnsafeFile means that the path is a symbolic link, a directory, a device or empty.
	ErrUnsafeFile = errors.New("the path is not a regular file")
)

// FileError is an error about the store's file. It wraps one of ErrInUse, ErrDamaged,
// ErrNewerFormat, ErrOlderFormat, ErrForeign, ErrUnsafeFile, or the error of the operating system.
type FileError struct {
	Path   string
	Err    error  // what is wrong
	Remedy string // what to do about it; may be empty
}

// Error names the file, the problem and the remedy.
func (e *FileError) Error() string {
	text := fmt.Sprintf("store file %q: %v", e.Path, e.Err)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap returns the problem.
func (e *FileError) Unwrap() error { return e.Err }

// fileError adds the file's name to an error about it, once.
func fileError(path string, err error) error {
	var named *FileError
	if errors.As(err, &named) {
		return err
	}
	remedy := remedy(err)
	if _, missing := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) && missing == nil {
		remedy = "give the path of a file that exists"
	}
	return &FileError{Path: path, Err: err, Remedy: remedy}
}

func remedy(err error) string {
	switch {
	case errors.Is(err, ErrInUse):
		return "stop the other process, or give this one a file of its own"
	case errors.Is(err, ErrDamaged):
		return "put a backup in its place, or move it away to begin with an empty store"
	case errors.Is(err, ErrNewerFormat):
		return "use the version of the program that wrote it, or a newer one"
	case errors.Is(err, ErrOlderFormat):
		return "use the version of the program that wrote it to read what is in it, or move it away to begin with an empty store"
	case errors.Is(err, ErrForeign):
		return "give another path; if this was a store, its first pages are lost: put a backup in its place"
	case errors.Is(err, ErrUnsafeFile):
		return "give the path of the file itself"
	case errors.Is(err, errMoved):
		return "put it back in its place, and start again"
	case isNoSpace(err):
		return "make room on its disk, or delete objects; writes then go on by themselves"
	case errors.Is(err, fs.ErrNotExist):
		return "make the directory first"
	case errors.Is(err, fs.ErrPermission):
		return "give this process the right to read and write the file and its directory"
	}
	return ""
}
