package storagetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func closingCases() []testCase {
	return []testCase{
		{"a closed backend refuses everything", closeRefuses},
		{"closing ends the watches", closeEndsWatches},
		{"closing beside running calls ends each of them cleanly", closeUnderLoad},
		{"closing within a watch's range is allowed", closeWithinWatch},
	}
}

func closeRefuses(s *scene) {
	rev := s.put(widget("a"), "x")
	s.closed = true
	require.NoError(s, s.Close())
	_, err := s.Get(s.ctx, widget("a"))
	require.ErrorIs(s, err, storage.ErrClosed)
	_, err = s.Commit(s.ctx, []storage.Op{storage.Put(widget("a"), nil, storage.Any)})
	require.ErrorIs(s, err, storage.ErrClosed)
	require.NotErrorIs(s, err, storage.ErrUnknownOutcome)
	_, err = s.Revision(s.ctx)
	require.ErrorIs(s, err, storage.ErrClosed)
	require.ErrorIs(s, s.Compact(s.ctx, rev), storage.ErrClosed)
	s.listFails("", 0, storage.ErrClosed)
	s.watchFails("", rev, storage.ErrClosed)
	require.NoError(s, s.Close(), "closing again")
	require.Positive(s, s.Limits().MaxOps, "limits are constant")
}

func closeEndsWatches(s *scene) {
	rev := s.put(widget("a"), "x")
	var all []*follower
	for _, prefix := range []string{"", storage.ResourcePrefix("widgets"), storage.ResourcePrefix("none")} {
		all = append(all, s.follow(prefix, rev))
	}
	behind := s.follow("", rev-1)
	s.closed = true
	require.NoError(s, s.Close())
	for _, f := range append(all, behind) {
		require.ErrorIs(s, f.ended(), storage.ErrClosed)
	}
}

func closeUnderLoad(s *scene) {
	start := s.current()
	var lock sync.Mutex
	acknowledged := map[storage.Revision]string{}
	unknown := map[string]bool{}
	enough := make(chan struct{})
	for w := range 4 {
		s.running.Go(func() {
			for i := 0; ; i++ {
				value := fmt.Sprintf("%d/%d", w, i)
				rev, err := s.Commit(s.ctx, []storage.Op{storage.Put(widget(fmt.Sprint(w)), []byte(value), storage.Any)})
				lock.Lock()
				if err == nil {
					if acknowledged[rev] = value; len(acknowledged) == 50 {
						close(enough)
					}
				}
				unknown[value] = errors.Is(err, storage.ErrUnknownOutcome)
				lock.Unlock()
				if err != nil {
					if !errors.Is(err, storage.ErrClosed) && !errors.Is(err, storage.ErrUnknownOutcome) {
						s.Errorf("commit beside Close: %v", err)
					}
					return
				}
			}
		})
	}
	s.running.Go(func() {
		for {
			if _, err := s.List(s.ctx, storage.ListRequest{Limit: 10}); err != nil {
				if !errors.Is(err, storage.ErrClosed) {
					s.Errorf("list beside Close: %v", err)
				}
				return
			}
		}
	})
	select {
	case <-enough:
	case <-s.ctx.Done(): // the writers have ended too and said why
	}
	s.closed = true
	require.NoError(s, s.Close())
	s.running.Wait()
	if s.harness.Reopen == nil || s.ctx.Err() != nil {
		return
	}
	s.closed = false
	s.reopen()
	for _, b := range s.collect("", start, s.current()) {
		value := string(b.Changes[0].Value)
		if acknowledged[b.Revision] != value {
			require.True(s, unknown[value], "commit %s was refused and is there", value)
		}
		delete(acknowledged, b.Revision)
	}
	require.Empty(s, acknowledged, "acknowledged commits that are gone")
}

func closeWithinWatch(s *scene) {
	rev := s.put(widget("a"), "x")
	s.closed = true
	var end error
	for _, err := range s.Watch(s.ctx, "", rev-1) {
		if end = err; err == nil {
			require.NoError(s, s.Close())
		}
	}
	require.ErrorIs(s, end, storage.ErrClosed)
}
