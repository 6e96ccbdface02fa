package conformance

import (
	"context"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage"
)

// lag is a store that delays changes: while it is held, watches yield nothing, but reads work. A
// server over it is like one of several processes on a shared store that is behind without knowing
// it.
type lag struct {
	storage.Backend

	mu   sync.Mutex
	open chan struct{} // closed unless changes are held
}

func newLag(b storage.Backend) *lag {
	l := &lag{Backend: b, open: make(chan struct{})}
	close(l.open)
	return l
}

func (l *lag) Unwrap() storage.Backend { return l.Backend }

func (l *lag) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *lag) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

func (l *lag) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range l.Backend.Watch(ctx, prefix, after) {
			l.mu.Lock()
			open := l.open
			l.mu.Unlock()
			select {
			case <-open:
			case <-ctx.Done():
				yield(storage.Batch{}, ctx.Err())
				return
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// lagTime is how long a server stays behind in tests that wait for it.
const lagTime = time.Second

// onPair runs a test on two servers over one store. behind does not receive changes while lag is
// held.
func onPair(t *testing.T, test func(t *testing.T, ahead, behind *server, l *lag), opts ...kindwright.Option) {
	t.Helper()
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		shared := open()
		ahead := start(t, func() storage.Backend { return shared }, opts...) // stops last and closes the store
		l := newLag(lasting{shared})
		behind := start(t, func() storage.Backend { return l }, opts...)
		test(t, ahead, behind, l)
	})
}

// during runs a request while a store is held, releases the store after lagTime, and returns how
// long the answer took.
func (l *lag) during(ask func()) time.Duration {
	timer := time.AfterFunc(lagTime, l.release)
	begin := time.Now()
	ask()
	waited := time.Since(begin)
	if timer.Stop() {
		l.release()
	}
	time.Sleep(lagTime) // let all servers catch up
	return waited
}

// counting counts the calls to a store.
type counting struct {
	storage.Backend
	gets, lists, revisions atomic.Int64
}

func (c *counting) Unwrap() storage.Backend { return c.Backend }

func (c *counting) Get(ctx context.Context, key string) (storage.Record, error) {
	c.gets.Add(1)
	return c.Backend.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	c.lists.Add(1)
	return c.Backend.List(ctx, r)
}

func (c *counting) Revision(ctx context.Context) (storage.Revision, error) {
	c.revisions.Add(1)
	return c.Backend.Revision(ctx)
}

func (c *counting) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	c.revisions.Add(1)
	return c.Backend.Sync(ctx, prefix)
}

// asked returns the number of calls to the store.
func (c *counting) asked() int64 { return c.gets.Load() + c.lists.Load() + c.revisions.Load() }

// number turns a version into a number, which only tests and servers may do.
func number(t *testing.T, version string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(version, 10, 64)
	require.NoError(t, err, "a version is a decimal number")
	return n
}

// future returns a version that no server has issued yet.
func future(t *testing.T, version string) string {
	t.Helper()
	return text(number(t, version) + 1_000_000_000)
}

// text returns the version with a number.
func text(n uint64) string { return strconv.FormatUint(n, 10) }
