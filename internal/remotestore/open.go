package remotestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// Backend is a store in another process. Make it with [Open].
type Backend struct {
	network, address, name string
	limits                 storage.Limits
	done                   chan struct{} // closed by Close

	mu     sync.Mutex
	idle   []*conn
	closed bool
	target storage.Revision // what watches are to reach
	news   chan struct{}    // closed when target moves
}

var _ storage.Backend = (*Backend)(nil)

// Open returns the store with a name that the server at an address offers. The name must not be
// empty.
func Open(ctx context.Context, network, address, name string) (*Backend, error) {
	if name == "" {
		return nil, errors.New("remotestore: the store needs a name")
	}
	b := &Backend{network: network, address: address, name: name, done: make(chan struct{}), news: make(chan struct{})}
	a, err := b.call(ctx, &request{Op: opLimits})
	if err != nil {
		return nil, err
	}
	b.limits = a.Limits
	return b, nil
}

// dial returns a connection to the store.
func (b *Backend) dial(ctx context.Context) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(context.WithoutCancel(ctx), b.network, b.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	c := newConn(nc)
	if err := c.out.Encode(hello{b.name}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", storage.ErrUnavailable, err), c.Close())
	}
	return c, nil
}

// call performs a call on a connection of its own. It does not notice the end of ctx on its way:
// the answer is at hand soon.
func (b *Backend) call(ctx context.Context, r *request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return answer{}, storage.ErrClosed
	}
	var c *conn
	if n := len(b.idle); n > 0 {
		c, b.idle = b.idle[n-1], b.idle[:n-1]
	}
	b.mu.Unlock()
	if c == nil {
		var err error
		if c, err = b.dial(ctx); err != nil {
			return answer{}, err
		}
	}
	a, err := c.call(r)
	if err != nil {
		_ = c.Close() // it is broken
		if r.Op == opCommit {
			return answer{}, fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, err)
		}
		return answer{}, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	b.release(c)
	return a, a.Err.err()
}

func (b *Backend) release(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = c.Close() // nobody uses it any more
		return
	}
	b.idle = append(b.idle, c)
}

// reach lets watches read up to a revision.
func (b *Backend) reach(rev storage.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rev > b.target {
		b.target = rev
		close(b.news)
		b.news = make(chan struct{})
	}
}

// stir makes every watch ask.
func (b *Backend) stir() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
}

// Get is [storage.Backend].Get.
func (b *Backend) Get(ctx context.Context, key string) (storage.Record, error) {
	a, err := b.call(ctx, &request{Op: opGet, Key: key})
	return a.Record, err
}

// List is [storage.Backend].List.
func (b *Backend) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	a, err := b.call(ctx, &request{Op: opList, List: r})
	return a.Page, err
}

// Commit is [storage.Backend].Commit.
func (b *Backend) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	a, err := b.call(ctx, &request{Op: opCommit, Ops: ops})
	if err == nil {
		b.reach(a.Revision)
	}
	return a.Revision, err
}

// History is [storage.Backend].History.
func (b *Backend) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	a, err := b.call(ctx, &request{Op: opHistory, History: r})
	return a.History, err
}

// Revision is [storage.Backend].Revision.
func (b *Backend) Revision(ctx context.Context) (storage.Revision, error) {
	a, err := b.call(ctx, &request{Op: opRevision})
	return a.Revision, err
}

// Sync is [storage.Backend].Sync.
func (b *Backend) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	a, err := b.call(ctx, &request{Op: opSync, Key: prefix})
	if err == nil {
		b.reach(a.Revision)
	}
	return a.Revision, err
}

// Compact is [storage.Backend].Compact.
func (b *Backend) Compact(ctx context.Context, at storage.Revision) error {
	_, err := b.call(ctx, &request{Op: opCompact, At: at})
	if err == nil {
		b.stir() // a watch that has not reached what is gone must say so
	}
	return err
}

// Limits is [storage.Backend].Limits.
func (b *Backend) Limits() storage.Limits { return b.limits }

// Close gives the connections back. The store stays as it is.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	close(b.done)
	var problems []error
	for _, c := range b.idle {
		problems = append(problems, c.Close())
	}
	b.idle = nil
	return errors.Join(problems...)
}

// Watch is [storage.Backend].Watch.
func (b *Backend) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		if err := b.follow(ctx, prefix, after, func(batch storage.Batch) bool { return yield(batch, nil) }); err != nil {
			yield(storage.Batch{}, err)
		}
	}
}

// follow gives the batches of a watch to yield. It returns nil when yield returns false.
func (b *Backend) follow(ctx context.Context, prefix string, after storage.Revision, yield func(storage.Batch) bool) error {
	now, err := b.Revision(ctx)
	if err != nil {
		return err
	}
	if after > now {
		return storage.ErrFutureRevision
	}
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the watch is over
	if err := c.out.Encode(&request{Op: opWatch, Key: prefix, At: after}); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	told := after
	for {
		target, err := b.await(ctx, told, now)
		if err != nil {
			return err
		}
		a, err := c.call(&request{Op: opAdvance, At: target})
		if err != nil {
			return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		}
		for _, batch := range a.Batches {
			if err := ctx.Err(); err != nil {
				return err
			}
			told = batch.Revision
			if !yield(batch) {
				return nil
			}
		}
		if err := a.Err.err(); err != nil {
			return err
		}
	}
}

// await blocks until there is something above a revision to read, and returns up to where. least is
// what was there when the watch began.
func (b *Backend) await(ctx context.Context, told, least storage.Revision) (storage.Revision, error) {
	b.mu.Lock()
	target, news, closed := max(b.target, least), b.news, b.closed
	b.mu.Unlock()
	if closed {
		return 0, storage.ErrClosed
	}
	if target > told {
		return target, ctx.Err()
	}
	select {
	case <-news:
	case <-b.done:
		return 0, storage.ErrClosed
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return told, nil
}
