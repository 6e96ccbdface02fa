//go:build !unix

package files

import "io/fs"

// ownerOf returns the user to whom a file belongs, if that is known.
func ownerOf(fs.FileInfo) (int, bool) { return 0, false }

// mine reports whether a file belongs to the user of this process.
func mine(fs.FileInfo) bool { return false }

// inGroupOf reports whether this process is in the group of a file.
func inGroupOf(fs.FileInfo) bool { return false }

// Nameless reports whether a file that is still open has lost its last name. Nobody knows that here.
func Nameless(fs.FileInfo) bool { return false }

// NoWait opens a pipe without waiting for its other end. It has no effect here.
const NoWait = 0

// NoReader reports whether a pipe could not be opened because nobody reads it. Nobody knows that here.
func NoReader(error) bool { return false }
