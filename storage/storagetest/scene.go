package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/leak"
	"github.com/kindwright/kindwright/storage"
)

// testCase is one behaviour, named by a sentence.
type testCase struct {
	name string
	run  func(s *scene)
}

// defaultTimeout is far longer than any case takes on a slow disk.
const defaultTimeout = 2 * time.Minute

// try runs the case on a new backend and checks what it leaves behind.
func (c testCase) try(t testing.TB, h Harness) {
	before := leak.Running()
	timeout := h.timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	s := &scene{TB: t, harness: h, timeout: timeout, ctx: ctx, cancel: cancel}
	defer func() {
		s.leave()
		if !t.Failed() {
			before.Check(t)
		}
	}()
	s.Backend = h.Open(t)
	c.run(s)
	s.stopFollowers()
	if !s.closed {
		checkWithin(t, s.Backend, timeout)
	}
}

// scene is the world of a case: a backend, and short helpers that make a case read as a story. Its
// methods fail the test if something goes wrong. Only methods whose comments say so may be used in
// other goroutines.
type scene struct {
	testing.TB
	storage.Backend
	harness   Harness
	timeout   time.Duration
	ctx       context.Context // ends when the case takes longer than timeout
	cancel    context.CancelFunc
	followers []*follower
	running   sync.WaitGroup // goroutines of the case; they end with ctx or with the backend
	closed    bool           // the case closed the backend itself
}

// leave releases the resources of the scene, after success and after failure.
func (s *scene) leave() {
	s.cancel()
	s.stopFollowers()
	if s.Backend != nil {
		if err := s.Close(); err != nil {
			s.Errorf("closing the backend: %v", err)
		}
	}
	s.running.Wait()
}

func (s *scene) stopFollowers() {
	for len(s.followers) > 0 {
		f := s.followers[0]
		s.followers = s.followers[1:]
		f.stop()
	}
}

// reopen closes the backend and opens its data again.
func (s *scene) reopen() {
	s.stopFollowers()
	s.Backend = s.harness.Reopen(s.TB, s.Backend)
}

// commit makes a commit that must succeed.
func (s *scene) commit(ops ...storage.Op) storage.Revision {
	s.Helper()
	rev, err := s.Commit(s.ctx, ops)
	require.NoError(s, err, "commit of %v", describe(ops))
	return rev
}

func (s *scene) put(key, value string) storage.Revision {
	s.Helper()
	return s.commit(storage.Put(key, []byte(value), storage.Any))
}

func (s *scene) delete(key string) storage.Revision {
	s.Helper()
	return s.commit(storage.Delete(key, storage.Any))
}

// conflict makes a commit that must be rejected, for the given reason.
func (s *scene) conflict(want storage.ConflictError, ops ...storage.Op) {
	s.Helper()
	_, err := s.Commit(s.ctx, ops)
	var conflict *storage.ConflictError
	require.ErrorAs(s, err, &conflict, "commit of %v", describe(ops))
	require.Equal(s, want, *conflict, "commit of %v", describe(ops))
}

func (s *scene) current() storage.Revision {
	s.Helper()
	rev, err := s.Sync(s.ctx, "")
	require.NoError(s, err)
	require.NotZero(s, rev, "the current revision")
	return rev
}

// holds requires that a key has a value and returns its revision.
func (s *scene) holds(key, value string) storage.Revision {
	s.Helper()
	r, err := s.Get(s.ctx, key)
	require.NoError(s, err, "get %q", key)
	require.Equal(s, key, r.Key)
	require.Equal(s, value, string(r.Value), "value of %q", key)
	return r.Revision
}

func (s *scene) absent(key string) {
	s.Helper()
	_, err := s.Get(s.ctx, key)
	require.ErrorIs(s, err, storage.ErrNotFound, "get %q", key)
}

// wholeList lists everything below a prefix at a revision (0 is now), in pages, and checks what
// holds for every list.
func (s *scene) wholeList(prefix string, at storage.Revision, limit int) []storage.Record {
	s.Helper()
	records, _, err := listAll(s.ctx, s.Backend, prefix, at, limit)
	require.NoError(s, err)
	return records
}

// listAll joins the pages of a list and returns the listed revision.
func listAll(ctx context.Context, b storage.Backend, prefix string, at storage.Revision, limit int) ([]storage.Record, storage.Revision, error) {
	var all []storage.Record
	r := storage.ListRequest{Prefix: prefix, At: at, Limit: limit}
	for {
		p, err := b.List(ctx, r)
		if err != nil {
			return nil, 0, fmt.Errorf("list %q after %q at %d: %w", prefix, r.After, r.At, err)
		}
		if err := checkPage(r, p); err != nil {
			return nil, 0, fmt.Errorf("list %q after %q at %d limit %d: %w", prefix, r.After, r.At, limit, err)
		}
		all = append(all, p.Records...)
		if !p.More {
			return all, p.Revision, nil
		}
		r.After, r.At = p.Records[len(p.Records)-1].Key, p.Revision
	}
}

// checkPage checks what holds for every page.
func checkPage(r storage.ListRequest, p storage.Page) error {
	switch {
	case p.Revision == 0 || p.Revision < r.At:
		return fmt.Errorf("the page says it is at revision %d", p.Revision)
	case len(p.Records) > r.Limit:
		return fmt.Errorf("the page has %d records", len(p.Records))
	case p.More && len(p.Records) == 0:
		return errors.New("the page is empty and promises more")
	}
	last := r.After
	for i, rec := range p.Records {
		switch {
		case !r.Includes(rec.Key):
			return fmt.Errorf("key %q does not belong to it", rec.Key)
		case i > 0 && rec.Key <= last:
			return fmt.Errorf("key %q comes after %q", rec.Key, last)
		case rec.Revision == 0 || rec.Revision > p.Revision:
			return fmt.Errorf("key %q has revision %d in a list at %d", rec.Key, rec.Revision, p.Revision)
		}
		last = rec.Key
	}
	return nil
}

// collect reads a watch from after until it has reached to, and returns its batches without
// progress, with the previous records that the history of the same commits has.
func (s *scene) collect(prefix string, after, to storage.Revision) []storage.Batch {
	s.Helper()
	batches, err := collect(s.ctx, s.Backend, prefix, after, to)
	require.NoError(s, err)
	return batches
}

func collect(ctx context.Context, b storage.Backend, prefix string, after, to storage.Revision) ([]storage.Batch, error) {
	watched, err := collectWatch(ctx, b, prefix, after, to)
	if err != nil {
		return watched, err
	}
	past, err := collectHistory(ctx, b, prefix, after, to)
	if err != nil {
		return nil, err
	}
	if err := sameBatches(watched, withoutPrevious(past)); err != nil {
		return nil, fmt.Errorf("history of %q after %d until %d against a watch: %w", prefix, after, to, err)
	}
	return past, nil
}

func collectWatch(ctx context.Context, b storage.Backend, prefix string, after, to storage.Revision) ([]storage.Batch, error) {
	if after >= to {
		return nil, nil
	}
	if _, err := b.Sync(ctx, prefix); err != nil { // watches must reach its answer
		return nil, err
	}
	var batches []storage.Batch
	order := watchOrder{prefix: prefix, told: after}
	for batch, err := range b.Watch(ctx, prefix, after) {
		if err != nil {
			return batches, fmt.Errorf("watch %q after %d, having reached %d on the way to %d: %w", prefix, after, order.told, to, err)
		}
		if err := order.accept(batch); err != nil {
			return batches, err
		}
		if !batch.Progress && batch.Revision <= to {
			batches = append(batches, batch)
		}
		if order.told >= to {
			return withoutPrevious(batches), nil
		}
	}
	return batches, fmt.Errorf("watch %q after %d ended without an error", prefix, after)
}

// historyLimit makes pages small enough for most histories to have several.
const historyLimit = 20

// collectHistory reads the same as collectWatch from History, with previous records.
func collectHistory(ctx context.Context, b storage.Backend, prefix string, after, to storage.Revision) ([]storage.Batch, error) {
	if after >= to {
		return nil, nil
	}
	var batches []storage.Batch
	order := watchOrder{prefix: prefix, told: after}
	for r := (storage.HistoryRequest{Prefix: prefix, After: after, Until: to, Limit: historyLimit, Prev: true}); ; {
		p, err := b.History(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("history %+v: %w", r, err)
		}
		for _, batch := range p.Batches {
			if err := order.acceptPast(batch); err != nil {
				return nil, err
			}
		}
		if p.Revision < order.told || p.More != (p.Revision < to) || p.More && p.Revision == r.After {
			return nil, fmt.Errorf("history %+v reached %d, its last batch is %d, more: %v", r, p.Revision, order.told, p.More)
		}
		batches = append(batches, p.Batches...)
		if r.After = p.Revision; !p.More {
			return batches, nil
		}
	}
}

// withoutPrevious returns the batches as a watch has them, which may or may not have previous records.
func withoutPrevious(batches []storage.Batch) []storage.Batch {
	var plain []storage.Batch
	for _, b := range batches {
		b.Changes = changesWithoutPrevious(b.Changes)
		plain = append(plain, b)
	}
	return plain
}

func changesWithoutPrevious(changes []storage.Change) []storage.Change {
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].Prev = nil
	}
	return changes
}

// change requires that a watch has a single change between after and until.
func (s *scene) change(prefix string, after, to storage.Revision) storage.Change {
	s.Helper()
	batches := s.collect(prefix, after, to)
	require.Len(s, batches, 1, "batches of the watch of %q after %d", prefix, after)
	require.Len(s, batches[0].Changes, 1, "changes in the batch of %d", batches[0].Revision)
	return batches[0].Changes[0]
}

// watchFails requires that a watch yields only an error.
func (s *scene) watchFails(prefix string, after storage.Revision, want error) {
	s.Helper()
	pairs := 0
	for batch, err := range s.Watch(s.ctx, prefix, after) {
		pairs++
		require.ErrorIs(s, err, want, "watch %q after %d gave %+v", prefix, after, batch)
	}
	require.Equal(s, 1, pairs, "pairs of a failing watch")
}

// listFails requires an error from a list.
func (s *scene) listFails(prefix string, at storage.Revision, want error) {
	s.Helper()
	_, err := s.List(s.ctx, storage.ListRequest{Prefix: prefix, At: at, Limit: 10})
	require.ErrorIs(s, err, want, "list %q at %d", prefix, at)
}

// watchOrder is what the reader of a watch knows and may therefore expect.
type watchOrder struct {
	prefix string
	told   storage.Revision
}

// accept takes the next batch, or returns the promise that the batch breaks.
func (o *watchOrder) accept(b storage.Batch) error {
	told := o.told
	o.told = b.Revision
	if b.Progress {
		if b.Revision < told || len(b.Changes) > 0 {
			return fmt.Errorf("watch %q: progress %d with %d changes after revision %d", o.prefix, b.Revision, len(b.Changes), told)
		}
		return nil
	}
	if b.Revision <= told {
		return fmt.Errorf("watch %q: revision %d after revision %d", o.prefix, b.Revision, told)
	}
	if len(b.Changes) == 0 {
		return fmt.Errorf("watch %q: revision %d without changes", o.prefix, b.Revision)
	}
	seen := map[string]bool{}
	for i, c := range b.Changes {
		if err := o.acceptChange(told, b.Revision, c); err != nil {
			return err
		}
		if seen[c.Key] {
			return fmt.Errorf("watch %q: key %q twice in revision %d", o.prefix, c.Key, b.Revision)
		}
		seen[c.Key] = true
		if before := b.Changes[max(0, i-1)]; i > 0 && (c.Revision < before.Revision || c.Revision == before.Revision && c.Key < before.Key) {
			return fmt.Errorf("watch %q: in the batch of %d, key %q at %d comes after %q at %d", o.prefix, b.Revision, c.Key, c.Revision, before.Key, before.Revision)
		}
	}
	return nil
}

// acceptPast takes the next batch of a history, which has previous records.
func (o *watchOrder) acceptPast(b storage.Batch) error {
	if b.Progress {
		return fmt.Errorf("history %q has progress at %d", o.prefix, b.Revision)
	}
	for _, c := range b.Changes {
		if c.Deleted && c.Prev == nil {
			return fmt.Errorf("history %q: deletion of %q at %d has no previous record", o.prefix, c.Key, b.Revision)
		}
	}
	return o.accept(b)
}

func (o *watchOrder) acceptChange(told, last storage.Revision, c storage.Change) error {
	switch {
	case !(storage.ListRequest{Prefix: o.prefix}).Includes(c.Key):
		return fmt.Errorf("watch %q got key %q", o.prefix, c.Key)
	case c.Revision <= told || c.Revision > last:
		return fmt.Errorf("watch %q: key %q has revision %d in the batch of %d after %d", o.prefix, c.Key, c.Revision, last, told)
	case c.Deleted && len(c.Value) > 0:
		return fmt.Errorf("watch %q: deletion of %q at %d has a value", o.prefix, c.Key, c.Revision)
	case c.Prev != nil && (c.Prev.Key != c.Key || c.Prev.Revision == 0 || c.Prev.Revision >= c.Revision):
		return fmt.Errorf("watch %q: key %q at %d has previous record %q of revision %d", o.prefix, c.Key, c.Revision, c.Prev.Key, c.Prev.Revision)
	}
	return nil
}

// describe returns a commit as one line.
func describe(ops []storage.Op) string {
	var text []string
	for _, op := range ops {
		text = append(text, fmt.Sprintf("%v %q (%d bytes) expecting %v", op.Type, op.Key, len(op.Value), op.Expect))
	}
	return fmt.Sprint(text)
}
