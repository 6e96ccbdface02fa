package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func contextCases() []testCase {
	return []testCase{
		{"a context that has ended does nothing", endedContext},
		{"a sleeping watch ends with its context", watchEndsAsleep},
		{"a watch in the middle of history ends with its context", watchEndsInHistory},
		{"a commit whose context ends happens whole or not at all", cancelledCommits},
	}
}

func endedContext(s *scene) {
	rev := s.put(widget("a"), "one")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Get(ctx, widget("a"))
	require.ErrorIs(s, err, context.Canceled)
	_, err = s.List(ctx, storage.ListRequest{Limit: 10})
	require.ErrorIs(s, err, context.Canceled)
	_, err = s.Revision(ctx)
	require.ErrorIs(s, err, context.Canceled)
	require.ErrorIs(s, s.Compact(ctx, rev), context.Canceled)
	_, err = s.Commit(ctx, []storage.Op{storage.Put(widget("a"), []byte("two"), storage.Any)})
	require.ErrorIs(s, err, context.Canceled)
	require.NotErrorIs(s, err, storage.ErrUnknownOutcome)
	pairs := 0
	for _, err := range s.Watch(ctx, "", rev) {
		pairs++
		require.ErrorIs(s, err, context.Canceled)
	}
	require.Equal(s, 1, pairs)
	require.Equal(s, rev, s.holds(widget("a"), "one"))
	require.Equal(s, rev, s.current())
}

func watchEndsAsleep(s *scene) {
	rev := s.put(widget("a"), "x")
	f := s.follow(storage.ResourcePrefix("none"), rev-1)
	f.until(rev) // it has yielded everything and sleeps, or soon will
	f.cancel()
	require.ErrorIs(s, f.ended(), context.Canceled)

	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Millisecond)
	defer cancel()
	var end error
	for _, err := range s.Watch(ctx, storage.ResourcePrefix("none"), rev) {
		end = err
	}
	require.ErrorIs(s, end, context.DeadlineExceeded)
}

func watchEndsInHistory(s *scene) {
	const commits = 200
	revisions := story(s, commits)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	n := 0
	var end error
	for _, err := range s.Watch(ctx, "", revisions[0]) {
		if end = err; err != nil {
			continue
		}
		if n++; n == 3 {
			cancel()
		}
	}
	require.ErrorIs(s, end, context.Canceled)
	require.NotEqual(s, commits, n, "the watch gave all batches although its context had ended")
}

// cancelledCommits writes three keys at a time under contexts that end at any moment. Meanwhile
// readers check that no commit ever shows only in part.
func cancelledCommits(s *scene) {
	start := s.current()
	keys := []string{widget("a"), gadget("a"), sys("a")}
	commit := func(ctx context.Context, value string) (storage.Revision, error) {
		var ops []storage.Op
		for _, key := range keys {
			ops = append(ops, storage.Put(key, []byte(value), storage.Any))
		}
		return s.Commit(ctx, ops)
	}
	const writers, each = 4, 50
	type outcome struct {
		revision storage.Revision
		err      error
	}
	var lock sync.Mutex
	outcomes := map[string]outcome{}
	var running sync.WaitGroup
	for w := range writers {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		running.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(s.ctx)
				timer := time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
				value := fmt.Sprintf("%d/%d", w, i)
				rev, err := commit(ctx, value)
				timer.Stop()
				cancel()
				lock.Lock()
				outcomes[value] = outcome{rev, err}
				lock.Unlock()
			}
		})
	}
	running.Go(func() {
		for range each {
			records, _, err := listAll(s.ctx, s.Backend, "", 0, 10)
			if err != nil {
				s.Errorf("list beside cancelled commits: %v", err)
				return
			}
			for _, r := range records {
				if string(r.Value) != string(records[0].Value) || r.Revision != records[0].Revision || len(records) != len(keys) {
					s.Errorf("half a commit: %v", records)
					return
				}
			}
		}
	})
	running.Wait()

	last := s.current()
	happened := map[string]storage.Revision{}
	for _, b := range s.collect("", start, last) {
		require.Len(s, b.Changes, len(keys), "changes of one commit")
		happened[string(b.Changes[0].Value)] = b.Revision
	}
	for value, o := range outcomes {
		rev, did := happened[value]
		switch {
		case o.err == nil:
			require.Equal(s, o.revision, rev, "an acknowledged commit")
		case errors.Is(o.err, storage.ErrUnknownOutcome):
			require.ErrorIs(s, o.err, context.Canceled)
		default:
			require.ErrorIs(s, o.err, context.Canceled)
			require.False(s, did, "commit %s happened at %d and was answered with %v", value, rev, o.err)
		}
	}
	s.put(widget("a"), "afterwards")
}
