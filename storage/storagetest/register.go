package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kindwright/kindwright/internal/linear"
	"github.com/kindwright/kindwright/storage"
)

// registerCall is a call of a client for one key.
type registerCall string

const (
	registerGet    registerCall = "get"
	registerPut    registerCall = "put"
	registerDelete registerCall = "delete"
)

type registerInput struct {
	call   registerCall
	key    string
	value  string
	expect storage.Expect
}

// registerOutput is the result of a call. The revision is that of the record read, the commit's,
// or, after a conflict, the one found; 0 means absent.
type registerOutput struct {
	conflict bool
	revision storage.Revision
	value    string // of a get
}

// register is the model of one key.
type register struct {
	revision storage.Revision // 0: absent
	value    string
	newest   storage.Revision // the newest change so far, deletions included
}

// registerStep is a call of a client together with its result.
type registerStep struct {
	client int
	in     registerInput
	out    registerOutput
}

// step applies a call to the register. It fails if the call cannot have this result.
func (r register) step(c registerStep) (next register, possible bool) {
	in, out := c.in, c.out
	if in.call == registerGet {
		return r, out.revision == r.revision && out.value == r.value
	}
	if !in.expect.Holds(r.revision) {
		return r, out.conflict && out.revision == r.revision
	}
	if out.conflict {
		return r, false
	}
	if in.call == registerDelete && r.revision == 0 {
		return r, true // nothing changes; the revision is the store's current one
	}
	next = register{newest: out.revision}
	if in.call == registerPut {
		next.revision, next.value = out.revision, in.value
	}
	return next, out.revision > r.newest
}

// registerLog records the calls of concurrent clients, with real times.
type registerLog struct {
	begin time.Time
	mu    sync.Mutex
	ops   map[string][]linear.Operation[registerStep] // by key
}

func newRegisterLog() *registerLog {
	return &registerLog{begin: time.Now(), ops: map[string][]linear.Operation[registerStep]{}}
}

// do makes the call and records it. It returns an error that a healthy backend never returns here.
func (l *registerLog) do(ctx context.Context, b storage.Backend, client int, in registerInput) (registerOutput, error) {
	begin := time.Since(l.begin).Nanoseconds()
	out, err := in.do(ctx, b)
	if err != nil {
		return out, err
	}
	op := linear.Operation[registerStep]{
		Call:  registerStep{client: client, in: in, out: out},
		Begin: begin, End: time.Since(l.begin).Nanoseconds(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops[in.key] = append(l.ops[in.key], op)
	return out, nil
}

func (in registerInput) do(ctx context.Context, b storage.Backend) (registerOutput, error) {
	if in.call == registerGet {
		r, err := b.Get(ctx, in.key)
		if errors.Is(err, storage.ErrNotFound) {
			return registerOutput{}, nil
		}
		return registerOutput{revision: r.Revision, value: string(r.Value)}, err
	}
	op := storage.Put(in.key, []byte(in.value), in.expect)
	if in.call == registerDelete {
		op = storage.Delete(in.key, in.expect)
	}
	rev, err := b.Commit(ctx, []storage.Op{op})
	var conflict *storage.ConflictError
	if errors.As(err, &conflict) {
		return registerOutput{conflict: true, revision: conflict.Actual}, nil
	}
	return registerOutput{revision: rev}, err
}

// verify fails the test if no order of the calls explains their answers.
func (l *registerLog) verify(t testing.TB) {
	t.Helper()
	step := func(r register, c registerStep) (register, bool) { return r.step(c) }
	for _, ops := range l.ops {
		if linear.Check(register{}, ops, step) {
			continue
		}
		var text strings.Builder
		for _, op := range ops {
			fmt.Fprintf(&text, "  %9d-%9d client %d: %+v -> %+v\n", op.Begin, op.End, op.Call.client, op.Call.in, op.Call.out)
		}
		t.Errorf("no order of these calls explains their answers (times in ns):\n%s", text.String())
	}
}
