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
	now    func() time.Time // for tests

	mu       sync.Mutex
	seen     []fs.FileInfo // what the files looked like when they were read
	lastLook time.Time
	bad      error // why the files of now cannot be read; nil if they were read
}

// Follow reads the files for the first time, with read, and returns its error. Later calls of read
// happen in [Follower.Look]. If one fails, the files are read again at the next look. failed is told
// once until the files are good again or fail in another way.
func Follow(read func() error, failed func(error), names ...string) (*Follower, error) {
	f := &Follower{names: names, read: read, failed: failed, now: time.Now}
	f.lastLook = time.Now()
	return f, f.reread()
}

// Look reads the files that look different, unless it looked a moment ago. A link that points to
// another file is a change, even if the other file is as large and as old. It does not wait while
// another call reads: what was read before counts until that is done. A file that was written a moment
// ago, and did not replace another one, may be half of what it will be: the next look reads it.
func (f *Follower) Look() {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.lastLook) < lookEvery {
		return
	}
	seen, err := look(f.names)
	switch {
	case err == nil && f.settling(seen, now):
		return // the next one looks again
	case err == nil && same(f.seen, seen):
		f.lastLook = now
		return
	}
	f.lastLook = now
	err = f.reread()
	if err != nil {
		f.seen = nil // read them at the next look, even if they look as before by then
		if f.bad == nil || f.bad.Error() != err.Error() {
			f.failed(err)
		}
	}
	f.bad = err
}

// Healthy looks, and returns why the files of now cannot be read, or nil. What was read before counts
// then.
func (f *Follower) Healthy() error {
	f.Look()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bad
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

// settles is how long a file that is written in place has to rest before it is read.
const settles = 100 * time.Millisecond

// settling reports whether a file has been changed in place a moment ago, so that it may be the first
// part of what it is going to be. A file that has taken the place of another one is whole.
func (f *Follower) settling(seen []fs.FileInfo, now time.Time) bool {
	for i, info := range seen {
		replaced := len(f.seen) == len(seen) && !os.SameFile(f.seen[i], info)
		if age := now.Sub(info.ModTime()); !replaced && age >= 0 && age < settles && !same(f.seen, seen) {
			return true
		}
	}
	return false
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
