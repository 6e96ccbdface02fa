package bbolt

import (
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
}

// WithNow takes the time from now instead of time.Now: the times of batches and
// the revision at which a new store begins. It must be safe for concurrent use.
func WithNow(now func() time.Time) Option {
	return func(o *options) { o.now = now }
}

// WithRecentBytes sets how many bytes of the newest changes, counted with their
// previous records, are kept in memory for watches; older ones are read from the
// file. The default, also for n <= 0, is 4 MiB.
func WithRecentBytes(n int) Option {
	return func(o *options) {
		if n > 0 {
			o.recentBytes = n
		}
	}
}

// WithLimits declares other limits than values of 4 MiB and 128 operations in a
// commit. A field that is not above 0 keeps its default. No value can have more
// than 1 GiB and no commit more than 4096 operations; larger limits are lowered.
func WithLimits(l storage.Limits) Option {
	return func(o *options) {
		if l.MaxValueBytes > 0 {
			o.limits.MaxValueBytes = min(l.MaxValueBytes, 1<<30)
		}
		if l.MaxOps > 0 {
			o.limits.MaxOps = min(l.MaxOps, 4096)
		}
	}
}

func newOptions(opts []Option) options {
	o := options{
		now:         time.Now,
		recentBytes: 4 << 20,
		limits:      storage.Limits{MaxValueBytes: 4 << 20, MaxOps: 128},
		disk:        func(d disk) disk { return d },
		mapBytes:    mapBytes,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}
