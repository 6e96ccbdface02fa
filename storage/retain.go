package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Retain keeps the store's history for a window and compacts what is older. At each interval it
// records the time and the current revision, and compacts at the newest revision recorded at least
// a window ago. If the backend is [Dated], Retain also knows the time of commits from before it
// started, and begins with what is due. With other backends it does not compact in the first window
// after it started. What was current within the window remains valid over a restart. A clock that jumps
// while Retain runs changes nothing: of commits from then on, only Retain's own records count.
//
// Retain blocks until ctx ends, then returns nil. It returns an error if a duration is not above 0
// (ErrInvalid) or the store is closed (ErrClosed). It retries after other failures, which an
// Monitor sees. Several processes, or several tenants of one backend, may run it at once; the
// shortest window applies. Source: STORE-05.
func (s *Store) Retain(ctx context.Context, window, every time.Duration) error {
	if window <= 0 || every <= 0 {
		return wrap("compact", "", 0, fmt.Errorf("%w: retain window %v every %v, both must be above 0", ErrInvalid, window, every))
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var seen retained
	for {
		if err := s.retainOnce(ctx, &seen, window); errors.Is(err, ErrClosed) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// retainOnce is one round: it records the current revision and compacts.
func (s *Store) retainOnce(ctx context.Context, seen *retained, window time.Duration) error {
	rev, err := s.Revision(ctx)
	if err != nil {
		return err
	}
	now := time.Now() // after the revision, so that nothing at or below it is younger
	if seen.begin == 0 {
		seen.begin = rev
	}
	seen.add(sample{at: now, revision: rev})
	due, n := seen.due(now.Add(-window))
	if d, ok := As[Dated](s.backend); ok {
		at, err := d.RevisionAt(ctx, now.Add(-window))
		if err != nil {
			return err
		}
		due = max(due, min(at, seen.begin))
	}
	if due > seen.compacted {
		if err := s.Compact(ctx, due); err != nil {
			return err
		}
		seen.compacted = due
	}
	seen.drop(n)
	return nil
}

// sample records the store's revision at a time.
type sample struct {
	at       time.Time
	revision Revision
}

// retained is what Retain remembers.
type retained struct {
	// samples are in the order of time, one per revision. An idle store adds none, so there are
	// never more than window/every.
	samples   []sample
	begin     Revision // the current one of the first round
	compacted Revision // the newest one that Retain has compacted at
}

func (r *retained) add(s sample) {
	if n := len(r.samples); n > 0 && r.samples[n-1].revision == s.revision {
		return // the older sample of the same revision is due earlier
	}
	r.samples = append(r.samples, s)
}

// due returns the newest revision recorded no later than cutoff, and the number of samples up to
// it.
func (r *retained) due(cutoff time.Time) (Revision, int) {
	n := 0
	var rev Revision
	for n < len(r.samples) && !r.samples[n].at.After(cutoff) {
		rev = r.samples[n].revision
		n++
	}
	return rev, n
}

// drop removes the first n samples.
func (r *retained) drop(n int) { r.samples = append(r.samples[:0], r.samples[n:]...) }
