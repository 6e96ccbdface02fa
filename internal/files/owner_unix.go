//go:build unix

package files

import (
	"io/fs"
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
