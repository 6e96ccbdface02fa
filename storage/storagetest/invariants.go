package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// CheckInvariants checks that everything a backend reports fits together. Lists by large and by
// small pages and single gets agree. A watch from the compacted revision, applied to the list
// there, gives the lists at later revisions, and every change has the record it replaced. The
// backend's own [storage.Checker], if it has one, finds no damage.
//
// Nothing may write to or compact b during the call. The backend stays open.
func CheckInvariants(t testing.TB, b storage.Backend) {
	t.Helper()
	checkWithin(t, b, defaultTimeout)
}

func checkWithin(t testing.TB, b storage.Backend, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := checkInvariants(ctx, b); err != nil {
		t.Errorf("an invariant does not hold: %v", err)
	}
	if c, ok := storage.As[storage.Checker](b); ok {
		if err := c.Check(ctx); err != nil {
			t.Errorf("the backend's own check: %v", err)
		}
	}
}

// sampledRevisions is the number of revisions at which the replayed history is compared.
const sampledRevisions = 8

func checkInvariants(ctx context.Context, b storage.Backend) error {
	head, err := b.Revision(ctx)
	if err != nil {
		return err
	}
	newest, err := checkNewest(ctx, b, head)
	if err != nil {
		return err
	}
	horizon, err := compactedRevision(ctx, b, head)
	if err != nil {
		return err
	}
	replayed, err := stateAt(ctx, b, horizon)
	if err != nil {
		return err
	}
	batches, err := collect(ctx, b, "", horizon, head)
	if err != nil {
		return err
	}
	every := len(batches)/sampledRevisions + 1
	for i, batch := range batches {
		if err := replayed.apply(batch); err != nil {
			return err
		}
		if i%every != 0 {
			continue
		}
		listed, err := stateAt(ctx, b, batch.Revision)
		if err != nil {
			return err
		}
		if err := replayed.equal(listed); err != nil {
			return fmt.Errorf("list at %d against the watch from %d: %w", batch.Revision, horizon, err)
		}
	}
	if err := replayed.equal(newest); err != nil {
		return fmt.Errorf("list now (%d) against the watch from %d: %w", head, horizon, err)
	}
	return nil
}

// checkNewest compares the ways to read the current state.
func checkNewest(ctx context.Context, b storage.Backend, head storage.Revision) (state, error) {
	newest, err := stateAt(ctx, b, head)
	if err != nil {
		return nil, err
	}
	small, at, err := listAll(ctx, b, "", 0, 7)
	if err != nil {
		return nil, err
	}
	if at != head {
		return nil, fmt.Errorf("a list now is at %d, the current revision is %d", at, head)
	}
	if err := newest.equal(newState(small)); err != nil {
		return nil, fmt.Errorf("small pages against large ones: %w", err)
	}
	for key, want := range newest {
		got, err := b.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("get %q, which is listed: %w", key, err)
		}
		if err := sameRecord(got, want); err != nil {
			return nil, fmt.Errorf("get against list: %w", err)
		}
	}
	return newest, nil
}

// compactedRevision finds the oldest revision that can be listed, by bisection.
func compactedRevision(ctx context.Context, b storage.Backend, head storage.Revision) (storage.Revision, error) {
	listable := func(at storage.Revision) (bool, error) {
		_, err := b.List(ctx, storage.ListRequest{At: at, Limit: 1})
		if errors.Is(err, storage.ErrCompacted) {
			return false, nil
		}
		return err == nil, err
	}
	if ok, err := listable(head); err != nil || !ok {
		return 0, fmt.Errorf("the current revision %d cannot be listed (%w)", head, cmp.Or(err, storage.ErrCompacted))
	}
	below, oldest := storage.Revision(0), head // 0 means now and is never requested
	for below+1 < oldest {
		middle := below + (oldest-below)/2
		ok, err := listable(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			oldest = middle
		} else {
			below = middle
		}
	}
	return oldest, nil
}

// state holds the records of all keys at one revision.
type state map[string]storage.Record

func newState(records []storage.Record) state {
	s := make(state, len(records))
	for _, r := range records {
		s[r.Key] = r
	}
	return s
}

func stateAt(ctx context.Context, b storage.Backend, at storage.Revision) (state, error) {
	records, _, err := listAll(ctx, b, "", at, 1000)
	return newState(records), err
}

// apply advances the state by one batch and requires that each change fits the record before it.
func (s state) apply(b storage.Batch) error {
	for _, c := range b.Changes {
		was, existed := s[c.Key]
		switch {
		case existed && c.Prev == nil:
			return fmt.Errorf("the change of %q at %d has no previous record, there was one of %d", c.Key, b.Revision, was.Revision)
		case !existed && c.Prev != nil:
			return fmt.Errorf("the change of %q at %d has a previous record of %d, there was none", c.Key, b.Revision, c.Prev.Revision)
		case existed:
			if err := sameRecord(*c.Prev, was); err != nil {
				return fmt.Errorf("previous record at %d: %w", b.Revision, err)
			}
		}
		if c.Deleted {
			delete(s, c.Key)
		} else {
			s[c.Key] = storage.Record{Key: c.Key, Value: c.Value, Revision: c.Revision}
		}
	}
	return nil
}

// equal says how two states differ.
func (s state) equal(other state) error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		o, ok := other[key]
		if !ok {
			return fmt.Errorf("key %q is missing on one side", key)
		}
		if err := sameRecord(s[key], o); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(other)) {
		if _, ok := s[key]; !ok {
			return fmt.Errorf("key %q is on one side only", key)
		}
	}
	return nil
}
