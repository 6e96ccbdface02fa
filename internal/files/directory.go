package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Directory makes a directory for the files of a server, for its owner only, unless it exists. It
// rejects one that belongs to another user than this one and root, or that others may write: they
// could plant keys in it.
//
// It accepts a directory with the mode that Kubernetes gives volumes of a pod with an fsGroup: group
// writable, with the setgid bit, and this process is in the group. If it belongs to this user,
// Directory takes the write permission of the group away, as [ReadSecret] does with files.
func Directory(path string) error {
	if err := MakeDirectory(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	shared, err := acceptable(path, info)
	if err != nil || !shared || !mine(info) {
		return err
	}
	// A system may refuse that to a volume. Then it stays as a volume of root's is.
	_ = os.Chmod(path, info.Mode()&^groupWrites)
	return nil
}

// acceptable checks an existing directory. It reports whether the group shares it, as a volume.
func acceptable(path string, info fs.FileInfo) (shared bool, err error) {
	if !info.IsDir() {
		return false, fmt.Errorf("%s: it is not a directory", path)
	}
	if err := owned(info); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	switch perm := permissions(info); {
	case perm&(groupWrites|everyoneWrites) == 0:
		return false, nil
	case perm&everyoneWrites == 0 && info.Mode()&fs.ModeSetgid != 0 && inGroupOf(info):
		return true, nil
	default:
		return false, fmt.Errorf("%s: other users may write to it (mode %#o); take that permission away (chmod go-w), "+
			"or give a directory inside it, which is then made; in Kubernetes, set the fsGroup of the pod", path, perm)
	}
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
