package batch

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Options tunes a Queue.
type Options struct {
	Buffer   int           // records that wait at most. Default 10,000
	MaxSize  int           // records in a batch. Default 400
	MaxWait  time.Duration // how long a batch waits for more records; 0: not at all
	MaxBytes int           // bytes in a batch, unless one record has more; 0: any number
	MaxHeld  int           // bytes of the records that wait or are delivered, unless one has more. Default 128 MiB
	Parallel int           // batches that are delivered at the same time. Default 1, which keeps their order

	Throttle bool    // delivers at most QPS batches a second, after the first Burst
	QPS      float64 // default 10
	Burst    int     // default 15
}

// The defaults.
const (
	DefaultBuffer  = 10_000
	DefaultMaxSize = 400
	DefaultQPS     = 10
	DefaultBurst   = 15
	DefaultMaxHeld = 128 << 20
)

// closeTimeout is how long Close waits for the delivery of what is left.
const closeTimeout = 10 * time.Second

// Queue holds records until they are delivered.
type Queue struct {
	options Options
	deliver func(ctx context.Context, records [][]byte)
	lose    func(n int)

	records chan []byte
	held    atomic.Int64 // bytes of the records that were added and are not delivered yet
	next    []byte       // a record that was too much for the last batch
	bucket  time.Time

	places     chan struct{} // has a value for each batch that is collected or delivered
	deliveries sync.WaitGroup

	stop chan struct{}
	done sync.WaitGroup

	mu     sync.RWMutex // held while a record is added, so that none is added after Close
	closed bool
}

// New starts a queue. deliver gets the batches, up to Parallel at a time; it must return soon after ctx
// has ended. lose is told how many records had no room. Close ends the goroutines of the queue.
func New(o Options, deliver func(ctx context.Context, records [][]byte), lose func(n int)) *Queue {
	if o.Buffer <= 0 {
		o.Buffer = DefaultBuffer
	}
	if o.MaxSize <= 0 {
		o.MaxSize = DefaultMaxSize
	}
	if o.QPS <= 0 {
		o.QPS = DefaultQPS
	}
	if o.Burst <= 0 {
		o.Burst = DefaultBurst
	}
	if o.MaxHeld <= 0 {
		o.MaxHeld = DefaultMaxHeld
	}
	q := &Queue{
		options: o, deliver: deliver, lose: lose, records: make(chan []byte, o.Buffer), stop: make(chan struct{}),
		places: make(chan struct{}, max(o.Parallel, 1)),
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.done.Go(func() {
		defer cancel()
		for q.run(ctx) {
		}
		q.deliveries.Wait()
	})
	q.done.Go(func() {
		<-q.stop
		late := time.NewTimer(closeTimeout)
		defer late.Stop()
		select {
		case <-ctx.Done():
		case <-late.C:
			cancel()
		}
	})
	return q
}

// Add adds a copy of a record. It never waits.
func (q *Queue) Add(record []byte) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if !q.closed && q.hold(int64(len(record))) {
		select {
		case q.records <- bytes.Clone(record):
			return
		default:
			q.held.Add(-int64(len(record)))
		}
	}
	q.lose(1)
}

// hold reports whether there is room for so many bytes, and takes it.
func (q *Queue) hold(n int64) bool {
	held := q.held.Add(n)
	if held > int64(q.options.MaxHeld) && held > n {
		q.held.Add(-n)
		return false
	}
	return true
}

// Close delivers what is left and returns when that is done, or soon after ten seconds. Later
// records are lost.
func (q *Queue) Close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.stop)
	}
	q.mu.Unlock()
	q.done.Wait()
}

// run begins the delivery of one batch. It returns false when the queue is closed and empty. A batch is
// collected only when there is a place for it, so that records wait in the buffer and are counted there.
func (q *Queue) run(ctx context.Context) bool {
	q.places <- struct{}{}
	batch := q.collect()
	if len(batch) == 0 {
		<-q.places
		return false
	}
	q.throttle()
	q.deliveries.Go(func() {
		q.deliver(ctx, batch)
		for _, r := range batch {
			q.held.Add(-int64(len(r)))
		}
		<-q.places
	})
	return true
}

// collect returns the next batch, empty if the queue is closed and empty.
func (q *Queue) collect() [][]byte {
	first := q.next
	q.next = nil
	if first == nil {
		select {
		case first = <-q.records:
		case <-q.stop:
			select {
			case first = <-q.records:
			default:
				return nil
			}
		}
	}
	batch, size := [][]byte{first}, len(first)
	full := time.NewTimer(q.options.MaxWait)
	defer full.Stop()
	for len(batch) < q.options.MaxSize {
		r := q.another(full.C)
		if r == nil {
			break
		}
		if q.options.MaxBytes > 0 && size+len(r) > q.options.MaxBytes {
			q.next = r
			break
		}
		batch, size = append(batch, r), size+len(r)
	}
	return batch
}

// another returns the next record of a batch, or nil if the batch should not wait for it.
func (q *Queue) another(full <-chan time.Time) []byte {
	select {
	case r := <-q.records:
		return r
	default:
	}
	select {
	case r := <-q.records:
		return r
	case <-full:
	case <-q.stop:
	}
	return nil
}

// throttle waits until a batch may be delivered, or until the queue is closed.
func (q *Queue) throttle() {
	if !q.options.Throttle {
		return
	}
	each := time.Duration(float64(time.Second) / q.options.QPS)
	now := time.Now()
	if earliest := now.Add(-each * time.Duration(q.options.Burst-1)); q.bucket.Before(earliest) {
		q.bucket = earliest
	}
	wait := time.NewTimer(q.bucket.Sub(now))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-q.stop:
	}
	q.bucket = q.bucket.Add(each)
}
