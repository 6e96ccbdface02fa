package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// trialKeys are the keys of a trial: two of one resource, and one of another.
var trialKeys = [...]string{
	storage.ObjectKey("widgets", "team", "a"),
	storage.ObjectKey("widgets", "team", "b"),
	storage.ObjectKey("gadgets", "team", "a"),
}

// trialCell is what a key holds.
type trialCell struct {
	revision storage.Revision // 0: absent
	value    string
}

type trialVerb string

const (
	trialGet      trialVerb = "get"
	trialList     trialVerb = "list"
	trialRevision trialVerb = "revision"
	trialSync     trialVerb = "sync"
	trialCommit   trialVerb = "commit"
)

// trialCall is one call and its answer.
type trialCall struct {
	client, handle int
	verb           trialVerb
	key            int          // of a get
	ops            []storage.Op // of a commit
	value          string       // of all puts of a commit; no other commit has it
	begun, ended   int64

	err      error
	revision storage.Revision // the answer of a list, a commit and a question for the revision
	cells    [len(trialKeys)]trialCell
	conflict *storage.ConflictError
	unknown  bool
}

func (c *trialCall) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9d-%9d client %d on handle %d: %s", c.begun/1000, c.ended/1000, c.client, c.handle, c.verb)
	switch {
	case c.verb == trialGet:
		fmt.Fprintf(&b, " %q: %+v", trialKeys[c.key], c.cells[c.key])
	case c.verb == trialList:
		fmt.Fprintf(&b, ": %+v", c.cells)
	case c.verb == trialCommit:
		fmt.Fprintf(&b, " %s", describe(c.ops))
	}
	fmt.Fprintf(&b, " -> %d", c.revision)
	if c.err != nil {
		fmt.Fprintf(&b, ", %v", c.err)
	}
	return b.String()
}

// trialClient makes calls one after another, on one handle.
type trialClient struct {
	*trial
	number int
	random *rand.Rand
	handle storage.Backend
	known  [len(trialKeys)]storage.Revision // as far as this client has seen
}

// call makes one call and records it.
func (c *trialClient) call(i int) {
	call := c.choose(i)
	ctx, cancel := c.deadline()
	defer cancel()
	call.begun = c.now()
	c.do(ctx, call)
	call.ended = c.now()
	for k, cell := range call.cells {
		if call.verb == trialList || call.verb == trialGet && k == call.key {
			c.known[k] = cell.revision
		}
	}
	var conflict *storage.ConflictError
	switch {
	case errors.As(call.err, &conflict):
		call.conflict = conflict
		if k := slices.Index(trialKeys[:], conflict.Key); k >= 0 {
			c.known[k] = conflict.Actual
		}
	case errors.Is(call.err, storage.ErrUnknownOutcome):
		call.unknown = true
	case call.err != nil && !outOfReach(call.err):
		c.anomaly("an error that no disturbance explains: %v", call)
	case call.err != nil:
		pause()
	case call.verb == trialCommit:
		c.learn(call)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

// learn notes the revisions that a commit gave to keys.
func (c *trialClient) learn(call *trialCall) {
	for i, op := range call.ops {
		k := slices.Index(trialKeys[:], op.Key)
		switch {
		case k < 0 || op.Type == storage.OpCheck:
		case op.Type == storage.OpDelete:
			c.known[k] = 0
		default:
			c.known[k] = storage.RevisionOf(call.ops, i, call.revision)
		}
	}
}

// deadline returns the context of a call. One in ten ends soon.
func (c *trialClient) deadline() (context.Context, context.CancelFunc) {
	if c.random.IntN(10) == 0 {
		return context.WithTimeout(c.ctx, time.Duration(c.random.IntN(2000))*time.Microsecond)
	}
	return context.WithTimeout(c.ctx, time.Minute)
}

// choose returns the next call.
func (c *trialClient) choose(i int) *trialCall {
	call := &trialCall{client: c.number, handle: slices.Index(c.Handles, c.handle), key: c.random.IntN(len(trialKeys))}
	switch n := c.random.IntN(20); {
	case n < 5:
		call.verb = trialGet
	case n < 7:
		call.verb = trialList
	case n < 9:
		call.verb = trialRevision
	case n < 10:
		call.verb = trialSync
	default:
		call.verb, call.value = trialCommit, fmt.Sprintf("%d/%d", c.number, i)
		call.ops = c.chooseOps(call.key, call.value)
	}
	return call
}

// chooseOps returns a commit. Its outcome can be told from the history: it puts a value that nobody else
// puts, or it deletes one record of a known revision.
func (c *trialClient) chooseOps(first int, value string) []storage.Op {
	n := []int{1, 1, 1, 2, 3}[c.random.IntN(5)]
	var ops []storage.Op
	changes, puts := false, false
	for k := first; len(ops) < n; k = (k + 1) % len(trialKeys) {
		op := storage.Put(trialKeys[k], []byte(value), c.chooseExpect(k, n))
		switch c.random.IntN(6) {
		case 0, 1:
			// A delete that may find nothing stands alone.
			if op.Expect != storage.Absent && (op.Expect != storage.Any || n == 1) {
				op = storage.Delete(op.Key, op.Expect)
			}
		case 2:
			if op.Expect != storage.Any {
				op = storage.Check(op.Key, op.Expect)
			}
		}
		changes = changes || op.Type != storage.OpCheck
		puts = puts || op.Type == storage.OpPut
		ops = append(ops, op)
	}
	alone := n == 1 && ops[0].Expect != storage.Any
	if changes && !puts && !alone {
		ops = append(ops, storage.Put(storage.SysKey("trial", fmt.Sprint(c.number)), []byte(value), storage.Any))
	}
	return ops
}

// chooseExpect returns what a commit of n operations expects of a key. One operation alone often expects
// nothing: it is what must not be sent twice.
func (c *trialClient) chooseExpect(key, n int) storage.Expect {
	switch r := c.random.IntN(10); {
	case r < 2, r < 5 && n == 1:
		return storage.Any
	case r == 9:
		return storage.Absent
	}
	return storage.Expect(c.known[key])
}

// do calls the backend.
func (c *trialClient) do(ctx context.Context, call *trialCall) {
	switch call.verb {
	case trialGet:
		var r storage.Record
		r, call.err = c.handle.Get(ctx, trialKeys[call.key])
		if call.err == nil {
			call.cells[call.key] = trialCell{r.Revision, string(r.Value)}
		} else if errors.Is(call.err, storage.ErrNotFound) {
			call.err = nil
		}
	case trialList:
		var p storage.Page
		p, call.err = c.handle.List(ctx, storage.ListRequest{Prefix: storage.ObjectRoot, Limit: 10})
		call.revision = p.Revision
		for _, r := range p.Records {
			if k := slices.Index(trialKeys[:], r.Key); k >= 0 {
				call.cells[k] = trialCell{r.Revision, string(r.Value)}
			}
		}
	case trialRevision:
		call.revision, call.err = c.handle.Revision(ctx)
	case trialSync:
		call.revision, call.err = c.handle.Sync(ctx, "")
	case trialCommit:
		call.revision, call.err = c.handle.Commit(ctx, call.ops)
	}
}
