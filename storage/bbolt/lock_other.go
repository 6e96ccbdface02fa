//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bbolt

import (
	"os"
	"time"
)

// lock does nothing: elsewhere a file cannot be locked twice through one handle,
// and bbolt must do it. Until it does, the file may be read while another process
// writes it; Open tells that from damage (see readUnlocked).
func lock(*os.File, time.Duration) error { return nil }

func unlock(*os.File) error { return nil }
