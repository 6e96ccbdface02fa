package bbolt

import (
	"bytes"
	"fmt"
	"io"

	"github.com/kindwright/kindwright/internal/ordered"
)

// contents is the verified content of a file: every page, every record's checksum, the chain of
// each key's records, and the totals of the state.
type contents struct {
	format uint32
	state  state
	index  index

	// byKey finds entries while the log is read in revision order. It is faster than the ordered
	// index.
	byKey   map[string]*entry
	adding  adding
	counted state // the totals of the log
	reached position
	whole   extent // of the commit of the record read last
}

// readContents reads a whole file. It changes nothing.
func readContents(im *image) (*contents, error) {
	c := &contents{index: newIndex()}
	begin := func(s state) error {
		c.state = s
		// A map that grows takes twice as long. Most files hold few old records, and the totals may
		// be damaged: a place for each KiB of the file takes 3 % of its size.
		c.byKey = make(map[string]*entry, min(s.records, uint64(im.size)>>10))
		return nil
	}
	c.adding.begin(c.index.keys)
	err := im.walkStore(begin, c.replay)
	c.adding.end()
	if err != nil {
		return nil, err
	}
	c.format = im.format
	return c, c.compare()
}

// walkStore reads the buckets of a store: first its state, then each record of its log in order.
// The record's slices are valid only during the call.
func (im *image) walkStore(begin func(state) error, visit func(record) error) error {
	buckets := map[string][]byte{}
	err := im.walk(im.root, nil, nil, maxDepth, func(key, value []byte, flags uint32) error {
		if flags != bucketElement || len(buckets) == 2 {
			return fmt.Errorf("%w: it has a bucket that a store has not", ErrForeign)
		}
		buckets[string(key)] = clone(value)
		return nil
	})
	if err != nil {
		return err
	}
	if buckets[metaBucket] == nil {
		return fmt.Errorf("%w: it has no bucket %q", ErrForeign, metaBucket)
	}
	s, err := im.readState(buckets[metaBucket])
	if err != nil {
		return err
	}
	if buckets[logBucket] == nil {
		return damaged("it has no bucket %q", logBucket)
	}
	if err := begin(s); err != nil {
		return err
	}
	return im.walkBucket(buckets[logBucket], func(key, value []byte, flags uint32) error {
		if flags != 0 {
			return damaged("the log holds a bucket")
		}
		r, err := parseRecord(key, value)
		if err != nil {
			return err
		}
		return visit(r)
	})
}

func (im *image) readState(bucket []byte) (state, error) {
	values := map[string][]byte{}
	err := im.walkBucket(bucket, func(key, value []byte, flags uint32) error {
		if flags != 0 || len(values) == 16 {
			return damaged("bucket %q holds something else", metaBucket)
		}
		values[string(key)] = clone(value)
		return nil
	})
	if err != nil {
		return state{}, err
	}
	// Check the format first: in a newer one, the rest may mean anything.
	if im.format, err = parseFormat(values[formatKey]); err != nil {
		return state{}, err
	}
	if len(values) != 2 {
		return state{}, damaged("bucket %q has %d keys", metaBucket, len(values))
	}
	return parseState(values[stateKey])
}

// replay adds the next record of the log.
func (c *contents) replay(r record) error {
	c.counted.add(r.pos, r.checksum)
	c.reached = r.pos
	if err := c.replayExtent(r.pos, r.extent); err != nil {
		return err
	}
	v := version{r.pos, r.deleted}
	e := c.byKey[string(r.key)]
	if e == nil {
		// The previous record was compacted. Above the compacted revision none is missing.
		if r.prev.rev != 0 && r.pos.rev > c.state.compacted || r.prev.rev == 0 && r.deleted {
			return damaged("record %v follows record %v, which is missing", r.pos, r.prev)
		}
		e = &entry{key: string(r.key), newest: v}
		c.byKey[e.key] = e
		c.index.count(e)
		c.adding.add(e)
		return nil
	}
	want := e.newest.position
	if e.newest.deleted {
		want = position{}
	}
	if r.prev != want || r.deleted && want.rev == 0 || r.pos.rev == e.newest.rev {
		return damaged("record %v follows record %v, but names %v", r.pos, e.newest.position, r.prev)
	}
	c.index.replace(e, v)
	return nil
}

// replayExtent requires that the commit of a record does not overlap with the one before.
func (c *contents) replayExtent(pos position, e extent) error {
	if e == c.whole {
		return nil
	}
	if e.first == 0 || e.first > e.last || e.first <= c.whole.last || e.first <= c.state.compacted && e.last > c.state.compacted {
		return damaged("record %v is of a commit from %d to %d, after one from %d to %d", pos, e.first, e.last, c.whole.first, c.whole.last)
	}
	c.whole = e
	if e.last > c.state.compacted {
		c.index.noteExtent(e)
	}
	return nil
}

// compare checks the log against the totals of the state.
func (c *contents) compare() error {
	c.byKey = nil
	if c.whole.last > c.state.last {
		return damaged("the log reaches revision %d, the newest is %d", c.whole.last, c.state.last)
	}
	return c.state.matches(c.counted)
}

// adding puts entries into the ordered keys of an index, which takes as long as reading their
// records: its own goroutine does it meanwhile. Between begin and end nobody else uses the keys.
type adding struct {
	batch   []*entry
	batches chan []*entry
	done    chan struct{}
}

const batchEntries = 256

func (a *adding) begin(keys *ordered.Set[*entry]) {
	a.batches, a.done = make(chan []*entry, 16), make(chan struct{})
	go func() {
		defer close(a.done)
		for batch := range a.batches {
			for _, e := range batch {
				keys.Add(e)
			}
		}
	}()
}

func (a *adding) add(e *entry) {
	if a.batch == nil {
		a.batch = make([]*entry, 0, batchEntries)
	}
	if a.batch = append(a.batch, e); len(a.batch) == batchEntries {
		a.batches <- a.batch
		a.batch = nil
	}
}

func (a *adding) end() {
	a.batches <- a.batch
	close(a.batches)
	<-a.done
}

// hasFormat reports whether the format record of a store is anywhere in a file.
func hasFormat(file io.ReaderAt, size int64) bool {
	const window = 1 << 20
	var records [][]byte
	for n := uint32(oldestFormat); n <= format; n++ {
		records = append(records, formatRecord(n))
	}
	buf := make([]byte, window+len(records[0]))
	for at := int64(0); at < size; at += window {
		n, err := file.ReadAt(buf, at) // at the end of the file it is shorter
		for _, record := range records {
			if bytes.Contains(buf[:n], record) {
				return true
			}
		}
		if n == 0 && err != nil {
			return false
		}
	}
	return false
}
