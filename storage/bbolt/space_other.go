//go:build !linux

package bbolt

import "os"

// allocate makes the blocks of a part of a file exist.
func allocate(f *os.File, from, to int64) error { return zeros(f, from, to) }
