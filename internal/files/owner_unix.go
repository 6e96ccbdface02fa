//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// ownerOf returns the user to whom a file belongs, if that is known.
func ownerOf(info fs.FileInfo) (int, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

// mine reports whether a file belongs to the user of this process.
func mine(info fs.FileInfo) bool {
	owner, ok := ownerOf(info)
	return ok && owner == os.Geteuid()
}

// inGroupOf reports whether this process is in the group of a file.
func inGroupOf(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	groups, err := os.Getgroups()
	return int(s.Gid) == os.Getegid() || err == nil && slices.Contains(groups, int(s.Gid))
}

// Nameless reports whether a file that is still open has lost its last name: what is written to it is
// gone when it is closed. On systems other than Unix it always reports false.
func Nameless(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}

// NoWait opens a pipe without waiting for its other end. On systems other than Unix it has no effect.
const NoWait = syscall.O_NONBLOCK

// NoReader reports whether a pipe could not be opened because nobody reads it.
func NoReader(err error) bool { return errors.Is(err, syscall.ENXIO) }
