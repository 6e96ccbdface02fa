package copy

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// sink writes into a target, many records at once.
type sink struct {
	to       storage.Backend
	importer storage.Importer // nil: records get new revisions
	limits   storage.Limits

	put     []storage.Record
	gone    []string
	bytes   int
	highest storage.Revision // of the records that were put
}

func newSink(to storage.Backend) *sink {
	s := &sink{to: to, limits: to.Limits()}
	s.importer, _ = to.(storage.Importer) // not of a backend behind a wrapper, which would be bypassed
	return s
}

// write puts a record. A key must not occur twice between two flushes.
func (s *sink) write(ctx context.Context, r storage.Record) error {
	size := len(r.Key) + len(r.Value)
	if s.bytes+size > s.limits.MaxCommitBytes {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.put = append(s.put, r)
	s.bytes += size
	s.highest = max(s.highest, r.Revision)
	return s.flushFull(ctx)
}

// delete removes a key, if it is there.
func (s *sink) delete(ctx context.Context, key string) error {
	s.gone = append(s.gone, key)
	return s.flushFull(ctx)
}

func (s *sink) flushFull(ctx context.Context) error {
	if len(s.put)+len(s.gone) < s.limits.MaxOps {
		return nil
	}
	return s.flush(ctx)
}

// flush writes what has been collected. All of it may be repeated.
func (s *sink) flush(ctx context.Context) error {
	if len(s.put)+len(s.gone) == 0 {
		return nil
	}
	write := s.commit
	if s.importer != nil {
		write = func(ctx context.Context) error {
			return s.importer.Import(ctx, storage.Import{Put: s.put, Delete: s.gone})
		}
	}
	if err := again(ctx, write); err != nil {
		return err
	}
	s.drop()
	return nil
}

// drop forgets what has not been written, as after an attempt that failed. The backend may keep the
// records, so their slice is not used again.
func (s *sink) drop() { s.put, s.gone, s.bytes = nil, nil, 0 }

// commit writes by ordinary commits. Deletions that may find nothing are alone in theirs.
func (s *sink) commit(ctx context.Context) error {
	if len(s.put) > 0 {
		ops := make([]storage.Op, len(s.put))
		for i, r := range s.put {
			ops[i] = storage.Put(r.Key, r.Value, storage.Any)
		}
		if _, err := s.to.Commit(ctx, ops); err != nil {
			return err
		}
	}
	for _, key := range s.gone {
		if _, err := s.to.Commit(ctx, []storage.Op{storage.Delete(key, storage.Any)}); err != nil {
			return err
		}
	}
	return nil
}

const (
	attempts   = 20
	retryPause = 500 * time.Millisecond
)

// again repeats what a store could not do for now.
func again(ctx context.Context, do func(context.Context) error) error {
	for n := 1; ; n++ {
		err := do(ctx)
		passing := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrUnknownOutcome)
		if !passing || n == attempts || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const (
	pageRecords = 500
	pageChanges = 1000
)

// records yields all records of a store in the order of keys: at a revision, or as they are when a
// page is read.
func records(ctx context.Context, b storage.Backend, at storage.Revision) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		r := storage.ListRequest{At: at, Limit: pageRecords}
		for more := true; more; {
			var page storage.Page
			err := again(ctx, func(ctx context.Context) (err error) {
				page, err = b.List(ctx, r)
				return err
			})
			if err != nil {
				yield(storage.Record{}, err)
				return
			}
			for _, rec := range page.Records {
				if !yield(rec, nil) {
					return
				}
				r.After = rec.Key
			}
			more = page.More
		}
	}
}
