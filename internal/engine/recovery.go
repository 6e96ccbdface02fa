package engine

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// recoverEvery is how often objects are read again that could not be read for now.
const recoverEvery = 5 * time.Second

// recoverFailures is how many objects in a row may fail until the others wait for the next time. The
// service may be away, and then all of them fail.
const recoverFailures = 10

// recover reads objects again whose key of encryption could not be had when they were read, until ctx
// ends. An object that can be read is put as it is, with a new version: so the view has it, and watchers
// are told. A server that starts while a key management service is away serves what it protects soon
// after the service is back.
func (e *Engine) recover(ctx context.Context) {
	last := ""
	for pause.For(ctx, recoverEvery) == nil {
		last = e.recoverAfter(ctx, last)
	}
}

// recoverAfter tries objects in the order of their keys, those after a key first, and returns the key of
// the last one that it tried. So an object that the service will never give a key for keeps none of the
// others waiting for ever.
func (e *Engine) recoverAfter(ctx context.Context, last string) string {
	var waiting []watch.Unreadable
	for u := range e.Unreadable() {
		if errors.Is(u.Err, storage.ErrUnavailable) {
			waiting = append(waiting, u)
		}
	}
	slices.SortFunc(waiting, func(a, b watch.Unreadable) int { return strings.Compare(a.Key, b.Key) })
	begin := sort.Search(len(waiting), func(i int) bool { return waiting[i].Key > last })
	failures := 0
	for _, u := range slices.Concat(waiting[begin:], waiting[:begin]) {
		last = u.Key
		if err := e.recoverOne(ctx, u.Key, u.Revision); !errors.Is(err, storage.ErrUnavailable) {
			failures = 0
			continue
		}
		if failures++; failures == recoverFailures {
			break
		}
	}
	return last
}

// recoverOne puts an object as it is, if it can be read. Others may have been faster. If it cannot, the
// reason may be another one now: the service is back, and has no key for this object.
func (e *Engine) recoverOne(ctx context.Context, key string, rev storage.Revision) error {
	r, err := e.cfg.Store.Get(ctx, key)
	if errors.Is(err, storage.ErrUnreadable) && r.Revision == rev {
		e.dispatcher.Reassess(key, rev, r.Err)
	}
	if err != nil || r.Revision != rev {
		return err
	}
	_, err = e.cfg.Store.Commit(ctx, []storage.Op{storage.Put(key, r.Value, storage.Expect(rev))})
	return err
}
