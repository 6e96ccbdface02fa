package bbolt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/kindwright/kindwright/storage"
)

// writer is the one goroutine that writes. It takes the waiting requests as a group. For each group,
// it
//
//  1. decides, in order, which commits' expectations hold, against the published state and the
//     earlier commits of the group (plan);
//  2. writes all their records in one bbolt transaction, together with the state and the removal of
//     some compacted records (write); the commit of the transaction is the sync;
//  3. makes them visible under DB.mu, in the order of revisions (publish);
//  4. answers.
//
// All requests of a group are answered after its sync, even rejected ones. A conflict with a commit
// of the same group must not be reported if that commit then fails.
//
// If a step fails, nothing is published and the queue is closed for good. A failed sync leaves open
// what is on disk, and a later successful sync says nothing about the pages that the failed one
// dropped.
//
// If the disk is full, the step fails before anything happened. The group is planned again without
// what needs space; see space.
type writer struct {
	db    *DB
	state state            // what the file says now
	last  storage.Revision // the newest revision of a commit, durable or planned
	next  storage.Revision // the first revision not yet issued

	group   []*request
	places  []storage.Place // of the operations of a commit; reused
	results []result        // one for each request of group
	changes []change        // of the group, in order
	pending map[string]int  // the group's newest change of each key
	compact storage.Revision
	doomed  []position // removed from the index, not yet from the file
	space   space
	records []byte // the encoded changes
	nanos   int64  // when the group was made

	transaction int // the number of the last one that was begun
}

const (
	// removals is how many records a transaction removes at most. Each may be on its own page that
	// must be written: 2 MiB, a few milliseconds.
	removals = 512
	// keepBytes is the size up to which a buffer is kept for the next group.
	keepBytes = 4 << 20
)

// result is the answer to a request.
type result struct {
	revision storage.Revision
	err      error
	from, to int // its changes
}

// change is one change of a planned commit.
type change struct {
	key     string
	value   []byte
	version version
	extent  extent  // of its commit
	prev    version // revision 0: it creates the key
	sum     uint32  // of the record
	end     int     // where the record ends in writer.records
}

// begin starts a session: revisions continue above all earlier ones.
func (w *writer) begin() error {
	w.next = w.state.begin(clockRevision(w.db.now()))
	w.last = w.state.last
	_, err := w.transact(func(tx *bolt.Tx) error {
		w.db.touch(tx, residentBytes) // Open has read all of it
		if err := putState(tx, &w.state); err != nil {
			return err
		}
		// A full disk does not keep a store from being opened. What bbolt needs here, an earlier
		// transaction left free.
		w.space.level = breathes
		err := w.space.prepare(tx, spareBytes)
		w.space.level = roomy
		return err
	})
	return err
}

func (w *writer) run() {
	for !w.db.queue.isStopped() {
		w.lookForSpace()
		w.group = w.db.queue.take(w.group)
		// Also while commits run: if they never pause, there is no better time.
		removing := w.collect()
		if len(w.group) > 0 || removing {
			w.step()
		} else {
			w.idle()
		}
	}
}

// idle waits for work. Without space it waits for that, too: nobody else would notice.
func (w *writer) idle() {
	if w.space.level == roomy {
		<-w.db.queue.work
		return
	}
	again := time.NewTimer(time.Until(w.space.next))
	defer again.Stop()
	select {
	case <-w.db.queue.work:
	case <-again.C:
	}
}

// lookForSpace lowers the level if there is space again.
func (w *writer) lookForSpace() {
	if !w.space.due() || w.db.failed.Load() != nil {
		return
	}
	err := guard(func() error {
		tx, err := w.db.disk.begin(true)
		if err != nil {
			return err
		}
		return errors.Join(w.space.look(tx), tx.Rollback())
	})
	if err != nil {
		w.db.fail(err)
		return
	}
	w.showRoom()
}

// collect takes compacted versions out of the index, and reports whether the file has anything to
// remove. Only the writer changes these fields of db, so it reads them without the lock.
func (w *writer) collect() bool {
	db := w.db
	if db.failed.Load() != nil || w.space.level == breathes {
		return false
	}
	if len(w.doomed) == 0 && db.index.due(db.compacted) {
		db.mu.Lock()
		w.doomed = db.index.take(db.compacted, removals, w.doomed)
		db.mu.Unlock()
		// Neighbours in the log share pages.
		slices.SortFunc(w.doomed, position.compare)
	}
	return len(w.doomed) > 0
}

// step takes one group from its plan to its answers.
func (w *writer) step() {
	if len(w.group) == 1 && w.group[0].takes != nil {
		w.group[0].finish(0, w.takeOver(w.group[0].takes))
		clear(w.group)
		return
	}
	first := w.next
	w.plan()
	for len(w.changes) > 0 || w.compact > w.state.compacted || w.removing() > 0 {
		unknown, err := w.write()
		if err == nil {
			w.publish()
			break
		}
		if !w.crowded(err, w.transaction) {
			w.answerFailure(unknown, err)
			return
		}
		// Nobody was told of these revisions, and nothing with them can be read.
		w.last, w.next = w.state.last, first
		clear(w.changes)
		clear(w.pending)
		w.space.raise()
		w.showRoom()
		w.plan()
	}
	for i, r := range w.group {
		r.finish(w.results[i].revision, w.results[i].err)
	}
	clear(w.group)
	clear(w.changes)
	clear(w.pending)
}

// plan decides each request of the group.
func (w *writer) plan() {
	w.results, w.changes, w.compact = w.results[:0], w.changes[:0], 0
	for _, r := range w.group {
		if r.compact != 0 {
			if w.space.level == breathes {
				w.results = append(w.results, result{err: w.db.Room()})
				continue
			}
			w.compact = max(w.compact, r.compact)
			w.results = append(w.results, result{})
			continue
		}
		if err := w.refusal(r.ops); err != nil {
			w.results = append(w.results, result{err: err})
			continue
		}
		w.results = append(w.results, w.planCommit(r.ops))
	}
}

func (w *writer) planCommit(ops []storage.Op) result {
	from := len(w.changes)
	for i := range ops {
		if v := w.newest(ops[i].Key); !ops[i].Expect.Holds(v.rev) {
			return result{err: &storage.ConflictError{Key: ops[i].Key, Expected: ops[i].Expect, Actual: v.rev}}
		}
	}
	w.places = storage.Places(ops, w.places[:0])
	for _, p := range w.places {
		w.planChange(&ops[p.Op], position{w.next + storage.Revision(p.Rank), uint16(len(w.changes) - from)})
	}
	if planned := w.changes[from:]; len(planned) > 0 {
		whole := extent{w.next, planned[len(planned)-1].version.rev}
		for i := range planned {
			planned[i].extent = whole
		}
		w.last = whole.last
		w.next = whole.last + 1
	}
	return result{revision: w.last, from: from, to: len(w.changes)}
}

// newest returns a key's newest version as the next commit must see it. It has revision 0 if the
// key does not exist.
func (w *writer) newest(key string) version {
	if i, ok := w.pending[key]; ok {
		if v := w.changes[i].version; !v.deleted {
			return v
		}
		return version{}
	}
	v, _ := w.db.index.newest(key)
	return v
}

// planChange plans the change of an operation that is no check.
func (w *writer) planChange(op *storage.Op, at position) {
	c := change{key: op.Key, prev: w.newest(op.Key)}
	c.version = version{at, op.Type == storage.OpDelete}
	switch {
	case !c.version.deleted:
		if len(op.Value) > 0 { // nil and empty are equal
			c.value = op.Value
		}
	case c.prev.rev == 0:
		return
	}
	w.pending[op.Key] = len(w.changes)
	w.changes = append(w.changes, c)
}

// write makes the group durable. If it fails, unknown says whether the group may still be on disk.
func (w *writer) write() (unknown bool, err error) {
	next := w.state
	next.last = w.last
	next.reserved = max(next.reserved, w.next-1+reservation)
	next.compacted = max(next.compacted, w.compact)
	w.nanos = w.db.now().UnixNano()
	unknown, err = w.transact(func(tx *bolt.Tx) error {
		r, err := newReading(tx)
		if err != nil {
			return err
		}
		log := r.cursor.Bucket()
		log.FillPercent = 1 // revisions are appended
		if err := w.putRecords(log, &next); err != nil {
			return err
		}
		if err := removeRecords(log, w.doomed[:w.removing()], &next); err != nil {
			return err
		}
		// The next write beside these records reads their pages.
		w.db.touch(tx, r.touched+len(w.records)+(1+w.removing())*pageTouch)
		if err := putState(tx, &next); err != nil {
			return err
		}
		w.transaction = tx.ID()
		return w.space.prepare(tx, w.need())
	})
	if err != nil {
		return unknown, err
	}
	w.state = next
	if n := w.removing(); n > 0 {
		w.space.removed = true
		w.doomed = w.doomed[:copy(w.doomed, w.doomed[n:])]
	}
	if cap(w.records) > keepBytes {
		w.records = nil
	}
	return false, nil
}

// removing is how many records the next transaction removes.
func (w *writer) removing() int {
	switch w.space.level {
	case roomy:
		return len(w.doomed)
	case breathes:
		return 0
	default:
		return min(len(w.doomed), fewRemovals)
	}
}

// spareBytes is for the pages that each transaction writes: the paths to its records, and the state.
const spareBytes = 256 << 10

// need is about how many bytes of pages the transaction writes, rather too many. Pages of appended
// records are at least half full.
func (w *writer) need() int64 {
	const perRecord = 64 // of a page, and its part of the branches
	n := 2*(len(w.records)+len(w.changes)*perRecord) + spareBytes
	for i := range w.changes {
		if len(w.changes[i].value) > os.Getpagesize() {
			n += os.Getpagesize()
		}
	}
	return int64(n + w.removing()*os.Getpagesize())
}

func (w *writer) putRecords(log *bolt.Bucket, s *state) error {
	w.records = w.records[:0]
	for i := range w.changes {
		c := &w.changes[i]
		r := record{
			pos: c.version.position, deleted: c.version.deleted, extent: c.extent, prev: c.prev.position, nanos: w.nanos,
			key: []byte(c.key), value: c.value,
		}
		w.records, c.sum = r.appendTo(w.records)
		c.end = len(w.records)
		s.add(r.pos, c.sum)
	}
	// bbolt keeps the slices until its commit, so they are cut from the buffer when it has its
	// final size.
	var key [positionBytes]byte
	start := 0
	for i := range w.changes {
		c := &w.changes[i]
		if err := log.Put(c.version.appendTo(key[:0]), w.records[start:c.end]); err != nil {
			return err
		}
		start = c.end
	}
	return nil
}

func removeRecords(log *bolt.Bucket, doomed []position, s *state) error {
	var key [positionBytes]byte
	for _, p := range doomed {
		at := p.appendTo(key[:0])
		r, err := parseRecord(at, log.Get(at))
		if err != nil {
			return err
		}
		s.remove(r.pos, r.checksum)
		if err := log.Delete(at); err != nil {
			return err
		}
	}
	return nil
}

func putState(tx *bolt.Tx, s *state) error {
	m := tx.Bucket([]byte(metaBucket))
	if m == nil {
		return damaged("bucket %q is gone", metaBucket)
	}
	return m.Put([]byte(stateKey), s.encode())
}

// transact runs fill in a transaction and commits it. unknown says that it failed after the commit
// had started.
func (w *writer) transact(fill func(*bolt.Tx) error) (unknown bool, err error) {
	var tx *bolt.Tx
	err = guard(func() (err error) {
		if tx, err = w.db.disk.begin(true); err != nil {
			return err
		}
		if err := w.db.site.check(tx.Size()); err != nil {
			return err
		}
		if err := fill(tx); err != nil {
			return err
		}
		unknown = true
		return w.db.disk.commit(tx)
	})
	if err == nil {
		w.db.syncs.Add(1)
		return false, nil
	}
	// A crash within bbolt may have left its locks held.
	crashed := tx == nil && errors.Is(err, errFault)
	if tx != nil {
		rollback := guard(tx.Rollback) // a failed commit has rolled back already
		crashed = rollback != nil && !errors.Is(rollback, berrors.ErrTxClosed)
	}
	if crashed {
		w.db.stuck.Store(true)
	}
	return unknown, err
}

// publish makes the group visible.
func (w *writer) publish() {
	db := w.db
	batches := w.batches()
	db.commits.Add(uint64(len(batches)))
	db.mu.Lock()
	defer db.mu.Unlock()
	for i := range w.changes {
		db.index.push(w.changes[i].key, w.changes[i].version)
	}
	for i := range batches {
		db.recent.push(batches[i])
	}
	for _, r := range w.results {
		if r.from < r.to {
			db.index.noteExtent(w.changes[r.from].extent)
		}
	}
	if db.compacted != w.state.compacted {
		db.compacted = w.state.compacted
		db.index.forget(db.compacted)
	}
	if db.current != w.state.last {
		// Wake the watches before current moves: they have received everything up to the previous
		// revision.
		db.watches.Wake(len(w.changes), func(i int) string { return w.changes[i].key })
		db.current = w.state.last
	}
}

// batches are the group's commits as watches see them.
func (w *writer) batches() []storage.Batch {
	if len(w.changes) == 0 {
		return nil
	}
	at := time.Unix(0, w.nanos) // the time that a watch will read from the file
	batches := make([]storage.Batch, 0, len(w.results))
	for _, r := range w.results {
		if r.from < r.to {
			batches = append(batches, storage.Batch{Revision: r.revision, Changes: watched(w.changes[r.from:r.to]), Time: at})
		}
	}
	return batches
}

// watched returns a commit's changes in the form for watches.
func watched(changes []change) []storage.Change {
	out := make([]storage.Change, len(changes))
	for i := range changes {
		c := &changes[i]
		out[i] = storage.Change{Key: c.key, Value: c.value, Deleted: c.version.deleted, Revision: c.version.rev}
	}
	return out
}

// answerFailure tells the group that it failed, after the store refuses commits.
func (w *writer) answerFailure(unknown bool, cause error) {
	w.db.fail(cause)
	refused := w.db.Healthy()
	for i, r := range w.group {
		switch {
		case unknown && w.results[i].to > w.results[i].from:
			r.finish(0, fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, fileError(w.db.path, cause)))
		default:
			r.finish(0, refused)
		}
	}
}
