package kindwright

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/pause"
)

// A request that has been carried out is answered as it ended, also if a sink needs its record and
// does not take it: whoever is told of a failure does it again, or does not look for what is there.
// The server owes the sink that record. It keeps the record and writes it as soon as the sink works
// again. Until then no other request is carried out before a record of it is stored, whatever the
// stages are that the policy leaves out.
//
// Source: AUD-20, security vectors D4, D5.
type debts struct {
	open    atomic.Int64  // how many there are
	excused []debtCounter // by sink
	wake    chan struct{}

	mu      sync.Mutex
	list    []debt
	bytes   int
	settled bool // nobody repays any more: what a sink does not take is lost
}

// debt is a record that a sink has not taken yet.
type debt struct {
	sink   int
	line   []byte
	id     string // of the request
	misses int    // how often a sink that works has not taken it
}

// debtCounter counts failures of a sink after which its record was not lost.
type debtCounter struct{ n atomic.Uint64 }

const (
	maxDebtBytes = 16 << 20        // of the records that are kept
	maxMisses    = 8               // a record that a sink refuses this often, and others not, is lost
	repayEvery   = time.Second     // while a sink does not work and nobody asks for anything
	lastRepay    = 5 * time.Second // for all of them when the server ends
	repayAtEnd   = 10 * time.Millisecond
)

func newDebts(sinks int) *debts {
	return &debts{excused: make([]debtCounter, sinks), wake: make(chan struct{}, 1)}
}

// owe keeps a record that a sink has not taken. If there are too many, or the server has ended, it is lost.
func (a *auditor) owe(sink int, id string, line []byte) {
	d := a.debts
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.settled:
		a.log.Error(errors.New("the server has ended"), "an audit record is lost", "auditID", id)
		return
	case d.bytes+len(line) > maxDebtBytes:
		a.log.Error(errors.New("too many audit records wait for a sink"), "an audit record is lost", "auditID", id)
		return
	}
	d.excused[sink].n.Add(1)
	d.list = append(d.list, debt{sink: sink, line: slices.Clone(line), id: id})
	d.bytes += len(line)
	d.open.Store(int64(len(d.list)))
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// repay writes the records that are owed. works says that all sinks have just taken another record: one
// that they do not take then may be one that they never take. One caller at a time does it; the others
// go on.
func (a *auditor) repay(ctx context.Context, works bool) {
	d := a.debts
	if d.open.Load() == 0 || !d.mu.TryLock() {
		return
	}
	defer d.mu.Unlock()
	kept := d.list[:0]
	for i, one := range d.list {
		if ctx.Err() != nil {
			kept = append(kept, d.list[i:]...)
			break
		}
		err := write(ctx, a.sinks[one.sink], one.line)
		if err == nil {
			d.bytes -= len(one.line)
			continue
		}
		if works {
			one.misses++
		}
		if one.misses >= maxMisses {
			d.bytes -= len(one.line)
			a.log.Error(err, "an audit record is lost", guard.WithStack(err, "auditID", one.id)...)
			continue // this failure counts as the loss
		}
		d.excused[one.sink].n.Add(1)
		kept = append(kept, one)
		if !works {
			kept = append(kept, d.list[i+1:]...)
			break
		}
	}
	clear(d.list[len(kept):])
	d.list = kept
	d.open.Store(int64(len(kept)))
}

// repayLater writes what is owed until ctx ends.
func (a *auditor) repayLater(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.debts.wake:
		}
		for a.debts.open.Load() > 0 && ctx.Err() == nil {
			if pause.For(ctx, repayEvery) == nil {
				a.repay(ctx, false)
			}
		}
	}
}

// settle writes what is owed once more, when the server has carried out its last request. What a sink does
// not take then is lost, and is counted as such.
func (a *auditor) settle() {
	d := a.debts
	last, cancel := context.WithTimeout(context.Background(), lastRepay)
	defer cancel()
	for d.open.Load() > 0 && last.Err() == nil {
		a.repay(last, false)
		if d.open.Load() > 0 {
			_ = pause.For(last, repayAtEnd)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	if len(d.list) == 0 {
		return
	}
	var ids []string
	for _, one := range d.list {
		d.excused[one.sink].n.Add(^uint64(0)) // one of its failures is the loss
		if len(ids) < maxNamedLosses {
			ids = append(ids, one.id)
		}
	}
	a.log.Error(errors.New("a sink does not work"), "audit records are lost", "records", len(d.list), "auditIDs", ids)
	clear(d.list)
	d.list, d.bytes = nil, 0
	d.open.Store(0)
}

// maxNamedLosses bounds how many lost records the log names.
const maxNamedLosses = 100
