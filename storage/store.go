package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Store wraps a [Backend] for the rest of kindwright. It checks arguments, wraps every error once
// in [*Error] and calls a [Monitor]. It has the
// methods of Backend with the same promises, so it is itself a Backend. It has no state of its own and
// is as concurrent as the backend.
type Store struct {
	backend Backend
	limits  Limits
	monitor Monitor
}

var (
	_ Backend   = (*Store)(nil)
	_ Unwrapper = (*Store)(nil)
)

// Option configures a [Store]. A nil Option is ignored.
type Option func(*Store)

// WithMonitor sets an observer for all calls. By default, and for nil, there is none.
func WithMonitor(o Monitor) Option {
	return func(s *Store) {
		if o != nil {
			s.monitor = o
		}
	}
}

// New returns a Store over b. It reads b's limits once and starts nothing. If b is nil, or a limit is not
// above 0, every call of the Store fails with ErrInvalid and says so; a server over it does not start.
func New(b Backend, opts ...Option) *Store {
	b = usable(b)
	s := &Store{backend: b, limits: b.Limits(), monitor: func(Call) {}}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	return s
}

// Unwrap returns the backend passed to New.
func (s *Store) Unwrap() Backend { return s.backend }

// Limits returns the backend's limits.
func (s *Store) Limits() Limits { return s.limits }

// Get is [Backend].Get. It returns ErrInvalid for a key that breaks the grammar.
func (s *Store) Get(ctx context.Context, key string) (Record, error) {
	start := time.Now()
	var r Record
	err := checkKey(key)
	if err == nil {
		r, err = s.backend.Get(ctx, key)
	}
	err = wrap("get", key, 0, err)
	records := 0
	if err == nil {
		records = 1
	}
	s.monitor(Call{"get", time.Since(start), records, len(r.Value), err})
	return r, err
}

// List is [Backend].List. It returns ErrInvalid unless the prefix is empty or whole segments, After
// is empty or below the prefix, and Limit is above 0.
func (s *Store) List(ctx context.Context, r ListRequest) (Page, error) {
	start := time.Now()
	var p Page
	err := checkList(r)
	if err == nil {
		p, err = s.backend.List(ctx, r)
	}
	err = wrap("list", r.Prefix, r.At, err)
	n := 0
	for i := range p.Records {
		n += len(p.Records[i].Value)
	}
	s.monitor(Call{"list", time.Since(start), len(p.Records), n, err})
	return p, err
}

// Commit is [Backend].Commit. It returns ErrTooLarge if the backend's limits are exceeded. It
// returns ErrInvalid, and writes nothing, if
//
//   - there are no operations;
//   - a key breaks the grammar or occurs twice;
//   - the type or expectation of an operation is invalid;
//   - it deletes a key with Any and changes another key below the same "/r/<storage name>/": the
//     revision of the other depends on whether the first exists.
//
// With a context of [WithFence] the commit has one more condition and can fail with ErrFenced.
func (s *Store) Commit(ctx context.Context, ops []Op) (Revision, error) {
	start := time.Now()
	var rev Revision
	ctx, ops, fence := fenced(ctx, ops)
	key, err := s.checkOps(ops)
	if err == nil {
		rev, err = s.backend.Commit(ctx, ops)
		err = fence.refused(err)
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			key = conflict.Key
		}
	}
	err = wrap("commit", key, 0, err)
	n := 0
	for i := range ops {
		n += len(ops[i].Value)
	}
	s.monitor(Call{"commit", time.Since(start), len(ops), n, err})
	return rev, err
}

// Watch is [Backend].Watch. The only error of its own is ErrInvalid, if the prefix is neither empty
// nor whole segments.
func (s *Store) Watch(ctx context.Context, prefix string, after Revision) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		start := time.Now()
		var records, bytes int
		var end error
		defer func() { s.monitor(Call{"watch", time.Since(start), records, bytes, end}) }()
		if err := checkPrefix(prefix); err != nil {
			end = wrap("watch", prefix, after, err)
			yield(Batch{}, end)
			return
		}
		for batch, err := range s.backend.Watch(ctx, prefix, after) {
			if err != nil {
				end = wrap("watch", prefix, after, err)
				yield(Batch{}, end)
				return
			}
			records += len(batch.Changes)
			for i := range batch.Changes {
				bytes += len(batch.Changes[i].Value)
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// History is [Backend].History. It returns ErrInvalid unless the prefix is empty or whole segments,
// Limit is above 0, and Until is 0 or not below After.
func (s *Store) History(ctx context.Context, r HistoryRequest) (HistoryPage, error) {
	start := time.Now()
	var p HistoryPage
	err := checkHistory(r)
	if err == nil {
		p, err = s.backend.History(ctx, r)
	}
	err = wrap("history", r.Prefix, r.After, err)
	records, n := 0, 0
	for i := range p.Batches {
		records += len(p.Batches[i].Changes)
		for j := range p.Batches[i].Changes {
			n += len(p.Batches[i].Changes[j].Value)
		}
	}
	s.monitor(Call{"history", time.Since(start), records, n, err})
	return p, err
}

// Sync is [Backend].Sync. The only error of its own is ErrInvalid, if the prefix is neither empty
// nor whole segments.
func (s *Store) Sync(ctx context.Context, prefix string) (Revision, error) {
	start := time.Now()
	var rev Revision
	err := checkPrefix(prefix)
	if err == nil {
		rev, err = s.backend.Sync(ctx, prefix)
	}
	err = wrap("sync", prefix, 0, err)
	s.monitor(Call{"sync", time.Since(start), 0, 0, err})
	return rev, err
}

// Revision is [Backend].Revision.
func (s *Store) Revision(ctx context.Context) (Revision, error) {
	start := time.Now()
	rev, err := s.backend.Revision(ctx)
	err = wrap("revision", "", 0, err)
	s.monitor(Call{"revision", time.Since(start), 0, 0, err})
	return rev, err
}

// Compact is [Backend].Compact.
func (s *Store) Compact(ctx context.Context, at Revision) error {
	start := time.Now()
	err := wrap("compact", "", at, s.backend.Compact(ctx, at))
	s.monitor(Call{"compact", time.Since(start), 0, 0, err})
	return err
}

// Close closes the backend.
func (s *Store) Close() error {
	start := time.Now()
	err := wrap("close", "", 0, s.backend.Close())
	s.monitor(Call{"close", time.Since(start), 0, 0, err})
	return err
}

// wrap adds operation, key and revision to a fact. An *Error (of a Store over a Store) stays as it
// is: an error is wrapped exactly once.
func wrap(op, key string, rev Revision, err error) error {
	if err == nil {
		return nil
	}
	var wrapped *Error
	if errors.As(err, &wrapped) {
		return err
	}
	if len(key) > MaxKeyBytes {
		key = "" // rejected for its length: do not repeat it
	}
	return &Error{Op: op, Key: key, Revision: rev, Err: err}
}

func checkList(r ListRequest) error {
	if err := checkPrefix(r.Prefix); err != nil {
		return err
	}
	if r.Limit <= 0 {
		return fmt.Errorf("%w: list limit %d is not above 0", ErrInvalid, r.Limit)
	}
	if r.After == "" {
		return nil
	}
	if !strings.HasPrefix(r.After, r.Prefix) {
		return fmt.Errorf("%w: list start of %d bytes is not below prefix %q", ErrInvalid, len(r.After), r.Prefix)
	}
	return checkBytes("list start", r.After)
}

func checkHistory(r HistoryRequest) error {
	if err := checkPrefix(r.Prefix); err != nil {
		return err
	}
	if r.Limit <= 0 {
		return fmt.Errorf("%w: history limit %d is not above 0", ErrInvalid, r.Limit)
	}
	if r.Until != 0 && r.Until < r.After {
		return fmt.Errorf("%w: history after %d until %d", ErrInvalid, r.After, r.Until)
	}
	return nil
}

// checkOps applies the rules of a commit and returns the key an error is about:
// the offending one, or the first.
func (s *Store) checkOps(ops []Op) (key string, err error) {
	if len(ops) == 0 {
		return "", fmt.Errorf("%w: commit without operations", ErrInvalid)
	}
	if len(ops) > s.limits.MaxOps {
		return ops[0].Key, fmt.Errorf("%w: commit of %d operations, the limit is %d", ErrTooLarge, len(ops), s.limits.MaxOps)
	}
	size := 0
	for i := range ops {
		if err := s.checkOp(&ops[i]); err != nil {
			return ops[i].Key, err
		}
		size += len(ops[i].Key) + len(ops[i].Value)
	}
	if size > s.limits.MaxCommitBytes {
		return ops[0].Key, fmt.Errorf("%w: commit of %d bytes, the limit is %d", ErrTooLarge, size, s.limits.MaxCommitBytes)
	}
	if len(ops) == 1 {
		return ops[0].Key, nil
	}
	if key, err := checkTogether(ops); err != nil {
		return key, err
	}
	return ops[0].Key, nil
}

func (s *Store) checkOp(op *Op) error {
	if err := checkKey(op.Key); err != nil {
		return err
	}
	switch op.Type {
	case OpPut:
		if len(op.Value) > s.limits.MaxValueBytes {
			return fmt.Errorf("%w: value of %d bytes, the limit is %d", ErrTooLarge, len(op.Value), s.limits.MaxValueBytes)
		}
		return nil
	case OpDelete:
		if op.Expect == Absent {
			return fmt.Errorf("%w: delete of a key expected to be absent", ErrInvalid)
		}
	case OpCheck:
		if op.Expect == Any {
			return fmt.Errorf("%w: check that expects nothing", ErrInvalid)
		}
	default:
		return fmt.Errorf("%w: %v is neither put, delete nor check", ErrInvalid, op.Type)
	}
	if len(op.Value) != 0 {
		return fmt.Errorf("%w: %v with a value", ErrInvalid, op.Type)
	}
	return nil
}

// checkTogether looks at the operations as a set: distinct keys, and no delete that may find nothing
// beside another change of its resource. Comparing each with all before it is cheap for the handful
// that commits have, and bounded by the limit for the others.
func checkTogether(ops []Op) (key string, err error) {
	for i := range ops {
		key := ops[i].Key
		for j := range i {
			if key == ops[j].Key {
				return key, fmt.Errorf("%w: key occurs twice in one commit", ErrInvalid)
			}
		}
		if ops[i].Type != OpDelete || ops[i].Expect != Any {
			continue
		}
		if other := neighbour(ops, i); other != "" {
			return key, fmt.Errorf("%w: the commit deletes the key without expecting a revision, and changes %q of the same resource", ErrInvalid, other)
		}
	}
	return "", nil
}

// neighbour returns a key that is changed, too, and belongs to the resource of an operation, or "".
func neighbour(ops []Op, i int) string {
	resource := ResourcePrefixOf(ops[i].Key)
	for j := range ops {
		if resource != "" && j != i && ops[j].Type != OpCheck && strings.HasPrefix(ops[j].Key, resource) {
			return ops[j].Key
		}
	}
	return ""
}
