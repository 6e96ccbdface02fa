package storagetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/linear"
	"github.com/kindwright/kindwright/storage"
)

// check compares everything that was answered up to a revision, after all calls and watches have ended.
func (tr *trial) check(until storage.Revision) {
	slices.SortStableFunc(tr.calls, func(a, b *trialCall) int { return cmp.Compare(a.begun, b.begun) })
	truth := upTo(tr.watches[0].batches, until)
	tr.figures.Calls, tr.figures.Events = len(tr.calls), len(truth)
	for _, w := range tr.watches {
		tr.figures.Resumed += w.resumed
		if err := sameBatches(below(truth, w.order.prefix), upTo(w.batches, until)); err != nil {
			tr.anomaly("%v differs from %v: %v", w, tr.watches[0], err)
		}
	}
	tr.checkHistories(truth, until)
	if len(tr.anomalies) > 0 {
		return
	}
	happened := tr.attribute(truth)
	if len(tr.anomalies) > 0 {
		return
	}
	ops := tr.operations(happened)
	if linear.Check(trialState{newest: tr.start}, ops, trialState.step) {
		return
	}
	var text strings.Builder
	for _, op := range ops {
		text.WriteString(op.Call.String() + "\n")
	}
	tr.anomaly("no order of these calls explains their answers (times in µs):\n%s", text.String())
}

// upTo returns the batches up to a revision.
func upTo(batches []storage.Batch, until storage.Revision) []storage.Batch {
	n := len(batches)
	for n > 0 && batches[n-1].Revision > until {
		n--
	}
	return batches[:n]
}

// below returns the part of batches that lies below a prefix.
func below(batches []storage.Batch, prefix string) []storage.Batch {
	var part []storage.Batch
	for _, b := range batches {
		if b = b.Below(prefix); len(b.Changes) > 0 {
			part = append(part, b)
		}
	}
	return part
}

// checkHistories compares the histories of all handles, as far as they are retained, with what watches
// gave.
func (tr *trial) checkHistories(truth []storage.Batch, until storage.Revision) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	after := tr.start
	for i, h := range tr.Handles {
		var all []storage.Batch
		for p := (storage.HistoryPage{Revision: after, More: true}); p.More; {
			next, err := h.History(ctx, storage.HistoryRequest{After: p.Revision, Until: until, Limit: 50})
			switch {
			case err == nil:
				p, all = next, append(all, next.Batches...)
			case isCompacted(err) && len(all) == 0 && after < until:
				after = tr.nextRevision(truth, after)
				p.Revision = after
			case outOfReach(err) && ctx.Err() == nil:
				pause()
			default:
				tr.anomaly("the history of handle %d after %d: %v", i, p.Revision, err)
				return
			}
		}
		want := slices.DeleteFunc(slices.Clone(truth), func(b storage.Batch) bool { return b.Revision <= after })
		if err := sameBatches(want, all); err != nil {
			tr.anomaly("the history of handle %d differs from %v: %v", i, tr.watches[0], err)
		}
	}
}

// nextRevision returns the revision of the first batch above one.
func (tr *trial) nextRevision(truth []storage.Batch, after storage.Revision) storage.Revision {
	for _, b := range truth {
		if b.Revision > after {
			return b.Revision
		}
	}
	return after + 1
}

// attribute finds the commit of each batch. It returns the batches of the commits that happened.
func (tr *trial) attribute(truth []storage.Batch) map[*trialCall]storage.Batch {
	happened := map[*trialCall]storage.Batch{}
	byValue, byRevision := map[string]*trialCall{}, map[storage.Revision]*trialCall{}
	deleting := map[deletion]*trialCall{} // with an unknown outcome; the first of those that are alike
	for _, c := range tr.calls {
		if c.verb != trialCommit {
			continue
		}
		byValue[c.value] = c
		switch {
		case c.err == nil && c.mustChange():
			byRevision[c.revision] = c
		case c.unknown && len(c.ops) == 1 && c.ops[0].Type == storage.OpDelete:
			if d := (deletion{c.ops[0].Key, c.ops[0].Expect}); deleting[d] == nil {
				deleting[d] = c
			}
		}
	}
	var cells [len(trialKeys)]storage.Revision
	for _, b := range truth {
		c := byRevision[b.Revision]
		for _, change := range b.Changes {
			if !change.Deleted {
				c = byValue[string(change.Value)]
			}
		}
		if k := slices.Index(trialKeys[:], b.Changes[0].Key); c == nil && k >= 0 {
			c = deleting[deletion{trialKeys[k], storage.Expect(cells[k])}]
		}
		if tr.claims(c, b, happened) {
			happened[c] = b
		}
		for _, change := range b.Changes {
			if k := slices.Index(trialKeys[:], change.Key); k >= 0 {
				if cells[k] = change.Revision; change.Deleted {
					cells[k] = 0
				}
			}
		}
	}
	for _, c := range tr.calls {
		if _, did := happened[c]; c.verb == trialCommit && c.err == nil && !did && c.mustChange() {
			tr.anomaly("acknowledged, and not in the history: %v", c)
		}
	}
	return happened
}

// deletion is what a commit of one deletion can be known by.
type deletion struct {
	key    string
	expect storage.Expect
}

// mustChange reports whether the commit changes something whenever it succeeds.
func (c *trialCall) mustChange() bool {
	return slices.ContainsFunc(c.ops, func(op storage.Op) bool {
		return op.Type == storage.OpPut || op.Type == storage.OpDelete && op.Expect != storage.Any
	})
}

// claims reports whether a batch can be the effect of a commit.
func (tr *trial) claims(c *trialCall, b storage.Batch, happened map[*trialCall]storage.Batch) bool {
	if c == nil {
		tr.anomaly("nobody made the change at %d: %+v", b.Revision, b.Changes)
		return false
	}
	other, twice := happened[c]
	switch {
	case twice:
		tr.anomaly("it happened at %d and at %d: %v", other.Revision, b.Revision, c)
	case c.err == nil && c.revision != b.Revision:
		tr.anomaly("it happened at %d: %v", b.Revision, c)
	case c.err != nil && !c.unknown:
		tr.anomaly("it was refused and happened at %d: %v", b.Revision, c)
	case !c.explains(b):
		tr.anomaly("it has other changes at %d, %+v: %v", b.Revision, b.Changes, c)
	default:
		for _, w := range tr.watches {
			if at, seen := w.seen(b.Revision); seen && at < c.begun {
				tr.anomaly("%v gave it at %d: %v", w, at, c)
			}
		}
		return true
	}
	return false
}

// explains reports whether the changes of a batch are the operations of the commit.
func (c *trialCall) explains(b storage.Batch) bool {
	left := len(b.Changes)
	for i, op := range c.ops {
		at := slices.IndexFunc(b.Changes, func(change storage.Change) bool { return change.Key == op.Key })
		switch {
		case op.Type == storage.OpCheck && at < 0, op.Type == storage.OpDelete && op.Expect == storage.Any && at < 0:
			continue
		case at < 0:
			return false
		}
		change := b.Changes[at]
		if change.Deleted != (op.Type == storage.OpDelete) || string(change.Value) != string(op.Value) ||
			change.Revision != storage.RevisionOf(c.ops, i, b.Revision) {
			return false
		}
		left--
	}
	return left == 0
}

// seen returns when a watch gave the batch of a revision.
func (w *trialWatch) seen(rev storage.Revision) (int64, bool) {
	i, found := slices.BinarySearchFunc(w.batches, rev, func(b storage.Batch, rev storage.Revision) int {
		return cmp.Compare(b.Revision, rev)
	})
	if !found {
		return 0, false
	}
	return w.received[i], true
}

// operations returns the calls that an order has to explain. A commit has happened when the first watch
// gave it, so it ends no later than that.
func (tr *trial) operations(happened map[*trialCall]storage.Batch) []linear.Operation[*trialCall] {
	end := tr.now()
	var ops []linear.Operation[*trialCall]
	for _, c := range tr.calls {
		b, did := happened[c]
		switch {
		case c.unknown:
			tr.figures.Unknown++
			if !did {
				continue
			}
			tr.figures.Happened++
			settled := *c
			settled.revision, settled.ended, settled.err, settled.unknown = b.Revision, end, nil, false
			c = &settled
		case c.conflict != nil:
			tr.figures.Conflicts++
		case c.err != nil:
			tr.figures.Refused++
			continue
		case c.verb == trialCommit:
			tr.figures.Acknowledged++
		}
		op := linear.Operation[*trialCall]{Call: c, Begin: c.begun, End: c.ended}
		if did {
			for _, w := range tr.watches {
				if at, seen := w.seen(b.Revision); seen {
					op.End = min(op.End, at)
				}
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// trialState is the model of a store under trial.
type trialState struct {
	cells  [len(trialKeys)]trialCell
	newest storage.Revision // that anybody was told of
}

// step applies a call. It fails if the call cannot have this answer.
func (s trialState) step(c *trialCall) (trialState, bool) {
	switch c.verb {
	case trialGet:
		return s, s.cells[c.key] == c.cells[c.key]
	case trialList:
		if s.cells != c.cells {
			return s, false
		}
	case trialCommit:
		return s.commit(c)
	}
	return s.told(c.revision)
}

// told is the state after somebody learned the current revision. Later commits are above it.
func (s trialState) told(rev storage.Revision) (trialState, bool) {
	possible := rev >= s.newest
	s.newest = max(s.newest, rev)
	return s, possible
}

func (s trialState) commit(c *trialCall) (trialState, bool) {
	for _, op := range c.ops {
		k := slices.Index(trialKeys[:], op.Key)
		if k < 0 || op.Expect.Holds(s.cells[k].revision) {
			continue
		}
		want := storage.ConflictError{Key: op.Key, Expected: op.Expect, Actual: s.cells[k].revision}
		return s, c.conflict != nil && *c.conflict == want
	}
	if c.conflict != nil {
		return s, false
	}
	first, changes := c.revision, false
	next := s
	for i, op := range c.ops {
		k := slices.Index(trialKeys[:], op.Key)
		if op.Type == storage.OpCheck || op.Type == storage.OpDelete && s.cells[k].revision == 0 {
			continue
		}
		rev := storage.RevisionOf(c.ops, i, c.revision)
		first, changes = min(first, rev), true
		switch {
		case k < 0:
		case op.Type == storage.OpDelete:
			next.cells[k] = trialCell{}
		default:
			next.cells[k] = trialCell{rev, string(op.Value)}
		}
	}
	if !changes {
		return s.told(c.revision)
	}
	next.newest = max(s.newest, c.revision)
	return next, first > s.newest
}

func isCompacted(err error) bool { return errors.Is(err, storage.ErrCompacted) }
