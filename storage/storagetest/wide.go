package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func wideCases() []testCase {
	return []testCase{
		{"changes of one resource in a commit take a revision each, in the order of keys", wideRevisions},
		{"a list inside of a commit shows the whole commit", wideLists},
		{"a watch resumes in the middle of a commit", wideWatches},
		{"a history begins and ends in the middle of a commit", wideHistories},
		{"compaction halves no commit", wideCompaction},
		{"a commit of several revisions survives a reopen", wideReopen},
	}
}

// wideOps is a commit of three changes of one resource, two of another and one outside of all, in
// another order than that of the keys.
func wideOps(value string) []storage.Op {
	return []storage.Op{
		storage.Put(widget("c"), []byte(value), storage.Any),
		storage.Put(sys("s"), []byte(value), storage.Any),
		storage.Put(gadget("b"), []byte(value), storage.Any),
		storage.Put(widget("a"), []byte(value), storage.Any),
		storage.Check(widget("never"), storage.Absent),
		storage.Put(gadget("a"), []byte(value), storage.Any),
		storage.Put(widget("b"), []byte(value), storage.Any),
	}
}

// wideOrder is the keys of wideOps in the order of the changes, and how far each lies below the last
// revision.
var wideOrder = []struct {
	key   string
	below storage.Revision
}{
	{gadget("a"), 2}, {widget("a"), 2}, {sys("s"), 2}, {gadget("b"), 1}, {widget("b"), 1}, {widget("c"), 0},
}

// wideChanges requires that a batch has the changes of wideOps above a revision.
func wideChanges(s *scene, batch storage.Batch, last, after storage.Revision) {
	s.Helper()
	require.Equal(s, last, batch.Revision)
	var want, got []string
	for _, w := range wideOrder {
		if rev := last - w.below; rev > after {
			want = append(want, fmt.Sprintf("%d %q", rev, w.key))
		}
	}
	for _, c := range batch.Changes {
		got = append(got, fmt.Sprintf("%d %q", c.Revision, c.Key))
	}
	require.Equal(s, want, got)
}

func wideRevisions(s *scene) {
	before := s.put(widget("b"), "old")
	live := s.follow("", before)
	ops := wideOps("new")
	last := s.commit(ops...)
	require.GreaterOrEqual(s, last, before+3)
	require.Equal(s, last, s.current())
	for i, op := range ops {
		if op.Type != storage.OpCheck {
			require.Equal(s, storage.RevisionOf(ops, i, last), s.holds(op.Key, "new"), "revision of %q", op.Key)
		}
	}
	for _, batches := range [][]storage.Batch{live.until(last), s.collect("", before, last)} {
		require.Len(s, batches, 1, "one commit is one batch")
		wideChanges(s, batches[0], last, before)
	}
	changed := s.commit(storage.Put(widget("a"), nil, storage.Expect(last-2)), storage.Delete(widget("b"), storage.Expect(last-1)))
	require.Equal(s, changed-1, s.holds(widget("a"), ""))
	s.absent(widget("b"))
	s.conflict(storage.ConflictError{Key: widget("c"), Expected: storage.Expect(last - 1), Actual: last},
		storage.Put(gadget("a"), nil, storage.Any), storage.Put(widget("c"), nil, storage.Expect(last-1)))
	require.Equal(s, changed, s.current())
}

func wideLists(s *scene) {
	before := s.put(widget("b"), "old")
	last := s.commit(wideOps("new")...)
	s.put(widget("a"), "later")
	want := newState(s.wholeList("", last, 100))
	require.Len(s, want, 6)
	for at := last - 2; at <= last; at++ {
		p, err := s.List(s.ctx, storage.ListRequest{At: at, Limit: 2})
		require.NoError(s, err)
		require.Equal(s, last, p.Revision, "list at %d", at)
		require.NoError(s, newState(s.wholeList("", at, 2)).equal(want), "list at %d", at)
	}
	require.Len(s, s.wholeList("", before, 100), 1)
}

func wideWatches(s *scene) {
	before := s.put(widget("b"), "old")
	last := s.commit(wideOps("new")...)
	next := s.put(widget("a"), "later")
	for after := last - 3; after < last; after++ {
		batches := s.collect("", after, next)
		require.Len(s, batches, 2, "watch after %d", after)
		wideChanges(s, batches[0], last, max(after, before))
	}
	require.Len(s, s.collect("", last, next), 1)
	batches := s.collect(storage.ResourcePrefix("gadgets"), last-2, next)
	require.Len(s, batches, 1)
	require.Equal(s, last, batches[0].Revision, "the last revision is of another resource")
	require.Len(s, batches[0].Changes, 1)
	require.Empty(s, s.collect(storage.ResourcePrefix("gadgets"), last-1, next))
}

func wideHistories(s *scene) {
	before := s.put(widget("b"), "old")
	last := s.commit(wideOps("new")...)
	next := s.put(widget("a"), "later")
	for after := last - 3; after < last; after++ {
		batches := s.collect("", after, next)
		require.Len(s, batches, 2, "history after %d", after)
		wideChanges(s, batches[0], last, max(after, before))
	}
	p, err := s.History(s.ctx, storage.HistoryRequest{After: before, Until: last - 1, Limit: 1, Prev: true})
	require.NoError(s, err)
	require.Len(s, p.Batches, 1)
	wideChanges(s, p.Batches[0], last, before) // a commit is not cut
	require.Equal(s, last, p.Revision)
	require.False(s, p.More)
	for _, c := range p.Batches[0].Changes {
		require.Equal(s, c.Key == widget("b"), c.Prev != nil, "previous record of %q", c.Key)
	}
	p, err = s.History(s.ctx, storage.HistoryRequest{Prefix: widget("c"), After: before, Until: last - 1, Limit: 1})
	require.NoError(s, err)
	require.Empty(s, p.Batches, "changes above the end are not read")
	require.Equal(s, last-1, p.Revision)
}

func wideCompaction(s *scene) {
	s.put(widget("b"), "older")
	before := s.put(widget("b"), "old")
	first := s.commit(wideOps("new")...)
	second := s.commit(wideOps("newer")...)
	want := s.collect("", first, second)
	for at := second - 2; at < second; at++ {
		require.NoError(s, s.Compact(s.ctx, at))
		require.NoError(s, sameBatches(want, s.collect("", first, second)), "history after compaction at %d", at)
		require.Len(s, s.wholeList("", first, 10), 6)
		require.Len(s, s.wholeList("", at, 10), 6)
		s.listFails("", before, storage.ErrCompacted)
		s.listFails("", first-1, storage.ErrCompacted)
		s.watchFails("", before, storage.ErrCompacted)
	}
	require.NoError(s, s.Compact(s.ctx, second))
	s.listFails("", second-1, storage.ErrCompacted)
	require.Len(s, s.wholeList("", second, 10), 6)
}

func wideReopen(s *scene) {
	if s.harness.Reopen == nil {
		return
	}
	before := s.put(widget("b"), "old")
	last := s.commit(wideOps("new")...)
	want := s.collect("", before, last)
	s.reopen()
	require.Equal(s, last, s.current())
	require.NoError(s, sameBatches(want, s.collect("", before, last)))
	require.Len(s, s.wholeList("", last-1, 10), 6)
	require.Greater(s, s.commit(wideOps("newer")...), last+2)
	wideChanges(s, s.collect("", last-1, last)[0], last, last-1)
}
