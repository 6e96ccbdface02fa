package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func compactionCases() []testCase {
	return []testCase{
		{"below the compacted revision everything fails, at it and above everything is exact", compactEdges},
		{"the first change after compaction names the record it replaced", compactKeepsPrevious},
		{"compacting the same or older again does nothing", compactAgain},
		{"compacting the future is refused", compactFuture},
		{"compacting the current revision leaves now", compactNow},
		{"compaction keeps what lives and drops what was deleted", compactDropsDeleted},
		{"compaction takes no revision", compactTakesNone},
		{"a page of a compacted revision fails", compactBetweenPages},
		{"a watch that compaction overtakes misses nothing or says so", compactOvertakes},
	}
}

// story writes a few keys again and again and returns the revisions. The first one is that before
// the first commit.
func story(s *scene, commits int) []storage.Revision {
	revisions := []storage.Revision{s.current()}
	for i := range commits {
		key := widget(fmt.Sprint(i % 4))
		if i%6 == 5 {
			revisions = append(revisions, s.delete(key))
		} else {
			revisions = append(revisions, s.put(key, fmt.Sprint(i)))
		}
	}
	return revisions
}

func compactEdges(s *scene) {
	revisions := story(s, 24)
	lists := map[storage.Revision]state{}
	for _, rev := range revisions {
		lists[rev] = newState(s.wholeList("", rev, 100))
	}
	last := revisions[len(revisions)-1]
	history := s.collect("", revisions[0], last)
	for _, c := range []int{1, 2, 11, 12, 23, 24} {
		require.NoError(s, s.Compact(s.ctx, revisions[c]))
		for i, rev := range revisions {
			if i < c {
				s.listFails("", rev, storage.ErrCompacted)
				s.watchFails("", rev, storage.ErrCompacted)
				s.watchFails(storage.ResourcePrefix("none"), rev, storage.ErrCompacted)
				continue
			}
			require.NoError(s, newState(s.wholeList("", rev, 3)).equal(lists[rev]), "list at %d, compacted at %d", rev, revisions[c])
			require.NoError(s, sameBatches(history[i:], s.collect("", rev, last)), "watch after %d, compacted at %d", rev, revisions[c])
		}
		s.listFails("", revisions[c]-1, storage.ErrCompacted)
		s.listFails("", 1, storage.ErrCompacted)
		s.watchFails("", 0, storage.ErrCompacted)
	}
}

func compactKeepsPrevious(s *scene) {
	first := s.put(widget("a"), "one")
	for range 5 {
		s.put(gadget("foreign"), "x")
	}
	c := s.put(gadget("foreign"), "y")
	require.NoError(s, s.Compact(s.ctx, c))
	s.delete(widget("a"))
	last := s.put(gadget("foreign"), "z")
	batches := s.collect("", c, last)
	require.Len(s, batches, 2)
	require.Equal(s, &storage.Record{Key: widget("a"), Value: []byte("one"), Revision: first}, batches[0].Changes[0].Prev)
	require.Equal(s, c, batches[1].Changes[0].Prev.Revision)
	require.NoError(s, s.Compact(s.ctx, batches[0].Revision))
	require.NoError(s, sameBatches(batches[1:], s.collect("", batches[0].Revision, last)))
}

func compactAgain(s *scene) {
	revisions := story(s, 12)
	require.NoError(s, s.Compact(s.ctx, revisions[8]))
	for _, older := range []storage.Revision{revisions[8], revisions[7], revisions[0], 1, 0} {
		require.NoError(s, s.Compact(s.ctx, older))
		s.wholeList("", revisions[8], 10)
		s.listFails("", revisions[7], storage.ErrCompacted)
	}
}

func compactFuture(s *scene) {
	revisions := story(s, 4)
	for _, ahead := range []storage.Revision{1, 1 << 40} {
		require.ErrorIs(s, s.Compact(s.ctx, revisions[4]+ahead), storage.ErrFutureRevision)
	}
	s.wholeList("", revisions[0], 10)
	require.Len(s, s.collect("", revisions[0], revisions[4]), 4)
}

func compactNow(s *scene) {
	revisions := story(s, 12)
	last := revisions[12]
	before := newState(s.wholeList("", 0, 100))
	require.NoError(s, s.Compact(s.ctx, last))
	for _, at := range []storage.Revision{0, last} {
		require.NoError(s, newState(s.wholeList("", at, 2)).equal(before))
	}
	f := s.follow("", last)
	next := s.put(widget("0"), "next")
	require.Len(s, f.until(next), 1)
	require.NotNil(s, s.change("", last, next).Prev)
}

func compactDropsDeleted(s *scene) {
	s.put(widget("kept"), "one")
	s.put(widget("gone"), "one")
	gone := s.delete(widget("gone"))
	s.put(widget("later"), "one")
	c := s.current()
	require.NoError(s, s.Compact(s.ctx, c))
	require.Equal(s, []string{widget("kept"), widget("later")}, keysOf(s.wholeList("", c, 10)))
	s.absent(widget("gone"))
	s.conflict(storage.ConflictError{Key: widget("gone"), Expected: storage.Expect(gone), Actual: 0},
		storage.Put(widget("gone"), nil, storage.Expect(gone)))
	again := s.commit(storage.Put(widget("gone"), []byte("two"), storage.Absent))
	require.Nil(s, s.change("", c, again).Prev)
}

func compactTakesNone(s *scene) {
	revisions := story(s, 6)
	for _, rev := range revisions[1:] {
		require.NoError(s, s.Compact(s.ctx, rev))
		require.Equal(s, revisions[6], s.current())
	}
}

func compactBetweenPages(s *scene) {
	for i := range 6 {
		s.put(widget(fmt.Sprint(i)), "x")
	}
	r := storage.ListRequest{Prefix: storage.ResourcePrefix("widgets"), Limit: 2}
	p, err := s.List(s.ctx, r)
	require.NoError(s, err)
	require.True(s, p.More)
	s.put(widget("0"), "y")
	require.NoError(s, s.Compact(s.ctx, s.current()))
	r.At, r.After = p.Revision, p.Records[len(p.Records)-1].Key
	_, err = s.List(s.ctx, r)
	require.ErrorIs(s, err, storage.ErrCompacted)
}

func compactOvertakes(s *scene) {
	start := s.current()
	f := s.follow("", start) // it yields its first batch and waits there
	want := []storage.Revision{s.put(widget("a"), "x")}
	require.Equal(s, want[0], f.next().Revision)
	for i := range 1000 {
		want = append(want, s.put(widget("a"), fmt.Sprint(i)))
	}
	last := want[len(want)-1]
	require.NoError(s, s.Compact(s.ctx, last))
	s.current()
	got := want[:1:1]
	for f.order.told < last {
		batch, running := f.receive()
		if !running {
			break
		}
		require.NoError(s, f.order.accept(batch))
		if !batch.Progress {
			got = append(got, batch.Revision)
		}
	}
	if f.order.told >= last {
		require.Equal(s, want, got, "the watch has reached the end")
		return
	}
	require.ErrorIs(s, f.end, storage.ErrCompacted)
	require.Equal(s, want[:len(got)], got, "what was delivered has no hole")
}
