package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// maxBytes is the largest file that is read.
const maxBytes = 16 << 20

// Read reads a file that is not secret, such as a certificate. It rejects what is not a regular
// file, is larger than 16 MiB, may be written by every user, or changes while it is read. It follows
// symbolic links, as mounted secrets are some.
func Read(path string) ([]byte, error) { return read(path, checkPublic) }

// ReadSecret is Read for a private key or a list of tokens. It also rejects files of other users,
// except root. If users outside of its group may read the file, or its group may write it, it takes
// these permissions away, and rejects the file if it cannot.
func ReadSecret(path string) ([]byte, error) { return read(path, checkSecret) }

// ReadOwn is ReadSecret for a file that the server wrote itself. It is for the owner alone.
func ReadOwn(path string) ([]byte, error) { return read(path, checkOwn) }

func read(path string, check func(*os.File, fs.FileInfo) error) (data []byte, err error) {
	// Opening some devices has an effect, so the first look is from outside.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(info); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// A pipe that took its place keeps nobody waiting.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if data, err = readOpen(f, check); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// readOpen reads an open file.
func readOpen(f *os.File, check func(*os.File, fs.FileInfo) error) ([]byte, error) {
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(regular(before), check(f, before)); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	if _, err := data.ReadFrom(io.LimitReader(f, maxBytes+1)); err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := unchanged(before, after, data.Len()); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// unchanged compares what was known of a file before and after it was read.
func unchanged(before, after fs.FileInfo, n int) error {
	if before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) || int64(n) != after.Size() {
		return errors.New("it changed while it was read")
	}
	return nil
}

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("it is a directory, not a file")
	case !info.Mode().IsRegular():
		return errors.New("it is a device, pipe or socket, not a regular file")
	case info.Size() > maxBytes:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", info.Size(), maxBytes)
	}
	return nil
}

// The permissions that a file must not give.
const (
	groupWrites    fs.FileMode = 0o020
	everyoneWrites fs.FileMode = 0o002
	othersAccess   fs.FileMode = 0o027 // a group may read a secret that was given to it
	ownerOnly      fs.FileMode = 0o077
)

func checkPublic(_ *os.File, info fs.FileInfo) error {
	if permissions(info)&everyoneWrites != 0 {
		return errors.New("every user may write it; take that permission away")
	}
	return nil
}

func checkSecret(f *os.File, info fs.FileInfo) error {
	return errors.Join(owned(info), restrict(f, info, othersAccess))
}

func checkOwn(f *os.File, info fs.FileInfo) error {
	return errors.Join(owned(info), restrict(f, info, ownerOnly))
}

// owned rejects what belongs to another user.
func owned(info fs.FileInfo) error {
	if owner, ok := ownerOf(info); ok && owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("it belongs to the user with id %d, not to the one of this process (%d)", owner, os.Geteuid())
	}
	return nil
}

// restrict takes permissions away from an open file.
func restrict(f *os.File, info fs.FileInfo, denied fs.FileMode) error {
	perm := permissions(info)
	if perm&denied == 0 {
		return nil
	}
	if err := f.Chmod(perm &^ denied); err != nil {
		return fmt.Errorf("other users have access to it (mode %#o), and that cannot be changed: %w", perm, err)
	}
	return nil
}

// permissions returns the permissions of a file, where the system has them.
func permissions(info fs.FileInfo) fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0
	}
	return info.Mode().Perm()
}
