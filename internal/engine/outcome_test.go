package engine_test

import (
	"bytes"
	"context"
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

func TestAWriteThatIsStoredIsASuccessAlthoughTheRequestEnds(t *testing.T) {
	b := &slowView{DB: memory.New(), committed: make(chan struct{})}
	e := start(t, b, nil, widgets())
	gate := make(chan struct{})
	b.gate.Store(&gate)
	t.Cleanup(func() { close(gate) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	var result *registry.Result
	go func() {
		var err error
		result, err = e.Create(ctx, inA, body("x", 1, ""), registry.WriteOptions{})
		done <- err
	}()
	<-b.committed
	cancel()
	require.NoError(t, <-done)
	require.True(t, result.Created)
	require.Equal(t, "x", at(tree(t, result), "metadata", "name"))
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
