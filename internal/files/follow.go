package files

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// lookEvery is how often a [Follower] looks whether its files have changed.
const lookEvery = time.Second

// Follower reads files again when they change. It looks when it is asked, at most once in a second.
// Its methods are safe for concurrent use.
type Follower struct {
	names  []string
	read   func() error
	failed func(error)

	mu       sync.Mutex
	seen     []fs.FileInfo // what the files looked like when they were read
	lastLook time.Time
}

// Follow reads the files for the first time, with read, and returns its error. Later calls of read
// happen in [Follower.Look]. If one fails, the files are read again at the next look, and failed is
// told.
func Follow(read func() error, failed func(error), names ...string) (*Follower, error) {
	f := &Follower{names: names, read: read, failed: failed}
	f.lastLook = time.Now()
	return f, f.reread()
}

// Look reads the files that look different, unless it looked a moment ago. A link that points to
// another file is a change, even if the other file is as large and as old. It does not wait while
// another call reads: what was read before counts until that is done.
func (f *Follower) Look() {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.lastLook) < lookEvery {
		return
	}
	f.lastLook = now
	if seen, err := look(f.names); err == nil && same(f.seen, seen) {
		return
	}
	if err := f.reread(); err != nil {
		f.seen = nil // read them at the next look, even if they look as before by then
		f.failed(err)
	}
}

// reread reads the files. It looks first: a change after the look is seen at the next one.
func (f *Follower) reread() error {
	seen, err := look(f.names)
	if err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	f.seen = seen
	return nil
}

func look(names []string) ([]fs.FileInfo, error) {
	seen := make([]fs.FileInfo, len(names))
	for i, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		seen[i] = info
	}
	return seen, nil
}

func same(a, b []fs.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}
