package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kindwright/kindwright/storage"
)

// feed is the one watch of etcd, and a log of what it brought. Watches of the store walk along the
// log in their readers' goroutines. One that falls behind its beginning reads from etcd.
//
// A watch that has read all of the log parks: it sleeps until a commit with a matching change, or a
// debt of progress, wakes it. So commits elsewhere cost it nothing.
type feed struct {
	db     *DB
	wanted chan struct{} // capacity 1: want was raised
	routes chan struct{} // capacity 1: a member is left out from now on

	patience time.Duration // of run: how long it waits for an answer; longer after each that did not come
	confirm  time.Duration // the same for the confirmation of a watch

	mu       sync.Mutex
	log      []commitRecord // every commit of the store with floor < mod <= reached, in order
	bytes    int            // of the log
	floor    int64
	reached  int64               // etcd has reported everything up to here
	cut      int64               // but for what was compacted before it did; that lies below here
	want     int64               // somebody waits until reached is as high
	debt     int64               // the lowest progress that a watcher is owed; 0 if there is none
	watchers map[string]watchSet // by prefix
	moved    chan struct{}       // closed when reached rises; nil if nobody waits for that
}

type watchSet map[*watcher]struct{}

// watcher is a running watch. Its fields are guarded by feed.mu, but for the constant ones.
type watcher struct {
	prefix string
	wake   chan struct{} // capacity 1

	position int64 // all matches up to this revision of etcd have been handed over
	told     int64 // the reader knows that
	owed     int64 // the reader must be told of this revision
	parked   bool
}

func newFeed(db *DB, reached int64) *feed {
	return &feed{
		db: db, wanted: make(chan struct{}, 1), routes: make(chan struct{}, 1), patience: stallTime, confirm: stallTime,
		watchers: map[string]watchSet{},
		floor:    reached, reached: reached, cut: reached + 1,
	}
}

// errStreamEnded is the end of a stream for which its server gave no reason.
var errStreamEnded = status.Error(codes.Unavailable, "the stream of a watch ended")

// run keeps the watch of etcd running until the store ends.
func (f *feed) run() {
	p := newPauses()
	for f.db.ended() == nil {
		before := f.position()
		err := f.follow()
		if f.db.ended() != nil {
			return
		}
		var cut *cutOffError
		if errors.As(err, &cut) {
			// What was compacted may have been another base, by which the changes count that follow.
			if _, err = f.db.now(f.db.life); err == nil {
				f.restart(cut.at)
				continue
			}
		}
		if err != nil {
			f.db.suspect()
		}
		if f.position() > before {
			p = newPauses()
		}
		p.wait(f.db.life)
	}
}

// reroute has the watch of etcd begun again. It may be with a member that is left out, which may take
// seconds to say that it has no leader, or say nothing for ever.
func (f *feed) reroute() {
	select {
	case f.routes <- struct{}{}:
	default:
	}
}

func (f *feed) position() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached
}

// passed reports whether etcd has reported what happened at a revision.
func (f *feed) passed(mod int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut <= mod && mod <= f.reached
}

const (
	settleTime  = 2 * time.Millisecond // an expected change mostly arrives before progress must be asked for
	stallTime   = 2 * time.Second      // a stream without an answer for so long is given up
	longestWait = time.Minute          // the same for later ones: what etcd has to tell may be much, and is one message
)

// follow reads one watch of etcd until it ends.
func (f *feed) follow() error {
	ctx, cancel := context.WithCancel(f.db.ownStream(clientv3.WithRequireLeader(f.db.life)))
	defer cancel()
	responses, err := f.begin(ctx)
	if responses == nil {
		return err
	}
	timer := time.NewTimer(settleTime) // also for those who have waited while there was no watch
	defer timer.Stop()
	var waiting time.Time // since when an answer is awaited
	for {
		select {
		case <-f.wanted:
			if waiting.IsZero() {
				timer.Reset(settleTime)
			}
		case <-f.routes:
			return nil
		case <-timer.C:
			switch {
			case !f.lags():
				waiting = time.Time{}
				continue
			case waiting.IsZero():
				waiting = time.Now()
			case time.Since(waiting) > f.patience:
				f.patience = min(2*f.patience, longestWait)
				return errStreamEnded
			}
			if err := f.requestProgress(ctx); err != nil {
				return err
			}
			timer.Reset(progressEvery)
		case r, ok := <-responses:
			if r.CompactRevision > 0 {
				return &cutOffError{r.CompactRevision}
			}
			if err := watchError(ctx, r, ok); err != nil {
				return err
			}
			if err := f.take(r); err != nil {
				return err
			}
			waiting, f.patience = time.Time{}, stallTime
			if f.lags() {
				timer.Reset(settleTime)
			}
		}
	}
}

// begin begins a watch of etcd. Etcd's client waits until a member has confirmed it, or until ctx ends: so it is ctx
// that ends if none does, or if calls go to others by then. The channel is nil if there is no watch.
func (f *feed) begin(ctx context.Context) (clientv3.WatchChan, error) {
	begin, end := f.db.keys.all()
	begun := make(chan clientv3.WatchChan, 1)
	f.db.running.Go(func() {
		begun <- f.db.client.Watch(ctx, begin, clientv3.WithRange(end), clientv3.WithRev(f.position()+1), clientv3.WithProgressNotify())
	})
	limit := time.NewTimer(f.confirm)
	defer limit.Stop()
	select {
	case responses := <-begun:
		f.confirm = stallTime
		return responses, nil
	case <-f.routes:
		return nil, nil
	case <-limit.C:
		f.confirm = min(2*f.confirm, longestWait)
		return nil, errStreamEnded
	}
}

// requestProgress asks etcd to say how far it is.
func (f *feed) requestProgress(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stallTime)
	defer cancel()
	return f.db.client.RequestProgress(ctx)
}

// lags reports whether somebody waits for more than has been reported.
func (f *feed) lags() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.want > f.reached
}

// cutOffError says that etcd was compacted at a revision beyond what the log has.
type cutOffError struct{ at int64 }

func (e *cutOffError) Error() string {
	return fmt.Sprintf("etcd was compacted at its revision %d", e.at)
}

// restart begins the log again at the revision at which etcd was compacted. Watches that need what is
// missing find out when they ask etcd for it.
func (f *feed) restart(at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, set := range f.watchers {
		for w := range set {
			f.unpark(w, f.reached)
		}
	}
	f.log, f.bytes, f.floor, f.cut = nil, 0, at, at
	f.advance(at - 1)
}

// take adds a response to the log.
func (f *feed) take(r clientv3.WatchResponse) error {
	if r.Header.ClusterId != f.db.cluster {
		return f.db.observe(r.Header, 0)
	}
	var commits []commitRecord
	for events := r.Events; len(events) > 0; {
		n := sameCommit(events)
		c, err := f.commit(events[:n])
		if err != nil {
			return err
		}
		if len(c.batch.Changes) > 0 {
			commits = append(commits, c)
		}
		events = events[n:]
	}
	commits = apart(commits)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commits {
		f.add(c)
	}
	if n := len(r.Events); n > 0 {
		f.advance(r.Events[n-1].Kv.ModRevision)
	}
	if r.IsProgressNotify() {
		f.advance(r.Header.Revision)
	}
	return nil
}

// commit makes a commit of its events.
func (f *feed) commit(events []*clientv3.Event) (commitRecord, error) {
	c := commitRecord{mod: events[0].Kv.ModRevision, width: 1, events: events}
	for _, e := range events {
		switch string(e.Kv.Key) {
		case f.db.keys.wide():
			c.width = width([]*mvccpb.KeyValue{e.Kv}, c.mod)
		case f.db.keys.base():
			r := &etcdserverpb.RangeResponse{}
			if e.Type == clientv3.EventTypePut {
				r.Kvs = []*mvccpb.KeyValue{e.Kv}
			}
			if err := f.db.learn(r); err != nil {
				return c, err
			}
		}
	}
	err := c.assemble(f.db.keys, f.db.timeline.Load(), false)
	return c, err
}

// add appends a commit, wakes the watches that match it, and shortens the log.
func (f *feed) add(c commitRecord) {
	f.log = append(f.log, c)
	f.bytes += c.bytes
	for i := range c.batch.Changes {
		for prefix := range prefixes(c.batch.Changes[i].Key) {
			for w := range f.watchers[prefix] {
				f.unpark(w, c.mod-1)
			}
		}
	}
	for f.bytes > f.db.config.MaxLogBytes && len(f.log) > 1 {
		f.floor = f.log[0].mod
		f.bytes -= f.log[0].bytes
		f.log[0] = commitRecord{}
		f.log = f.log[1:]
	}
}

// prefixes yields the prefixes of a key that a watch may have: the empty one and whole segments.
func prefixes(key string) func(func(string) bool) {
	return func(yield func(string) bool) {
		if !yield("") {
			return
		}
		for i := range len(key) {
			if key[i] == '/' && !yield(key[:i+1]) {
				return
			}
		}
	}
}

// advance raises reached, and wakes watches that are owed progress up to there.
func (f *feed) advance(mod int64) {
	if mod <= f.reached {
		return
	}
	f.reached = mod
	raise(&f.db.seen, mod)
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
	if f.debt == 0 || f.debt > mod {
		return
	}
	f.debt = 0
	for _, set := range f.watchers {
		for w := range set {
			f.pay(w)
		}
	}
}

// pay wakes a parked watch if it can be told what it is owed, or notes the debt.
func (f *feed) pay(w *watcher) {
	switch {
	case w.owed <= w.told:
	case w.owed <= f.reached:
		f.unpark(w, f.reached)
	case f.debt == 0 || f.debt > w.owed:
		f.debt = w.owed
	}
}

// unpark wakes a parked watch. It has missed nothing up to a revision.
func (f *feed) unpark(w *watcher, upTo int64) {
	if !w.parked {
		return
	}
	w.parked = false
	w.position = max(w.position, upTo)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// interrupt makes all watches look whether the store has ended.
func (f *feed) interrupt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, set := range f.watchers {
		for w := range set {
			f.unpark(w, w.position)
		}
	}
}

// owe makes the watches below a prefix reach a revision of etcd.
func (f *feed) owe(prefix string, mod int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, set := range f.watchers {
		if !strings.HasPrefix(p, prefix) {
			continue
		}
		for w := range set {
			w.owed = max(w.owed, mod)
			f.pay(w)
		}
	}
	f.raise(mod)
}

// raise notes that somebody waits for a revision.
func (f *feed) raise(mod int64) {
	if mod <= f.want {
		return
	}
	if f.want = mod; mod <= f.reached {
		return
	}
	select {
	case f.wanted <- struct{}{}:
	default:
	}
}

// enter adds a watch that has seen everything up to a revision and must reach another one.
func (f *feed) enter(prefix string, position, owed int64) *watcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &watcher{prefix: prefix, wake: make(chan struct{}, 1), position: position, told: position, owed: owed}
	set := f.watchers[prefix]
	if set == nil {
		set = watchSet{}
		f.watchers[prefix] = set
	}
	set[w] = struct{}{}
	f.pay(w)
	f.raise(owed)
	return w
}

func (f *feed) leave(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.watchers[w.prefix]
	if delete(set, w); len(set) == 0 {
		delete(f.watchers, w.prefix)
	}
}

// step is what a watch does next: yield commits, tell progress, read from etcd because it is behind,
// or, if it is none of these, sleep.
type step struct {
	commits  []commitRecord
	progress int64
	behind   int64 // read up to here
}

// watchStep is how many commits a watch takes from the log at once.
const watchStep = 256

// next returns the next step of a watch, and parks it if there is none.
func (f *feed) next(w *watcher) step {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.position < f.floor {
		return step{behind: f.floor}
	}
	var s step
	i := f.after(w.position)
	for ; i < len(f.log) && (len(s.commits) < watchStep || f.log[i].mod == w.position); i++ { // whole transactions
		if f.log[i].matches(w.prefix) {
			s.commits = append(s.commits, f.log[i])
		}
		w.position = f.log[i].mod
	}
	if i == len(f.log) {
		w.position = max(w.position, f.reached)
	}
	switch {
	case len(s.commits) > 0:
		w.told = s.commits[len(s.commits)-1].told(f.db.timeline.Load()) // progress beyond it may be owed
	case i == len(f.log) && w.owed > w.told && w.position >= w.owed:
		s.progress, w.told = w.position, w.position
	case i == len(f.log):
		w.parked = true
		f.pay(w)
	}
	return s
}

// told returns up to which revision of etcd a reader knows everything who has had the commit. It is not that of
// the commit if the transaction was shared: others may have the revisions that follow, or none.
func (c *commitRecord) told(t *timeline) int64 {
	if c.batch.Revision < t.last(c.mod) {
		return c.mod - 1
	}
	return c.mod
}

// after returns the index of the first commit above a revision of etcd.
func (f *feed) after(mod int64) int {
	return sort.Search(len(f.log), func(i int) bool { return f.log[i].mod > mod })
}

// caught tells the feed that a watch has read up to a revision elsewhere.
func (f *feed) caught(w *watcher, mod, told int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.position, w.told = max(w.position, mod), max(w.told, told)
}

func (c *commitRecord) matches(prefix string) bool {
	return slices.ContainsFunc(c.batch.Changes, func(change storage.Change) bool { return strings.HasPrefix(change.Key, prefix) })
}

// logWait is how long a reader of history waits for the log before it asks etcd.
const logWait = 250 * time.Millisecond

// past returns commits below a prefix from the log, above one revision of etcd and up to another, or
// until they have limit changes. ok is false if not all of them are in the log.
func (f *feed) past(ctx context.Context, prefix string, after, until int64, limit int) (commits []commitRecord, reached int64, ok bool) {
	if !f.covers(ctx, after, until) {
		return nil, 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if after < f.floor {
		return nil, 0, false
	}
	n := 0
	for i := f.after(after); i < len(f.log) && f.log[i].mod <= until; i++ {
		c := f.log[i]
		if n > 0 && n >= limit && c.mod != f.log[i-1].mod { // whole transactions
			return commits, f.log[i-1].mod, true
		}
		if c.batch = c.batch.Below(prefix); len(c.batch.Changes) == 0 {
			continue
		}
		commits = append(commits, c)
		n += len(c.batch.Changes)
	}
	return commits, until, true
}

// covers reports whether the log has a span of revisions, and waits a little until it has.
func (f *feed) covers(ctx context.Context, after, until int64) bool {
	timeout := time.NewTimer(logWait)
	defer timeout.Stop()
	for {
		f.mu.Lock()
		below, moved := after < f.floor, f.moved
		if !below && until > f.reached {
			if moved == nil {
				moved = make(chan struct{})
				f.moved = moved
			}
			f.raise(until)
		} else {
			moved = nil
		}
		f.mu.Unlock()
		if moved == nil {
			return !below
		}
		select {
		case <-moved:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
