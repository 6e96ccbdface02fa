package copy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// The reasons why a copy is refused, or not finished.
var (
	// ErrNotEmpty means that the target has records of its own. Nothing was written.
	ErrNotEmpty = errors.New("the target is not empty: give an empty one")
	// ErrStillWritten means that somebody wrote to the source while the copy was to be finished.
	ErrStillWritten = errors.New("the source is still written to: stop all of its writers, then finish again")
)

// Options adjusts a copy. The zero value copies everything or nothing.
type Options struct {
	// LeaveOutUnreadable copies the others if some records cannot be read. The result names them.
	LeaveOutUnreadable bool

	// Snapshot copies the source as it is at one moment. Later changes are not taken over, and the
	// source may go on being written to. It is for backups.
	Snapshot bool

	// Above is a revision that the target is to begin above, beside all others. It is for stores that
	// were lost, if clients know of a higher one than the present time in microseconds. It is at most
	// HighestAbove.
	Above storage.Revision

	// Progress, if not nil, is called now and then with what has been done.
	Progress func(Progress)
}

// HighestAbove is the highest revision that Options.Above can have, so that the target can be copied again.
const HighestAbove = storage.HighestStart / 2

// Progress is how far a copy is.
type Progress struct {
	Records int              // compared with the target, and written where it had another one
	Changes int              // taken over since then
	Reached storage.Revision // of the source; 0 until the records have been copied
}

// Result is what a copy has done.
type Result struct {
	Progress
	KeptRevisions bool             // records have the revisions that they had in the source
	First         storage.Revision // the target goes on above it
	LeftOut       []string         // keys of records that could not be read
}

// Follower is a copy under way. Its methods must not be called at the same time.
type Follower struct {
	from storage.Backend
	sink *sink
	opts Options
	mark mark
	done Progress
	left map[string]bool
	now  func() time.Time
}

// Begin copies everything in from to to, and what changes meanwhile, until it has caught up. The
// target must be empty, or one that an earlier Begin has not finished; then it continues. Until
// Finish the target is marked; see [Unfinished].
//
// Both stores are open. The source may be written to. Nothing else may use the target. Errors before
// the first byte is written are ErrNotEmpty, ErrUnfinished (of the source), *[Obstacles], and those of
// reading.
func Begin(ctx context.Context, from, to storage.Backend, o Options) (*Follower, error) {
	f := newFollower(from, to, o)
	continues, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	if continues && f.continuous(ctx) {
		if err = f.catchUp(ctx); err == nil || !errors.Is(err, storage.ErrCompacted) {
			return f, err
		}
	}
	c, err := Examine(ctx, from, to.Limits(), o.LeaveOutUnreadable)
	if err != nil {
		return nil, err
	}
	if !continues {
		if err := f.markTarget(ctx, c.Revision); err != nil {
			return nil, fmt.Errorf("the target: %w", err)
		}
	}
	return f, f.copyAll(ctx)
}

// Check returns the error with which Begin would refuse the two stores before it writes anything, or
// nil. The target may be one that was opened to be read.
func Check(ctx context.Context, from, to storage.Backend, o Options) error {
	continues, err := newFollower(from, to, o).look(ctx)
	if err != nil || continues {
		return err
	}
	_, err = Examine(ctx, from, to.Limits(), o.LeaveOutUnreadable)
	return err
}

func newFollower(from, to storage.Backend, o Options) *Follower {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return &Follower{from: from, sink: newSink(to), opts: o, left: map[string]bool{}, now: time.Now}
}

// look refuses options that cannot be met, a source that is not finished, and a target that is not empty. It reports whether the
// target is of a copy that goes on.
func (f *Follower) look(ctx context.Context) (continues bool, err error) {
	if f.opts.Above > HighestAbove {
		return false, fmt.Errorf("%w: no copy begins above revision %d, the limit is %d", storage.ErrInvalid, f.opts.Above, HighestAbove)
	}
	if err := Unfinished(ctx, f.from); err != nil {
		return false, fmt.Errorf("the source: %w", err)
	}
	if continues, err = f.lookAtTarget(ctx); err != nil {
		return continues, fmt.Errorf("the target: %w", err)
	}
	return continues, nil
}

// lookAtTarget reads the mark of a target that has one, and refuses one that is not empty.
func (f *Follower) lookAtTarget(ctx context.Context) (continues bool, err error) {
	to := f.sink.to
	if f.mark, continues, err = readMark(ctx, to); err != nil || continues {
		if continues && f.mark.keeps != (f.sink.importer != nil) {
			return true, errors.New("the unfinished copy in it was made in another way: clear it, and copy again")
		}
		return continues, err
	}
	page, err := to.List(ctx, storage.ListRequest{Limit: 1})
	if err == nil && len(page.Records) > 0 {
		err = fmt.Errorf("%w (it has %s)", ErrNotEmpty, Name(page.Records[0].Key))
	}
	return false, err
}

// lead is how far a target that cannot keep revisions goes ahead of the source: more than any source
// gives out while it is copied, and less than a week of microseconds.
const lead = 1 << 39

// markTarget makes the target one that no server starts on.
func (f *Follower) markTarget(ctx context.Context, rev storage.Revision) error {
	f.mark = mark{keeps: f.sink.importer != nil}
	if !f.mark.keeps {
		to, ok := storage.As[storage.Advancer](f.sink.to)
		if !ok {
			return errors.New("it can neither keep revisions nor be taken beyond those of the source, so it cannot be copied to")
		}
		f.mark.first = max(rev+lead, f.opts.Above)
		if err := to.Advance(ctx, f.mark.first); err != nil {
			return err
		}
	}
	return f.mark.write(ctx, f.sink.to)
}

// continuous reports whether the changes after what the target has are all that it lacks. A source
// that does not know its own past does not tell.
func (f *Follower) continuous(ctx context.Context) bool {
	past, ok := storage.As[storage.Lineage](f.from)
	return ok && f.mark.reached > 0 && past.Holds(ctx, f.mark.reached) == nil
}

// mostRounds is how often copyAll begins again if the source is compacted beyond it.
const mostRounds = 10

// copyAll makes the target equal to the source at one revision, then catches up.
func (f *Follower) copyAll(ctx context.Context) error {
	for n := 1; ; n++ {
		at, err := f.from.Revision(ctx)
		if err == nil {
			err = f.reconcile(ctx, at)
		}
		if err == nil {
			err = f.reach(ctx, at)
		}
		if err == nil && !f.opts.Snapshot {
			err = f.catchUp(ctx)
		}
		if !errors.Is(err, storage.ErrCompacted) || n == mostRounds {
			return err
		}
	}
}

// reach notes in the target that it has everything up to a revision of the source.
func (f *Follower) reach(ctx context.Context, rev storage.Revision) error {
	f.mark.reached, f.done.Reached = rev, rev
	f.opts.Progress(f.done)
	return f.mark.write(ctx, f.sink.to)
}

// reconcile walks along both stores in the order of keys and changes the target where it differs
// from the source at a revision.
func (f *Follower) reconcile(ctx context.Context, at storage.Revision) error {
	f.done.Records = 0
	f.sink.drop()
	next, stop := iter.Pull2(records(ctx, f.sink.to, 0))
	defer stop()
	have, err, more := next()
	behind := func(key string) error { // takes away what the source does not have
		for more && err == nil && have.Key < key {
			if have.Key != markKey {
				err = f.sink.delete(ctx, have.Key)
			}
			if err == nil {
				have, err, more = next()
			}
		}
		return err
	}
	for r, failure := range records(ctx, f.from, at) {
		if failure != nil {
			return failure
		}
		if err := behind(r.Key); err != nil {
			return err
		}
		there := more && have.Key == r.Key
		if !there || !f.same(have, r) {
			if err := f.take(ctx, r, there); err != nil {
				return err
			}
		}
		if f.done.Records++; f.done.Records%(10*pageRecords) == 0 {
			f.opts.Progress(f.done)
		}
		if there {
			if have, err, more = next(); err != nil {
				return err
			}
		}
	}
	if err := behind(afterAll); err != nil {
		return err
	}
	return f.sink.flush(ctx)
}

// afterAll is above every key: these begin with a slash.
const afterAll = "0"

// same reports whether the target has a record already.
func (f *Follower) same(have, r storage.Record) bool {
	return have.Err == nil && r.Err == nil && bytes.Equal(have.Value, r.Value) && (have.Revision == r.Revision || !f.mark.keeps)
}

// take takes a record over. there says that the target has another one of that key.
func (f *Follower) take(ctx context.Context, r storage.Record, there bool) error {
	switch {
	case r.Err != nil && !f.opts.LeaveOutUnreadable:
		return (&Obstacles{Unreadable: []string{r.Key}, Cause: r.Err}).err()
	case r.Err != nil:
		f.left[r.Key] = true
		if there {
			return f.sink.delete(ctx, r.Key)
		}
		return nil
	case !fits(r, f.sink.limits):
		return (&Obstacles{TooLarge: []string{r.Key}, Limit: largest(f.sink.limits)}).err()
	}
	delete(f.left, r.Key)
	return f.sink.write(ctx, r)
}

// catchUp takes over the changes up to the revision that is the current one when it is called.
func (f *Follower) catchUp(ctx context.Context) error {
	f.sink.drop()
	until, err := f.from.Revision(ctx)
	if err != nil {
		return err
	}
	for f.mark.reached < until {
		page, err := f.changes(ctx, until)
		if err != nil {
			return err
		}
		newest := map[string]storage.Change{}
		for _, b := range page.Batches {
			f.done.Changes += len(b.Changes)
			for _, c := range b.Changes {
				newest[c.Key] = c
			}
		}
		for _, key := range slices.Sorted(maps.Keys(newest)) {
			c := newest[key]
			if c.Deleted {
				delete(f.left, key)
				err = f.sink.delete(ctx, key)
			} else {
				err = f.take(ctx, storage.Record{Key: key, Value: c.Value, Revision: c.Revision, Err: c.Err}, true)
			}
			if err != nil {
				return err
			}
		}
		if err := f.sink.flush(ctx); err != nil {
			return err
		}
		f.mark.reached, f.done.Reached = page.Revision, page.Revision
	}
	return f.reach(ctx, f.mark.reached)
}

func (f *Follower) changes(ctx context.Context, until storage.Revision) (page storage.HistoryPage, err error) {
	err = again(ctx, func(ctx context.Context) (err error) {
		page, err = f.from.History(ctx, storage.HistoryRequest{After: f.mark.reached, Until: until, Limit: pageChanges})
		return err
	})
	return page, err
}

// Keep takes over changes as they happen, until ctx ends. It returns nil then, and otherwise what went wrong; Keep
// or Finish may be called again.
func (f *Follower) Keep(ctx context.Context) error {
	for {
		err := f.wait(ctx)
		if err == nil {
			err = f.catchUp(ctx)
		}
		if errors.Is(err, storage.ErrCompacted) {
			err = f.copyAll(ctx)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // that is how it ends
		}
		if err != nil {
			return err
		}
	}
}

// wait returns when the source has changed.
func (f *Follower) wait(ctx context.Context) error {
	for b, err := range f.from.Watch(ctx, "", f.mark.reached) {
		if errors.Is(err, storage.ErrUnavailable) {
			return nil // catchUp waits for it
		}
		if err != nil || !b.Progress {
			return err
		}
	}
	return nil
}

// Finish takes over the last changes, and makes the target one that can be served. All writers of the
// source have been stopped, unless the copy is a Snapshot. After ErrStillWritten, and after any other
// error, it may be called again; the target stays marked until it has succeeded.
func (f *Follower) Finish(ctx context.Context) (Result, error) {
	if !f.opts.Snapshot {
		err := f.catchUp(ctx)
		if errors.Is(err, storage.ErrCompacted) {
			err = f.copyAll(ctx)
		}
		if err == nil {
			err = f.quiet(ctx)
		}
		if err != nil {
			return Result{}, err
		}
	}
	first, err := f.raise(ctx)
	if err == nil {
		err = again(ctx, func(ctx context.Context) error {
			_, err := f.sink.to.Commit(ctx, []storage.Op{storage.Delete(markKey, storage.Any)})
			return err
		})
	}
	if err != nil {
		return Result{}, fmt.Errorf("the target: %w", err)
	}
	r := Result{Progress: f.done, KeptRevisions: f.mark.keeps, First: first, LeftOut: slices.Sorted(maps.Keys(f.left))}
	if f.opts.Snapshot {
		return r, nil
	}
	if err := f.quiet(ctx); err != nil {
		return r, fmt.Errorf("the target is finished, and lacks what was written at the end: clear it and copy again: %w", err)
	}
	return r, nil
}

// quiet returns ErrStillWritten if the source has gone on.
func (f *Follower) quiet(ctx context.Context) error {
	rev, err := f.from.Revision(ctx)
	if err == nil && rev != f.mark.reached {
		err = fmt.Errorf("%w (it went on from %d to %d)", ErrStillWritten, f.mark.reached, rev)
	}
	return err
}

// raise takes the target above everything that was given out.
func (f *Follower) raise(ctx context.Context) (storage.Revision, error) {
	first := max(f.mark.reached, f.opts.Above, f.sink.highest, storage.Revision(max(0, f.now().UnixMicro())))
	if f.mark.keeps {
		return first, f.sink.importer.Import(ctx, storage.Import{Above: first})
	}
	if f.mark.reached >= f.mark.first {
		return 0, fmt.Errorf("the source has reached revision %d, and the records in the target begin at %d: clear the target and copy again",
			f.mark.reached, f.mark.first)
	}
	to, _ := storage.As[storage.Advancer](f.sink.to)
	if err := to.Advance(ctx, first); err != nil {
		return 0, err
	}
	// The history of the target has no deletions of the source: nobody may resume in it.
	rev, err := f.sink.to.Revision(ctx)
	if err == nil {
		err = f.sink.to.Compact(ctx, rev)
	}
	return first, err
}

// Done returns how far the copy is.
func (f *Follower) Done() Progress { return f.done }

// Copy copies a source that nobody writes to, or with Snapshot one moment of any.
func Copy(ctx context.Context, from, to storage.Backend, o Options) (Result, error) {
	f, err := Begin(ctx, from, to, o)
	if err != nil {
		return Result{}, err
	}
	return f.Finish(ctx)
}
