package engine

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/storage"
)

// ErrOvertaken reports that the precondition of the operation of Along did not hold. Nothing was
// written.
var ErrOvertaken = errors.New("another process was faster")

type alongKey struct{}

// Along returns a context for one write. The operation, on a key outside /r/, is committed together
// with what the write stores. Processes that share a store use it to decide in turn: each replaces the
// record that it has read before it decided.
func Along(ctx context.Context, op storage.Op) context.Context {
	return context.WithValue(ctx, alongKey{}, op)
}

// alongside returns the operations of a commit, and the key of the operation of Along.
func alongside(ctx context.Context, ops []storage.Op) (all []storage.Op, key string) {
	if op, ok := ctx.Value(alongKey{}).(storage.Op); ok {
		return append(ops, op), op.Key
	}
	return ops, ""
}

// Expected returns the precondition that a record outside /r/ has not changed since now.
func (e *Engine) Expected(ctx context.Context, key string) (storage.Expect, error) {
	record, err := e.cfg.Store.Get(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return storage.Absent, nil
	case err != nil:
		return storage.Absent, err
	}
	return storage.Expect(record.Revision), nil
}
