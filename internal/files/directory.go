package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Directory makes a directory for the files of a server, for its owner only, unless it exists. It
// rejects one that belongs to another user or that others may write: they could plant keys in it.
func Directory(path string) error {
	if err := MakeDirectory(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return acceptable(path, info)
}

// acceptable checks an existing directory.
func acceptable(path string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("%s: it is not a directory", path)
	}
	if err := owned(info); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if perm := permissions(info); perm&0o022 != 0 {
		return fmt.Errorf("%s: other users may write to it (mode %#o); take that permission away, or give a directory inside it, which is then made", path, perm)
	}
	return nil
}

// MakeDirectory is os.MkdirAll for the owner only. What it makes survives a power cut.
func MakeDirectory(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MakeDirectory(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return SyncDirectory(parent)
}
