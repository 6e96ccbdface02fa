package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func crashingCases() []testCase {
	return []testCase{{"acknowledged commits survive a crash", crashKeepsCommits}}
}

func joiningCases() []testCase {
	return []testCase{{"data that is opened twice is one store, or the second opening is refused", joinIsOneStore}}
}

func crashKeepsCommits(s *scene) {
	for round := range 4 {
		last := s.put(widget("a"), fmt.Sprint(round))
		for i := range 5 * round {
			last = s.commit(storage.Put(widget(fmt.Sprint(i)), []byte(fmt.Sprint(round)), storage.Any),
				storage.Put(gadget(fmt.Sprint(i)), nil, storage.Any))
		}
		want := newState(s.wholeList("", 0, 100))
		s.stopFollowers()
		s.Backend = s.harness.Crash(s.TB, s.Backend)
		require.NoError(s, newState(s.wholeList("", 0, 100)).equal(want), "after crash %d", round+1)
		require.GreaterOrEqual(s, s.current(), last, "the revision went back in crash %d", round+1)
		require.Greater(s, s.put(widget("b"), "next"), last, "a revision was used again after crash %d", round+1)
	}
}

func joinIsOneStore(s *scene) {
	s.put(widget("a"), "before")
	other, err := s.harness.Join(s.TB, s.Backend)
	if err != nil { // the usual case; the first must not suffer from it
		s.put(widget("a"), "after")
		s.holds(widget("a"), "after")
		return
	}
	defer func() { require.NoError(s, other.Close()) }()
	rev := s.put(widget("a"), "here")
	got, err := other.Get(s.ctx, widget("a"))
	require.NoError(s, err)
	require.Equal(s, "here", string(got.Value), "the second does not see a commit of the first")
	next, err := other.Commit(s.ctx, []storage.Op{storage.Put(widget("a"), []byte("there"), storage.Expect(rev))})
	require.NoError(s, err)
	require.Greater(s, next, rev, "the second used a revision again")
	_, err = s.Commit(s.ctx, []storage.Op{storage.Put(widget("a"), []byte("lost"), storage.Expect(rev))})
	require.ErrorAs(s, err, new(*storage.ConflictError), "the first overwrote a commit of the second")
	s.holds(widget("a"), "there")
}
