package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// truth is a store that records its commits. The record survives the server. The store behind it is
// replaced when that is opened again.
type truth struct {
	storage.Backend
	history *watchtest.History

	// settling is held for reading during a commit or a compaction, until it is recorded.
	settling  sync.RWMutex
	compacted atomic.Uint64
	problem   func(error)
}

// settle returns when every commit so far is recorded.
func (b *truth) settle() {
	b.settling.Lock()
	defer b.settling.Unlock()
}

// Commit commits, and records the changes of boats.
func (b *truth) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	b.settling.RLock()
	defer b.settling.RUnlock()
	// If a caller gave up on a commit, its outcome would be unknown to this record too.
	revision, err := b.Backend.Commit(context.WithoutCancel(ctx), ops)
	if err != nil {
		if errors.Is(err, storage.ErrUnknownOutcome) {
			b.problem(fmt.Errorf("nobody knows what happened: %w", err))
		}
		return revision, err
	}
	for _, op := range ops {
		if name, _, _, ok := storage.SplitObjectKey(op.Key); !ok || name != storageName || op.Type == storage.OpCheck {
			continue
		}
		commit := watchtest.Commit{Revision: revision, Key: op.Key}
		switch {
		case op.Type == storage.OpPut:
			if commit.Next, err = entryOf(op.Key, op.Value, revision); err != nil {
				b.problem(err)
			}
		case op.Expect == storage.Any:
			b.problem(fmt.Errorf("a deletion of %s that may be none", op.Key))
		}
		b.history.Add(commit)
	}
	return revision, nil
}

// Compact compacts, and records the revision.
func (b *truth) Compact(ctx context.Context, at storage.Revision) error {
	b.settling.RLock()
	defer b.settling.RUnlock()
	// A caller that gives up, as a server that stops does, would leave the outcome unknown here.
	err := b.Backend.Compact(context.WithoutCancel(ctx), at)
	for old := b.compacted.Load(); err == nil && old < uint64(at) && !b.compacted.CompareAndSwap(old, uint64(at)); {
		old = b.compacted.Load()
	}
	return err
}

// Unwrap gives access to the store's optional interfaces.
func (b *truth) Unwrap() storage.Backend { return b.Backend }

// gone returns the compacted revision.
func (b *truth) gone() storage.Revision { return storage.Revision(b.compacted.Load()) }

// current returns the store's revision.
func (b *truth) current() storage.Revision {
	revision, err := b.Revision(context.Background())
	if err != nil && !errors.Is(err, storage.ErrClosed) {
		b.problem(err)
	}
	return revision
}

// recordHeader is the prefix of the JSON in a stored value.
const recordHeader = 9

// entryOf decodes a stored boat, without any code of the server.
func entryOf(key string, value []byte, revision storage.Revision) (*watch.Entry, error) {
	var stored struct {
		Metadata struct {
			Namespace, Name, UID string
			Labels               map[string]string
		}
		Spec struct{ Owner string }
	}
	if len(value) < recordHeader {
		return nil, fmt.Errorf("the record of %s is too short", key)
	}
	object := value[recordHeader:]
	if err := json.Unmarshal(object, &stored); err != nil {
		return nil, fmt.Errorf("the record of %s: %w", key, err)
	}
	cut := bytes.Index(object, []byte(`"uid":"`+stored.Metadata.UID+`"`))
	if cut < 0 {
		return nil, fmt.Errorf("the record of %s has no uid: %s", key, object)
	}
	return watch.NewEntry(key, revision, watch.Body{Prefix: object[:cut], Suffix: object[cut:]}, watch.Facts{
		Namespace: stored.Metadata.Namespace, Name: stored.Metadata.Name,
		Labels: meta.NewLabelSet(stored.Metadata.Labels), Fields: []string{stored.Spec.Owner},
	}), nil
}
