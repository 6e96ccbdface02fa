package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// unsure is a backend that stores and does not know it.
type unsure struct {
	*memory.DB
	on  atomic.Bool
	why error // wrapped in the answer, if not nil
}

func (b *unsure) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	rev, err := b.DB.Commit(ctx, ops)
	if b.on.Load() && err == nil {
		if b.why != nil {
			return 0, fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, b.why)
		}
		return 0, storage.ErrUnknownOutcome
	}
	return rev, err
}

func TestRule6_AnUnknownOutcomeDoesNotInviteARetry(t *testing.T) {
	b := &unsure{DB: memory.New()}
	e := start(t, b, nil, widgets())
	b.on.Store(true)
	_, err := e.Create(t.Context(), inA, body("x", 1, ""), registry.WriteOptions{})
	require.Equal(t, meta.ReasonTimeout, reason(t, err))
	require.Zero(t, status.From(err).RetryAfterSeconds(), "clients repeat a request whose answer has a Retry-After")
	require.ErrorContains(t, err, "read the object before trying again")
	require.NotNil(t, get(t, e, named("x")))
}

// A client that leaves in the middle of a write, or a server that stops, is nothing for an operator
// to worry about; a store that does not answer is.
func TestAWriteOfARequestThatEndedIsNoError(t *testing.T) {
	for why, want := range map[error]string{
		context.Canceled:         "level=INFO msg=\"a request ended while its write was being stored\"",
		context.DeadlineExceeded: "level=ERROR msg=\"it is unknown whether a write was stored\"",
	} {
		t.Run(why.Error(), func(t *testing.T) {
			var log bytes.Buffer
			b := &unsure{DB: memory.New(), why: why}
			e := start(t, b, func(c *engine.Config) { c.Logger = logr.FromSlogHandler(slog.NewTextHandler(&log, nil)) }, widgets())
			b.on.Store(true)
			_, err := e.Create(t.Context(), inA, body("x", 1, ""), registry.WriteOptions{})
			require.Equal(t, meta.ReasonTimeout, reason(t, err))
			require.Contains(t, log.String(), want)
			require.NotContains(t, log.String(), `\n`, "one line")
		})
	}
}

// refusing is a backend that carries out some commits and refuses the others.
type refusing struct {
	*memory.DB
	answer  func(n int64) (done bool, err error) // nil: it carries out all
	commits atomic.Int64
}

func (b *refusing) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if b.answer == nil {
		return b.DB.Commit(ctx, ops)
	}
	done, err := b.answer(b.commits.Add(1))
	if !done {
		return 0, err
	}
	rev, why := b.DB.Commit(ctx, ops)
	return rev, errors.Join(why, err)
}

// A client that repeats a deletion of many deletes what was created since.
func TestRule6_ACollectionOfWhichSomeAreDeletedDoesNotInviteARetry(t *testing.T) {
	refused := errors.New("the disk does not answer")
	for name, c := range map[string]struct {
		objects int
		answer  func(n int64) (bool, error)
		retry   bool
	}{
		"nothing is deleted": {3, func(int64) (bool, error) { return false, refused }, true},
		"some are deleted":   {3, func(n int64) (bool, error) { return n < 2, when(n >= 2, refused) }, false},
		"at once, some with no answer": {150, func(n int64) (bool, error) {
			if n%2 == 1 {
				return true, storage.ErrUnknownOutcome
			}
			return false, refused
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &refusing{DB: memory.New()}
			e := start(t, b, nil, widgets())
			for i := range c.objects {
				_, err := e.Create(t.Context(), inA, body(fmt.Sprint("x", i), 1, ""), registry.WriteOptions{})
				require.NoError(t, err)
			}
			b.answer = c.answer
			_, err := e.DeleteCollection(t.Context(), inA, registry.ListRequest{}, registry.DeleteOptions{})
			require.Error(t, err)
			require.Equal(t, c.retry, status.From(err).RetryAfterSeconds() > 0, "%v", err)
			if !c.retry {
				require.Equal(t, meta.ReasonTimeout, reason(t, err), "clients of Kubernetes repeat a ServerTimeout")
			}
		})
	}
}

func when(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

// slowView is a backend whose watches deliver nothing while it is closed.
type slowView struct {
	*memory.DB
	gate      atomic.Pointer[chan struct{}]
	committed chan struct{}
}

func (b *slowView) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	rev, err := b.DB.Commit(ctx, ops)
	if b.gate.Load() != nil {
		close(b.committed)
	}
	return rev, err
}

func (b *slowView) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range b.DB.Watch(ctx, prefix, after) {
			if gate := b.gate.Load(); gate != nil {
				select {
				case <-*gate:
				case <-ctx.Done():
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// What is stored is a success, whatever ends before a watch has shown it: clients repeat a write that
// was answered as failed.
func TestAWriteThatIsStoredIsASuccessWhateverEnds(t *testing.T) {
	for what, end := range map[string]func(e *engine.Engine, request, server context.CancelFunc){
		"the request": func(_ *engine.Engine, request, _ context.CancelFunc) { request() },
		"the kind":    func(e *engine.Engine, _, _ context.CancelFunc) { e.RemoveVersions(widgetResource) },
		"the server":  func(_ *engine.Engine, _, server context.CancelFunc) { server() },
	} {
		t.Run(what, func(t *testing.T) {
			b := &slowView{DB: memory.New(), committed: make(chan struct{})}
			e, err := engine.New(engine.Config{Store: storage.New(b)})
			require.NoError(t, err)
			server, stop := context.WithCancel(t.Context())
			require.NoError(t, e.Start(server))
			t.Cleanup(func() { stop(); e.Wait() })
			described, err := widgets().Resource()
			require.NoError(t, err)
			require.NoError(t, e.Install(server, described))
			gate := make(chan struct{})
			b.gate.Store(&gate)
			t.Cleanup(func() { close(gate) })
			request, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			var result *registry.Result
			go func() {
				var err error
				result, err = e.Create(request, inA, body("x", 1, ""), registry.WriteOptions{})
				done <- err
			}()
			<-b.committed
			end(e, cancel, stop)
			require.NoError(t, <-done)
			require.True(t, result.Created)
			require.Equal(t, "x", at(tree(t, result), "metadata", "name"))
		})
	}
}

func TestTextsThatBecomeKeysAreCheckedAtTheDoor(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	for field, more := range map[string]string{
		"metadata.ownerReferences[0].uid":  `,"ownerReferences":[{"apiVersion":"v1","kind":"Foo","name":"n","uid":"a\u0000/x"}]`,
		"metadata.ownerReferences[0].name": `,"ownerReferences":[{"apiVersion":"v1","kind":"Foo","name":"n\u0001","uid":"a"}]`,
	} {
		_, err := e.Create(t.Context(), inA, body("x", 1, more), registry.WriteOptions{})
		require.Equal(t, meta.ReasonInvalid, reason(t, err), field)
		require.ErrorContains(t, err, field)
	}
}
