package storage_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const window, every = 5 * time.Minute, 10 * time.Second

// retaining runs Retain in the bubble until this part of the test is over.
func retaining(t *testing.T, s *storage.Store, part func()) error {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Retain(ctx, window, every) }()
	part()
	cancel()
	return <-ended
}

func put(t *testing.T, s *storage.Store) storage.Revision {
	rev, err := s.Commit(t.Context(), []storage.Op{storage.Put(widgetA, nil, storage.Any)})
	require.NoError(t, err)
	return rev
}

func readable(t *testing.T, s *storage.Store, rev storage.Revision) bool {
	_, err := s.List(t.Context(), storage.ListRequest{At: rev, Limit: 1})
	if err != nil {
		require.ErrorIs(t, err, storage.ErrCompacted)
	}
	return err == nil
}

// STORE-05: history of the window is retained, and little more.
func TestSTORE_05_RetainKeepsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storage.New(memory.New())
		type commit struct {
			at       time.Time
			revision storage.Revision
		}
		var commits []commit
		require.NoError(t, retaining(t, s, func() {
			begin, gone := time.Now(), 0
			for range 600 {
				commits = append(commits, commit{time.Now(), put(t, s)})
				time.Sleep(3 * time.Second)
				synctest.Wait()
				now := time.Now()
				for i := gone; i < len(commits); i++ {
					// A revision is useful until the next commit replaces it.
					until := now
					if i+1 < len(commits) {
						until = commits[i+1].at
					}
					switch kept := readable(t, s, commits[i].revision); {
					case now.Sub(until) < window:
						require.True(t, kept, "a revision current %v ago is gone", now.Sub(until))
					case now.Sub(begin) < window:
						require.True(t, kept, "compacted within the first window")
					case now.Sub(until) > window+2*every:
						require.False(t, kept, "a revision current %v ago is kept", now.Sub(until))
						gone = i + 1
					}
				}
			}
			require.Greater(t, gone, 400)
		}))
	})
}

func TestRetainCompactsNothingInTheFirstWindowAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storage.New(memory.New())
		old := put(t, s)
		put(t, s)
		time.Sleep(24 * time.Hour) // the age does not matter: Retain saw none of it
		require.NoError(t, retaining(t, s, func() {
			time.Sleep(window - time.Second)
			synctest.Wait()
			require.True(t, readable(t, s, old))
			time.Sleep(2 * every)
			synctest.Wait()
			require.False(t, readable(t, s, old))
		}))
	})
}

// counting counts the calls of Retain and fails some of them.
type counting struct {
	storage.Backend
	compactions []storage.Revision
	fails       atomic.Bool
}

func (c *counting) Compact(ctx context.Context, at storage.Revision) error {
	c.compactions = append(c.compactions, at)
	if c.fails.Load() {
		return errors.New("no connection")
	}
	return c.Backend.Compact(ctx, at)
}

func TestRetainOfAnIdleStoreDoesNextToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Backend: memory.New()}
		s := storage.New(c)
		rev := put(t, s)
		require.NoError(t, retaining(t, s, func() { time.Sleep(24 * time.Hour) }))
		require.LessOrEqual(t, len(c.compactions), int(24*time.Hour/window))
		for _, at := range c.compactions {
			require.Equal(t, rev, at)
		}
	})
}

func TestRetainTriesAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Backend: memory.New()}
		c.fails.Store(true)
		var observed int
		s := storage.New(c, storage.WithMonitor(func(o storage.Call) {
			if o.Op == "compact" && o.Err != nil {
				observed++
			}
		}))
		old := put(t, s)
		put(t, s)
		require.NoError(t, retaining(t, s, func() {
			time.Sleep(window + 10*every)
			synctest.Wait()
			require.True(t, readable(t, s, old))
			require.Positive(t, observed)
			c.fails.Store(false)
			time.Sleep(every)
			synctest.Wait()
			require.False(t, readable(t, s, old))
		}))
	})
}

func TestRetainEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storage.New(memory.New())
		ended := make(chan error)
		go func() { ended <- s.Retain(t.Context(), window, every) }()
		time.Sleep(time.Minute)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, storage.ErrClosed)
	})
}

func TestRetainRefusesDurationsThatAreNotAboveZero(t *testing.T) {
	s := storage.New(&fake{t: t})
	for _, d := range [][2]time.Duration{{0, 1}, {1, 0}, {-1, 1}, {1, -1}} {
		require.ErrorIs(t, s.Retain(t.Context(), d[0], d[1]), storage.ErrInvalid, fmt.Sprint(d))
	}
}
