//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bbolt

import (
	"os"
	"time"
)

// lock does nothing. On these systems a file cannot be locked twice through one handle, and bbolt
// must lock it. Until it does, another process may write the file while we read it. Open can tell
// that from damage (see readUnlocked).
func lock(*os.File, time.Duration) error { return nil }

func unlock(*os.File) error { return nil }
