package bbolt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/internal/linear"
	"github.com/kindwright/kindwright/storage"
)

// A call of a client and its answer.
type call struct {
	client        int
	key           string
	put           string // the value written, different each time; "" reads
	expect        storage.Expect
	begun, ended  int64
	revision      storage.Revision // read, committed or, after a conflict, found
	value         string           // read
	conflict      bool
	unknown, gone bool // unknown: the outcome is open; gone: refused for good
}

// calls records the clients' calls to a store, across openings.
type calls struct {
	start time.Time
	mu    sync.Mutex
	all   []call
}

func (l *calls) make(db *DB, c call) call {
	c.begun = time.Since(l.start).Nanoseconds()
	var err error
	if c.put == "" {
		var r storage.Record
		r, err = db.Get(context.Background(), c.key)
		c.revision, c.value = r.Revision, string(r.Value)
		if errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
	} else {
		c.revision, err = db.Commit(context.Background(), []storage.Op{storage.Put(c.key, []byte(c.put), c.expect)})
	}
	c.ended = time.Since(l.start).Nanoseconds()
	var conflict *storage.ConflictError
	switch {
	case errors.As(err, &conflict):
		c.conflict, c.revision = true, conflict.Actual
	case errors.Is(err, storage.ErrUnknownOutcome):
		c.unknown = true
	case err != nil:
		c.gone = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, c)
	return c
}

// clients read and write a few keys until each has made its calls or is refused.
func (l *calls) clients(db *DB, session, each int) {
	var running sync.WaitGroup
	for client := range 6 {
		random := rand.New(rand.NewPCG(uint64(session), uint64(client)))
		running.Go(func() {
			var known storage.Revision
			for i := range each {
				c := call{client: client, key: widget(random.IntN(3)), expect: storage.Any}
				if random.IntN(3) > 0 {
					c.put = fmt.Sprintf("%d/%d/%d", session, client, i)
				}
				if random.IntN(2) == 0 {
					c.expect = storage.Expect(known)
				}
				known = l.make(db, c).revision
			}
		})
	}
	running.Wait()
}

// settle decides the calls with an unknown outcome from the history in the final file. A call that
// is in it happened at its revision, at any time since it started. A call that is not in it never
// happened and leaves the record.
func (l *calls) settle(t testing.TB, history []storage.Batch) []linear.Operation[call] {
	t.Helper()
	happened := map[string]storage.Revision{}
	for _, b := range history {
		happened[string(b.Changes[0].Value)] = b.Revision
	}
	end := time.Since(l.start).Nanoseconds()
	var ops []linear.Operation[call]
	for _, c := range l.all {
		rev, did := happened[c.put]
		switch {
		case c.gone || c.conflict:
			require.False(t, did, "%+v was refused and is there", c)
		case c.unknown && did:
			c.revision, c.ended = rev, end
		case c.put != "" && !c.unknown:
			require.Equal(t, c.revision, rev, "%+v was acknowledged", c)
		}
		if !c.gone && (!c.unknown || did) {
			ops = append(ops, linear.Operation[call]{Call: c, Begin: c.begun, End: c.ended})
		}
	}
	return ops
}

// register is one key in the model.
type register struct {
	revision storage.Revision
	value    string
}

func (r register) step(c call) (register, bool) {
	switch {
	case c.put == "":
		return r, c.revision == r.revision && c.value == r.value
	case c.conflict:
		return r, !c.expect.Holds(r.revision) && c.revision == r.revision
	}
	return register{c.revision, c.put}, c.expect.Holds(r.revision) && c.revision > r.revision
}

func linearizable(ops []linear.Operation[call]) bool {
	byKey := map[string][]linear.Operation[call]{}
	for _, op := range ops {
		byKey[op.Call.key] = append(byKey[op.Call.key], op)
	}
	step := func(r register, c call) (register, bool) { return r.step(c) }
	for _, part := range byKey {
		if !linear.Check(register{}, part, step) {
			return false
		}
	}
	return true
}

// Rule 3, STORE-04: the disk is slow at random and then fails, and a restart follows. Some order of
// the calls explains every answer.
func TestSTORE_04_LinearizableOnBadDisk(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("failing commits on disk: %t", written), func(t *testing.T) {
			db, s := openSeam(t)
			l := &calls{start: time.Now()}
			begin := db.Statistics().Revision
			for session := range 5 {
				random := rand.New(rand.NewPCG(9, uint64(session)))
				var left atomic.Int64
				left.Store(20 + random.Int64N(20))
				s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
					time.Sleep(time.Duration(random.IntN(400)) * time.Microsecond) // the latency of the disk
					switch {
					case left.Add(-1) >= 0:
						return really(tx)
					case written:
						return errors.Join(really(tx), errDisk)
					}
					return errDisk
				})
				l.clients(db, session, 60)
				require.Error(t, db.Healthy(), "the disk has failed in this session")
				require.NoError(t, db.Close())
				s.heal()
				db = open(t, db.path, s.option())
			}
			l.clients(db, 99, 20)
			history := tell(t, db).batches
			require.Equal(t, begin, db.Statistics().Compacted)
			require.NoError(t, db.Close())
			require.True(t, slices.ContainsFunc(l.all, func(c call) bool { return c.unknown }))
			ops := l.settle(t, history)
			require.True(t, linearizable(ops), "%+v", ops)

			// The model detects errors: a read of a value that was never written fits nowhere.
			c := call{key: widget(0), revision: begin + 1, value: "never", begun: 0, ended: 1 << 62}
			require.False(t, linearizable(append(ops, linear.Operation[call]{Call: c, End: c.ended})))
		})
	}
}
