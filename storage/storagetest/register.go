package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kindwright/kindwright/storage"
)

// registerCall is what a client does with one key.
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

// registerOutput is what came of it: the revision of the record read, the
// commit's, or, after a conflict, the one found; 0 is absent.
type registerOutput struct {
	conflict bool
	revision storage.Revision
	value    string // of a get
}

// register is one key as the model sees it.
type register struct {
	revision storage.Revision // 0: absent
	value    string
	newest   storage.Revision // of any change so far, deletions included
}

// registerModel is a key that takes one call at a time.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Init:      func() any { return register{} },
		Partition: partitionByKey,
		Step: func(state, input, output any) (bool, any) {
			return state.(register).step(input.(registerInput), output.(registerOutput))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

func (r register) step(in registerInput, out registerOutput) (possible bool, next register) {
	if in.call == registerGet {
		return out.revision == r.revision && out.value == r.value, r
	}
	if !in.expect.Holds(r.revision) {
		return out.conflict && out.revision == r.revision, r
	}
	if out.conflict {
		return false, r
	}
	if in.call == registerDelete && r.revision == 0 {
		return true, r // no change; the revision is whatever the store was at
	}
	next = register{newest: out.revision}
	if in.call == registerPut {
		next.revision, next.value = out.revision, in.value
	}
	return out.revision > r.newest, next
}

func partitionByKey(history []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(registerInput).key
		byKey[key] = append(byKey[key], op)
	}
	var parts [][]porcupine.Operation
	for _, part := range byKey {
		parts = append(parts, part)
	}
	return parts
}

// registerLog is what concurrent clients did, with real times.
type registerLog struct {
	begin time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func newRegisterLog() *registerLog { return &registerLog{begin: time.Now()} }

// do makes the call and records it. The error is one that a healthy backend
// never gives here.
func (l *registerLog) do(ctx context.Context, b storage.Backend, client int, in registerInput) (registerOutput, error) {
	call := time.Since(l.begin).Nanoseconds()
	out, err := in.do(ctx, b)
	if err != nil {
		return out, err
	}
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: time.Since(l.begin).Nanoseconds()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
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

// verify fails the test when no order of the calls explains their answers.
func (l *registerLog) verify(t testing.TB) {
	t.Helper()
	model := registerModel()
	for _, part := range model.Partition(l.ops) {
		if porcupine.CheckOperations(model, part) {
			continue
		}
		var text strings.Builder
		for _, op := range part {
			fmt.Fprintf(&text, "  %9d-%9d client %d: %s\n", op.Call, op.Return, op.ClientId, model.DescribeOperation(op.Input, op.Output))
		}
		t.Errorf("no order of these calls explains their answers (times in ns):\n%s", text.String())
	}
}
