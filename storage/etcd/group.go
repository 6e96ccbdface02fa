package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

const (
	senders        = 4         // how many groups are under way at once
	mostGrouped    = 64        // commits of a group; etcd counts them as operations of the transaction
	mostGroupedOps = 32        // operations of a commit that joins one
	groupBytes     = 256 << 10 // of a group, at most; a larger commit is a group of its own
)

// groups puts commits that come at the same time into one transaction of etcd, each as a transaction
// inside of it: a call to etcd costs more than most commits do. While calls are under way, commits
// wait for the next one.
//
// Etcd looks at the conditions of all inner transactions before it runs the first. So no commit of a
// group writes a key that another one reads or writes.
type groups struct {
	db *DB

	mu      sync.Mutex
	waiting []*member
	arrived chan struct{} // capacity 1: somebody waits
}

// seat is a commit's place in a transaction. The zero value is that of one that has it for itself.
type seat struct {
	shared bool
	shift  uint8 // how far its last revision lies below that of the transaction
}

// member is a commit that waits for its group, or is in one.
type member struct {
	commit *commit
	bytes  int
	done   chan struct{} // closed when what follows is set

	seat     seat
	timeline *timeline // whose base the attempt compared; nil if there was none
	resp     *clientv3.TxnResponse
	sent     bool
	err      error
}

func newGroups(db *DB) *groups { return &groups{db: db, arrived: make(chan struct{}, 1)} }

// joins reports whether a commit may share a transaction. A group has no deletions, since those do not
// say which revision they have, and a member takes one revision.
func (c *commit) joins() bool {
	if !c.puts || c.width != 1 || c.mark != nil || c.verified != nil || len(c.ops) > mostGroupedOps || c.comparisons() > perCommit-mostGrouped {
		return false
	}
	return !slices.ContainsFunc(c.ops, func(op storage.Op) bool { return op.Type == storage.OpDelete })
}

// try makes an attempt with others.
func (g *groups) try(ctx context.Context, c *commit) (storage.Revision, error) {
	m := &member{commit: c, done: make(chan struct{})}
	for i := range c.ops {
		m.bytes += len(c.ops[i].Key) + len(c.ops[i].Value)
	}
	g.enter(m)
	select {
	case <-m.done:
	case <-ctx.Done():
		if !g.withdraw(m) { // it is under way
			c.failed(g.db.timeline.Load(), true, ctx.Err())
		}
		return 0, ctx.Err()
	}
	switch {
	case m.timeline == nil:
		return 0, errAgain
	case m.err != nil:
		c.failed(m.timeline, m.sent, m.err)
		return 0, m.err
	}
	return c.answered(ctx, m.timeline, m.seat, m.resp)
}

func (g *groups) enter(m *member) {
	g.mu.Lock()
	g.waiting = append(g.waiting, m)
	g.mu.Unlock()
	g.signal()
}

func (g *groups) signal() {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
}

// withdraw takes a member that still waits out of the queue, and reports whether it was there.
func (g *groups) withdraw(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, m)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// run sends groups until the store ends.
func (g *groups) run() {
	keys := groupKeys{}
	for {
		select {
		case <-g.arrived:
			if group := g.next(keys); len(group) > 0 {
				g.send(group)
			}
		case <-g.db.life.Done():
			return
		}
	}
}

// next takes a group out of the queue. Who waits and may not be in it goes alone.
func (g *groups) next(keys groupKeys) []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(keys)
	var group []*member
	bytes, most := 0, min(groupBytes, g.db.config.MaxRequestBytes/2)
	for n, m := range g.waiting {
		if len(group) == mostGrouped || len(group) > 0 && bytes+m.bytes > most {
			g.waiting = slices.Delete(g.waiting, 0, n)
			g.signal()
			return group
		}
		if !keys.add(m.commit.ops) {
			close(m.done)
			continue
		}
		group = append(group, m)
		bytes += m.bytes
	}
	clear(g.waiting)
	g.waiting = g.waiting[:0]
	return group
}

// groupKeys are the keys of a group, and whether a commit writes them.
type groupKeys map[string]bool

// add reports whether a commit may be in the group, and adds its keys if so.
func (k groupKeys) add(ops []storage.Op) bool {
	for i := range ops {
		if written, there := k[ops[i].Key]; there && (written || ops[i].Type == storage.OpPut) {
			return false
		}
	}
	for i := range ops {
		k[ops[i].Key] = ops[i].Type == storage.OpPut
	}
	return true
}

// send makes an attempt of all commits of a group. It takes no context of theirs: one that ends must not
// end it for the others.
func (g *groups) send(group []*member) {
	t := g.db.timeline.Load()
	inner := make([]clientv3.Op, len(group))
	for i, m := range group {
		m.seat = seat{shared: len(group) > 1, shift: uint8(len(group) - 1 - i)}
		inner[i] = m.commit.transaction(t, m.seat)
	}
	op := inner[0]
	if len(group) > 1 {
		op = clientv3.OpTxn(nil, inner, nil)
	}
	resp, sent, err := g.db.txn(clientv3.WithRequireLeader(g.db.life), firstLimit, op)
	if err != nil && len(group) > 1 && refusedUnread(err) && !errors.Is(err, rpctypes.ErrNoSpace) {
		t = nil // it may be the group that is refused: too large, for example. Without space it may have happened.
	}
	for i, m := range group {
		m.timeline, m.sent, m.err, m.resp = t, sent, err, resp
		if err == nil && len(group) > 1 {
			m.resp = (*clientv3.TxnResponse)(resp.Responses[i].GetResponseTxn())
			m.resp.Header = resp.Header
		}
		close(m.done)
	}
}
