package engine

import (
	"context"
	"errors"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/storage"
)

// recoverEvery is how often objects are read again that could not be read for now.
const recoverEvery = 5 * time.Second

// recover reads objects again whose key of encryption could not be had when they were read, until ctx
// ends. An object that can be read is put as it is, with a new version: so the view has it, and watchers
// are told. A server that starts while a key management service is away serves what it protects soon
// after the service is back.
func (e *Engine) recover(ctx context.Context) {
	for pause.For(ctx, recoverEvery) == nil {
		for u := range e.Unreadable() {
			if !errors.Is(u.Err, storage.ErrUnavailable) {
				continue
			}
			if err := e.recoverOne(ctx, u.Key, u.Revision); errors.Is(err, storage.ErrUnavailable) {
				break // the next ones would fail, too
			}
		}
	}
}

// recoverOne puts an object as it is, if it can be read. Others may have been faster.
func (e *Engine) recoverOne(ctx context.Context, key string, rev storage.Revision) error {
	r, err := e.cfg.Store.Get(ctx, key)
	if err != nil || r.Revision != rev {
		return err
	}
	_, err = e.cfg.Store.Commit(ctx, []storage.Op{storage.Put(key, r.Value, storage.Expect(rev))})
	return err
}
