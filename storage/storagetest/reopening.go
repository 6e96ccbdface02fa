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
	s.commit(storage.Put(widget("x"), nil, storage.Any), storage.Put(gadget("x"), []byte{0, 255}, storage.Any), storage.Put(sys("x"), []byte("x"), storage.Any))
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
			got := s.collect("", rev, last)
			require.Len(s, got, len(history)-i)
			for j, b := range got {
				want := history[i+j]
				require.Equal(s, want.Revision, b.Revision)
				require.True(s, want.Time.Equal(b.Time), "the time of revision %d", b.Revision)
				require.NoError(s, sameChanges(want.Changes, b.Changes))
			}
		}
	}
}

// sameChanges compares the changes of a batch, in whatever order.
func sameChanges(want, got []storage.Change) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d changes, want %d", len(got), len(want))
	}
	byKey := map[string]storage.Change{}
	for _, c := range got {
		byKey[c.Key] = c
	}
	for _, w := range want {
		g, ok := byKey[w.Key]
		if !ok {
			return fmt.Errorf("no change of %q", w.Key)
		}
		if err := sameChange(w, g); err != nil {
			return err
		}
	}
	return nil
}

func sameChange(want, got storage.Change) error {
	if want.Deleted != got.Deleted || (want.Prev == nil) != (got.Prev == nil) {
		return fmt.Errorf("change %+v, want %+v", got, want)
	}
	if want.Prev != nil {
		if err := sameRecord(*got.Prev, *want.Prev); err != nil {
			return fmt.Errorf("previous record: %w", err)
		}
	}
	return sameRecord(
		storage.Record{Key: got.Key, Value: got.Value, Revision: got.Revision},
		storage.Record{Key: want.Key, Value: want.Value, Revision: want.Revision})
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
			require.NoError(s, s.Compact(s.ctx, last)) // now nothing of the newest commit is kept but its number
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
	got := s.collect("", revisions[7], s.current())
	require.Len(s, got, len(want))
	for i := range want {
		require.NoError(s, sameChanges(want[i].Changes, got[i].Changes))
	}
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
