package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func reopeningCases() []testCase {
	return []testCase{
		{"records and history survive a reopen", reopenKeepsHistory},
		{"revisions are never reused after a reopen", reopenNeverReuses},
		{"compaction survives a reopen", reopenKeepsCompaction},
		{"an empty store can be reopened", reopenEmpty},
	}
}

func reopenKeepsHistory(s *scene) {
	revisions := story(s, 30)
	s.commit(storage.Put(widget("x"), nil, storage.Any), storage.Put(gadget("x"), []byte{0, 255}, storage.Any),
		storage.Put(sys("x"), []byte("x"), storage.Any))
	revisions = append(revisions, s.current())
	last := s.current()
	lists := map[storage.Revision]state{}
	for _, rev := range revisions {
		lists[rev] = newState(s.wholeList("", rev, 100))
	}
	history := s.collect("", revisions[0], last)
	for range 2 {
		s.reopen()
		require.Equal(s, last, s.current())
		for i, rev := range revisions {
			require.NoError(s, newState(s.wholeList("", rev, 3)).equal(lists[rev]), "list at %d", rev)
			require.NoError(s, sameBatches(history[i:], s.collect("", rev, last)), "watch after %d", rev)
		}
	}
}

func reopenNeverReuses(s *scene) {
	last := s.current()
	for i := range 4 {
		for _, next := range []storage.Revision{
			s.put(widget("a"), fmt.Sprint(i)),
			s.delete(widget("a")),
		} {
			require.Greater(s, next, last)
			last = next
		}
		if i%2 == 1 {
			require.NoError(s, s.Compact(s.ctx, last)) // of the newest commit only the revision is left
		}
		s.reopen()
		require.GreaterOrEqual(s, s.current(), last)
		s.wholeList("", last, 10)
	}
}

func reopenKeepsCompaction(s *scene) {
	revisions := story(s, 12)
	require.NoError(s, s.Compact(s.ctx, revisions[7]))
	want := s.collect("", revisions[7], revisions[12])
	s.reopen()
	for _, rev := range revisions[:7] {
		s.listFails("", rev, storage.ErrCompacted)
		s.watchFails("", rev, storage.ErrCompacted)
	}
	require.NoError(s, sameBatches(want, s.collect("", revisions[7], s.current())))
	s.put(widget("a"), "on we go")
}

func reopenEmpty(s *scene) {
	start := s.current()
	s.reopen()
	require.GreaterOrEqual(s, s.current(), start)
	require.Empty(s, s.wholeList("", 0, 10))
	rev := s.put(widget("a"), "x")
	require.Greater(s, rev, start)
}
