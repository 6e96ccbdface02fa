package bbolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/kindwright/kindwright/storage"
)

// space sees to it that the blocks a transaction writes exist before the transaction begins to
// write. It belongs to the writer.
//
// bbolt grows its file with a hole and fills it later. On a full disk a write into the hole fails in
// the middle of a transaction. So space asks the system for the blocks first: a refusal then happens
// before a byte is written, and harms nothing.
//
// It keeps a reserve of blocks after the last page in use. A put may not reach into it. A delete may,
// down to the part that compaction needs, which takes the deleted records out of the file. bbolt takes
// free pages in front of the reserve first, so a file that cannot grow any more accepts puts again
// after a compaction. Pages of the reserve that were used once are then free ones like all others. So
// in a file that cannot grow, puts must leave as many free pages as the reserve lacks (affords).
//
// The limit is bbolt's MaxSize, which it checks when a transaction takes its pages, before the
// transaction writes any. What bbolt does then, it does after a failed write, too: it forgets the
// transaction, and reads all pages to find the free ones. That is slow, so it must not happen for
// each put. After the first one, puts are refused at once until there may be room again.
//
// Some file systems find out only during the write, because they write to new blocks each time or
// because the file has holes that another program made. bbolt writes the meta page last, after a
// sync of all others. If that did not happen, the pages that were written are free ones, and the
// transaction never was. See writer.crowded. A sync that fails is another matter, whatever its
// reason: nobody knows what is on the disk, and the store refuses commits for good.
type space struct {
	file     *os.File
	bolt     *bolt.DB
	allocate func(from, to int64) error
	reserve  int64

	solid   int64 // the file has blocks up to here
	budget  int64 // what may be written before the free pages are counted again
	level   level
	removed bool          // since the level was raised, records were removed
	next    time.Time     // no attempt to get more blocks is made before
	pause   time.Duration // between the attempts
}

// level says which transactions are refused for want of space.
type level int

const (
	roomy    level = iota // none
	tight                 // those that free nothing
	narrow                // all but the removal of compacted records
	breathes              // all
)

const (
	// reserveBytes is the default of WithReserve. A deletion takes about 200 bytes until it is
	// compacted.
	reserveBytes = 1 << 20
	// fewRemovals replaces removals when there is little space. Each may need a page.
	fewRemovals = 32
	// The attempts to get more blocks.
	shortPause = 500 * time.Millisecond
	longPause  = 30 * time.Second
)

// kept is how much of the reserve the next transaction must leave.
func (s *space) kept() int64 {
	switch s.level {
	case roomy:
		return s.reserve
	case tight:
		return s.reserve / 4
	default:
		return 0
	}
}

// errReserved: what is left is the reserve.
var errReserved = errors.New("the rest is reserved")

// prepare gets room for a transaction that writes about need bytes. If there is none, the transaction
// may still find enough free pages; bbolt fails it otherwise. The only error about space is
// errReserved.
func (s *space) prepare(tx *bolt.Tx, need int64) error {
	high := tx.Size()
	if want := high + need + s.reserve; s.solid < want {
		if err := s.grow(high, roundUp(want, growBytes)); err != nil {
			return err
		}
	}
	s.bolt.AllocSize, s.bolt.MaxSize = growBytes, 0
	if limit := s.solid - s.kept(); limit < high+need {
		// Without AllocSize, bbolt compares exactly what it needs with MaxSize, of which 0 is none.
		s.bolt.AllocSize, s.bolt.MaxSize = 0, int(max(1, limit))
		if s.level <= tight && !s.affords(tx, need) {
			return errReserved
		}
		return nil
	}
	s.budget = 0
	return nil
}

// affords reports whether a transaction leaves as much as its level must leave. It counts the free pages
// only when what it knows of them is used up.
func (s *space) affords(tx *bolt.Tx, need int64) bool {
	if s.budget < need {
		s.budget = s.room(tx) - s.kept()
	}
	if s.budget < need {
		return false
	}
	s.budget -= max(need-spareBytes, 0) + spareBytes/16 // the paths are freed again
	return true
}

// room is what can be written without growing the file.
func (s *space) room(tx *bolt.Tx) int64 { return freeBytes(tx) + max(0, s.solid-tx.Size()) }

// grow asks for blocks up to an offset, unless it was refused a moment ago.
func (s *space) grow(high, to int64) error {
	if time.Now().Before(s.next) {
		return nil
	}
	err := s.allocate(s.solid, to)
	if err == nil {
		s.pause = 0
		return s.settle(to)
	}
	if !isNoSpace(err) {
		return fmt.Errorf("the file cannot grow: %w", err)
	}
	s.pause = min(max(2*s.pause, shortPause), longPause)
	if s.level > roomy {
		s.pause = shortPause // somebody waits, and each attempt is cheap
	}
	s.next = time.Now().Add(s.pause)
	if s.solid == 0 && s.allocate(0, high) == nil { // what it has, it can keep
		s.solid = high
	}
	return nil
}

// settle makes the new size of the file durable. bbolt does so, too, when it grows the file.
func (s *space) settle(to int64) error {
	s.solid = to
	if s.bolt.NoSync {
		return nil
	}
	return s.file.Sync()
}

// raise notes that a transaction did not fit.
func (s *space) raise() {
	s.level = min(s.level+1, breathes)
	s.removed, s.budget = false, 0
	s.next = time.Now().Add(max(s.pause, shortPause))
}

// due reports whether it is time to look for space.
func (s *space) due() bool { return s.level > roomy && !time.Now().Before(s.next) }

// look lowers the level if there may be room again: the file can grow, or has free pages.
func (s *space) look(tx *bolt.Tx) error {
	high := tx.Size()
	if want := high + s.reserve + growBytes; s.solid < want {
		if err := s.grow(high, roundUp(want, growBytes)); err != nil {
			return err
		}
	}
	s.budget = 0
	switch {
	case s.solid >= high+s.reserve+growBytes:
		s.level = roomy
	case s.removed && s.room(tx) >= s.reserve+2*spareBytes:
		s.level, s.removed = roomy, false
	case s.level > tight && (s.removed || s.solid > high):
		s.level, s.removed = s.level-1, false
	}
	return nil
}

// freeBytes is the size of the pages that bbolt can use again, or soon.
func freeBytes(tx *bolt.Tx) (n int64) {
	page := int64(tx.DB().Info().PageSize)
	for id := int64(2); id < tx.Size()/page; {
		p, err := tx.Page(int(id))
		if err != nil || p == nil {
			return n
		}
		if p.Type == "free" {
			n += page
			id++
			continue
		}
		id += 1 + int64(p.OverflowCount)
	}
	return n
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }

// isNoSpace reports whether the system has no room, or not for this user or this file.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// zeros takes blocks on systems that have no call for it. It writes only behind the end of the file.
func zeros(f *os.File, from, to int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zero := make([]byte, 64<<10)
	for at := max(from, info.Size()); at < to; {
		n, err := f.WriteAt(zero[:min(int64(len(zero)), to-at)], at)
		if at += int64(n); err != nil {
			return err
		}
	}
	return nil
}

// crowded reports whether a transaction failed because it did not fit, and is known not to have
// happened. failed is its number.
func (w *writer) crowded(err error, failed int) bool {
	if errors.Is(err, berrors.ErrMaxSizeReached) || errors.Is(err, errReserved) {
		return true
	}
	var path *fs.PathError
	if !errors.As(err, &path) || path.Op != "write" || !isNoSpace(err) {
		return false // a failed sync among others
	}
	// The meta pages as the next transaction would find them.
	newest := failed
	err = guard(func() error {
		tx, err := w.db.disk.begin(false)
		if err != nil {
			return err
		}
		newest = tx.ID()
		return tx.Rollback()
	})
	return err == nil && newest < failed
}

// Room returns nil, or why puts are refused for now: the disk is full, or the file has reached a
// limit. Reads, watches and deletes go on, and so do puts when there is space.
func (db *DB) Room() error {
	if err := db.crowded.Load(); err != nil {
		return *err
	}
	return nil
}

// showRoom makes the level visible.
func (w *writer) showRoom() {
	if w.space.level == roomy {
		w.db.crowded.Store(nil)
		return
	}
	if w.db.crowded.Load() == nil {
		err := fmt.Errorf("%w: %w", storage.ErrNoSpace, fileError(w.db.path, syscall.ENOSPC))
		w.db.crowded.Store(&err)
	}
}

// frees reports whether a commit serves to free space.
func frees(ops []storage.Op) bool {
	for i := range ops {
		if ops[i].Type == storage.OpDelete || ops[i].Frees {
			return true
		}
	}
	return false
}

// changesNothing reports whether a commit only asks.
func changesNothing(ops []storage.Op) bool {
	for i := range ops {
		if ops[i].Type != storage.OpCheck {
			return false
		}
	}
	return true
}

// refusal returns the error of a commit that the level does not admit.
func (w *writer) refusal(ops []storage.Op) error {
	switch {
	case w.space.level == roomy, changesNothing(ops), w.space.level == tight && frees(ops):
		return nil
	}
	return w.db.Room()
}
