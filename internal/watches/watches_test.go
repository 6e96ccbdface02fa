package watches

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// list is a store of commits with one change each. Its first revision is 1.
type list struct {
	mu      sync.RWMutex
	current storage.Revision
	commits []storage.Batch
	done    chan struct{}
	watches *Set
}

func newList() *list {
	l := &list{current: 1, done: make(chan struct{})}
	l.watches = New(&l.mu, &l.current, l, l.done)
	return l
}

func (l *list) Bounds() (storage.Revision, error) {
	select {
	case <-l.done:
		return 0, storage.ErrClosed
	default:
		return 1, nil
	}
}

func (l *list) Read(w *Watch) (caughtUp bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if _, err := l.Bounds(); err != nil {
		return false, err
	}
	return w.Take(l.commits[w.Reached-1:], 100), nil
}

func (l *list) put(key string) storage.Revision {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches.Wake(1, func(int) string { return key })
	l.current++
	l.commits = append(l.commits, storage.Batch{Revision: l.current, Changes: []storage.Change{{Key: key, Revision: l.current}}})
	return l.current
}

// sync asks for progress as a store's Sync does.
func (l *list) sync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches.Ask("") {
		l.watches.WakeLate("")
	}
}

func (l *list) close() {
	l.mu.Lock()
	close(l.done)
	l.watches.Close()
	l.mu.Unlock()
	l.watches.Wait()
}

func (l *list) missed(prefix string, after storage.Revision) (storage.Change, bool) {
	for _, b := range l.commits[after-1:] {
		if c := b.Changes[0]; strings.HasPrefix(c.Key, prefix) {
			return c, true
		}
	}
	return storage.Change{}, false
}

// timed reports whether the timer runs.
func (l *list) timed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watches.timer != nil
}

// asleep reports whether a watch is parked.
func (l *list) asleep(w *Watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.parked
}

// The tests read and park by hand, to hit one particular moment.
func subscribed(t *testing.T, l *list, prefix string) *Watch {
	w, err := l.watches.subscribe(t.Context(), prefix, l.current)
	require.NoError(t, err)
	return w
}

func TestACommitBetweenReadingAndParkingIsNotMissed(t *testing.T) {
	l := newList()
	defer l.close()
	w := subscribed(t, l, "/r/")
	_, err := l.Read(w)
	require.NoError(t, err)
	rev := l.put("/r/a")
	require.False(t, w.park(), "it must read again")
	_, err = l.Read(w)
	require.NoError(t, err)
	require.Len(t, w.Ready, 1)
	require.Equal(t, rev, w.Ready[0].Revision)
}

func TestAWatchThatParksBehindIsToldWhenSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList()
		defer l.close()
		w := subscribed(t, l, "/r/none/")
		rev := l.put("/r/foreign") // while it is not parked
		_, err := l.Read(w)
		require.NoError(t, err)
		require.True(t, w.park(), "nobody has asked: no need to tell")
		l.sync()
		require.False(t, l.asleep(w), "woken")
		require.NoError(t, w.next(t.Context()))
		require.Equal(t, []storage.Batch{{Revision: rev, Progress: true}}, w.Ready)
		require.False(t, l.watches.Ask(""), "further questions cost nothing")
	})
}

func TestTheTimerRunsWhileSomebodyIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList()
		w := subscribed(t, l, "/r/none/")
		require.True(t, w.park())
		require.False(t, l.timed(), "an idle store has no timer")
		l.put("/r/foreign")
		require.True(t, l.timed())
		time.Sleep(ProgressEvery)
		synctest.Wait()
		require.False(t, l.timed())
		require.False(t, l.asleep(w), "woken")

		require.NoError(t, w.next(t.Context()))
		w.told = w.Reached // as when the batch was yielded
		require.True(t, w.park())
		l.put("/r/foreign")
		l.close() // and waits for the timer
		require.ErrorIs(t, w.next(t.Context()), storage.ErrClosed)
	})
}

func TestAllAreWoken(t *testing.T) {
	l := newList()
	defer l.close()
	a, b := subscribed(t, l, "/a/"), subscribed(t, l, "/b/c/")
	require.True(t, a.park())
	require.True(t, b.park())
	require.Equal(t, 2, l.watches.Parked())
	l.watches.WakeAll()
	require.Zero(t, l.watches.Parked())
	a.release()
	require.Equal(t, 1, l.watches.Len())
	b.release()
	require.Zero(t, l.watches.Len())
}

func TestCheckNoticesDamage(t *testing.T) {
	for name, damage := range map[string]func(l *list, w *Watch){
		"a watch that missed something": func(_ *list, w *Watch) { w.Reached-- },
		"a watch in the wrong place":    func(_ *list, w *Watch) { w.Prefix = "/other/" },
		"parked watches miscounted":     func(l *list, _ *Watch) { l.watches.parked++ },
	} {
		t.Run(name, func(t *testing.T) {
			l := newList()
			defer l.close()
			l.put("/r/a")
			w := subscribed(t, l, "/r/")
			require.True(t, w.park())
			require.NoError(t, l.watches.Check(l.missed))
			damage(l, w)
			require.Error(t, l.watches.Check(l.missed))
		})
	}
}
