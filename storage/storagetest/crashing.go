package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func crashingCases() []testCase {
	return []testCase{{"acknowledged commits survive a crash", crashKeepsCommits}}
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
