package bbolt

import (
	"errors"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// Option adjusts a [DB]. A nil Option is ignored.
type Option func(*options)

type options struct {
	now         func() time.Time
	recentBytes int
	limits      storage.Limits
	disk        func(disk) disk // for tests: put something between DB and bbolt
	mapBytes    int
	reserve     int64
	readOnly    bool
	wrong       error // what no store can be opened with
}

// WithNow replaces time.Now with now, for the times of batches and for the revision at which a new
// store starts. It must be safe for concurrent use. nil stands for time.Now.
func WithNow(now func() time.Time) Option {
	return func(o *options) {
		if now != nil {
			o.now = now
		}
	}
}

// WithRecentBytes sets how many bytes of the newest changes, with their previous records, stay in
// memory for watches. Older ones are read from the file. The default, also for n <= 0, is 4 MiB.
func WithRecentBytes(n int) Option {
	return func(o *options) {
		if n > 0 {
			o.recentBytes = n
		}
	}
}

// WithLimits sets other limits than the default of 4 MiB per value and 128 operations per commit. A
// field that is 0 keeps its default, and one below 0 is an error of [Open]. Limits above 1 GiB per value or 4096 operations per
// commit are lowered to these.
func WithLimits(l storage.Limits) Option {
	return func(o *options) {
		for name, n := range map[string]int{"MaxValueBytes": l.MaxValueBytes, "MaxCommitBytes": l.MaxCommitBytes, "MaxOps": l.MaxOps} {
			if n < 0 {
				o.wrong = errors.Join(o.wrong, fmt.Errorf("%w: WithLimits: Limits.%s is %d: it must not be negative", storage.ErrInvalid, name, n))
			}
		}
		if l.MaxValueBytes > 0 {
			o.limits.MaxValueBytes = min(l.MaxValueBytes, 1<<30)
		}
		if l.MaxCommitBytes > 0 {
			o.limits.MaxCommitBytes = min(l.MaxCommitBytes, 1<<30)
		}
		if l.MaxOps > 0 {
			o.limits.MaxOps = min(l.MaxOps, 4096)
		}
	}
}

// WithReserve sets how many bytes of the disk the file holds back for deletions, and for the
// compaction that follows them, when the disk is full. The default, also for n <= 0, is 1 MiB, enough
// for about 4,000 deletions before the first of them are compacted. Less than 256 KiB count as that.
func WithReserve(n int64) Option {
	return func(o *options) {
		if n > 0 {
			o.reserve = max(n, 1<<18)
		}
	}
}

// WithReadOnly opens a file that exists, and changes nothing in it: not its format, nor its rights, nor
// what it notes of sessions. Commits end with ErrClosed. It is for copies of a store, and for files that
// may not be written to.
func WithReadOnly() Option {
	return func(o *options) { o.readOnly = true }
}

func newOptions(opts []Option) options {
	o := options{
		now:         time.Now,
		recentBytes: 4 << 20,
		limits:      storage.Limits{MaxValueBytes: 4 << 20, MaxOps: 128, MaxCommitBytes: 64 << 20},
		disk:        func(d disk) disk { return d },
		mapBytes:    mapBytes,
		reserve:     reserveBytes,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}
