package storagetest

import (
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func revisionCases() []testCase {
	return []testCase{
		{"a fresh store is empty and its revision is not zero", freshStore},
		{"revisions increase with every commit", revisionsIncrease},
		{"the current revision is the newest commit's", currentIsNewest},
		{"stores opened apart share nothing", twoStores},
	}
}

func freshStore(s *scene) {
	rev := s.current()
	p, err := s.List(s.ctx, storage.ListRequest{Limit: 1})
	require.NoError(s, err)
	require.Equal(s, storage.Page{Revision: rev, Records: p.Records}, p)
	require.Empty(s, p.Records)
	s.absent(widget("a"))
	s.listFails("", rev+1, storage.ErrFutureRevision)
	require.Positive(s, s.Limits().MaxOps)
	require.Positive(s, s.Limits().MaxValueBytes)
	require.GreaterOrEqual(s, s.Limits().MaxCommitBytes, s.Limits().MaxValueBytes, "a value is part of a commit")
}

func revisionsIncrease(s *scene) {
	last := s.current()
	for i := range 50 {
		rev := s.put(widget(strconv.Itoa(i%3)), strconv.Itoa(i))
		if i%3 == 2 {
			deleted := s.delete(widget("1"))
			require.Greater(s, deleted, rev)
			rev = deleted
		}
		require.Greater(s, rev, last)
		last = rev
	}
}

func currentIsNewest(s *scene) {
	for i := range 10 {
		rev := s.put(widget(strconv.Itoa(i)), "x")
		require.Equal(s, rev, s.current())
		p, err := s.List(s.ctx, storage.ListRequest{Prefix: storage.ResourcePrefix("gadgets"), Limit: 1})
		require.NoError(s, err)
		require.Equal(s, rev, p.Revision, "a list now is at the current revision, also where nothing was written")
		_, err = s.Commit(s.ctx, []storage.Op{storage.Put(widget("0"), nil, storage.Absent)})
		require.Error(s, err)
		require.Equal(s, rev, s.current(), "a refused commit is no news")
	}
}

func twoStores(s *scene) {
	other := s.harness.Open(s.TB)
	defer func() { require.NoError(s, other.Close()) }()
	s.put(widget("a"), "here")
	_, err := other.Get(s.ctx, widget("a"))
	require.ErrorIs(s, err, storage.ErrNotFound)
}
