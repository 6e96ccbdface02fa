package lead

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/storage"
)

// The times of a default Config. A process that is killed is replaced within the patience, two thirds
// of a beat and a commit.
const (
	DefaultBeat     = 3 * time.Second
	DefaultPatience = 12 * time.Second
)

// Config configures a Leader. Only Store is required, and what is given passes Check.
type Config struct {
	Store  *storage.Store
	Role   string // which work, if there is more than one leader; default "background"
	Logger logr.Logger

	// Beat is the time between the beats of the leader. Those that follow look three times as often.
	Beat time.Duration
	// Patience is how long those that follow wait for a new beat; at least three beats.
	Patience time.Duration
}

// Check returns what is wrong with the times.
func (cfg Config) Check() error {
	cfg.complete()
	if cfg.Patience < 3*cfg.Beat {
		return fmt.Errorf("a patience of %s is shorter than three beats of %s", cfg.Patience, cfg.Beat)
	}
	return nil
}

func (cfg *Config) complete() {
	cfg.Role = cmp.Or(cfg.Role, "background")
	cfg.Beat = cmp.Or(cfg.Beat, DefaultBeat)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
}

// look is the time between the looks of those that follow.
func (cfg *Config) look() time.Duration { return cfg.Beat / 3 }

// Leader is one process' part in the choice of a leader. All methods are safe for concurrent use.
type Leader struct {
	cfg  Config
	id   string
	term string // key of the term
	beat string // key of the beat

	mu      sync.Mutex
	current *term         // nil while another process leads
	changed chan struct{} // closed when current changes
}

// term is a time in which this process leads.
type term struct {
	number uint64
	fence  *storage.Fence // nil on a store of one process
	over   context.Context
	end    context.CancelFunc
}

// office is the record of a term.
type office struct {
	Holder string `json:"holder,omitempty"` // empty if the leader has resigned
	Term   uint64 `json:"term"`
}

// New returns a Leader. It reads nothing and starts nothing. Unless the store is of one process,
// somebody must call Run.
func New(cfg Config) *Leader {
	cfg.complete()
	l := &Leader{
		cfg: cfg, id: rand.Text(), changed: make(chan struct{}),
		term: storage.SysKey("leader", cfg.Role, "term"), beat: storage.SysKey("leader", cfg.Role, "beat"),
	}
	if one, ok := storage.As[storage.Exclusive](cfg.Store); ok && one.Exclusive() {
		l.current = &term{over: context.Background(), end: func() {}}
	}
	return l
}

// Leads reports whether this process leads now. Another one may already have taken over, so it
// decides nothing that a commit does not check.
func (l *Leader) Leads() bool {
	t, _ := l.now()
	return t != nil
}

// now returns the present term, or nil, and a channel that is closed when that changes.
func (l *Leader) now() (*term, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.changed
}

func (l *Leader) set(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = t
	close(l.changed)
	l.changed = make(chan struct{})
}

// Changed returns a channel that is closed when this process begins or ceases to lead.
func (l *Leader) Changed() <-chan struct{} {
	_, changed := l.now()
	return changed
}

// While calls work each time that this process leads. The context of work ends with the term, and
// commits with it are fenced. While returns when ctx has ended and work has returned. Work that
// returns earlier is called again in the next term.
func (l *Leader) While(ctx context.Context, work func(context.Context)) {
	for ctx.Err() == nil {
		t, changed := l.now()
		if t == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		during, release := t.during(ctx)
		work(during)
		release()
		select {
		case <-t.over.Done():
		case <-ctx.Done():
		}
	}
}

// During returns a context for a moment of work: it ends with the term, and commits with it are
// fenced. ok is false if this process does not lead. The caller calls release.
func (l *Leader) During(ctx context.Context) (during context.Context, release context.CancelFunc, ok bool) {
	t, _ := l.now()
	if t == nil {
		return ctx, func() {}, false
	}
	during, release = t.during(ctx)
	return during, release, true
}

func (t *term) during(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.fence == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(storage.WithFence(ctx, *t.fence))
	stop := context.AfterFunc(t.over, cancel)
	return ctx, func() { stop(); cancel() }
}

// Run campaigns and leads until ctx ends. Then it resigns, so that another process need not wait.
// On a store of one process it only waits.
func (l *Leader) Run(ctx context.Context) {
	if l.Leads() {
		<-ctx.Done()
		return
	}
	for ctx.Err() == nil {
		if t := l.campaign(ctx); t != nil {
			l.lead(ctx, t)
		}
	}
}

// candidate is what a process has seen of the leader.
type candidate struct {
	*Leader

	beat  storage.Revision // the newest one seen
	since time.Time        // when it was seen first
}

// campaign returns when this process leads, or nil if ctx ends before.
func (l *Leader) campaign(ctx context.Context) *term {
	c := &candidate{Leader: l}
	for {
		t, err := c.try(ctx)
		switch {
		case t != nil:
			return t
		case ctx.Err() != nil:
			return nil
		case err != nil:
			l.cfg.Logger.V(1).Info("no leader can be chosen for now; asking again", "reason", err.Error())
		}
		if pause.For(ctx, l.cfg.look()) != nil {
			return nil
		}
	}
}

// try reads the records and takes the next term if it is free.
func (c *candidate) try(ctx context.Context) (*term, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	page, err := c.cfg.Store.List(ctx, storage.ListRequest{Prefix: storage.SysKey("leader", c.cfg.Role), Limit: 8})
	if err != nil {
		return nil, err
	}
	var held office
	var holding, beat storage.Revision
	for _, r := range page.Records {
		switch r.Key {
		case c.Leader.term:
			holding = r.Revision
			if r.Err != nil || json.Unmarshal(r.Value, &held) != nil {
				held = office{Holder: "unknown"} // whoever it is beats, or is replaced
			}
		case c.Leader.beat:
			beat = r.Revision
		}
	}
	if held.Holder == c.id { // the answer to its commit was lost
		return c.begin(held.Term, holding), nil
	}
	if c.since.IsZero() || beat != c.beat {
		c.beat, c.since = beat, time.Now()
	}
	if held.Holder != "" && time.Since(c.since) < c.cfg.Patience {
		return nil, nil
	}
	return c.take(ctx, held.Term+1, holding, beat)
}

// take writes the next term, if neither the term nor the beat has changed.
func (c *candidate) take(ctx context.Context, number uint64, holding, beat storage.Revision) (*term, error) {
	value, err := json.Marshal(office{Holder: c.id, Term: number})
	if err != nil {
		return nil, err
	}
	at, err := c.cfg.Store.Commit(ctx, []storage.Op{
		storage.Put(c.Leader.term, value, storage.Expect(holding)),
		storage.Put(c.Leader.beat, value, storage.Expect(beat)),
	})
	if _, lost := errors.AsType[*storage.ConflictError](err); lost {
		return nil, nil // another process was faster, or the leader lives
	}
	if err != nil {
		return nil, err
	}
	return c.begin(number, at), nil
}

// begin returns the term whose record has a revision.
func (l *Leader) begin(number uint64, at storage.Revision) *term {
	t := &term{number: number}
	t.over, t.end = context.WithCancel(context.Background())
	t.fence = &storage.Fence{Key: l.term, At: at, Lost: t.end}
	return t
}

// lead holds a term until ctx ends or it is lost.
func (l *Leader) lead(ctx context.Context, t *term) {
	log := l.cfg.Logger.WithValues("term", t.number)
	log.Info("this process does the work in the background now")
	l.set(t)
	l.keep(ctx, t)
	t.end()
	l.set(nil)
	log.Info("this process no longer does the work in the background")
	if ctx.Err() != nil {
		l.resign(ctx, t)
	}
}

// keep beats until the term is over. A leader whose beats fail ceases to lead before others lose
// their patience, so that there is no time in which two work against each other.
func (l *Leader) keep(ctx context.Context, t *term) {
	wait, last := l.cfg.Beat, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.over.Done():
			return
		case <-time.After(wait):
		}
		began, end := time.Now(), last.Add(l.cfg.Patience*2/3)
		if !began.Before(end) {
			return
		}
		err := l.strike(ctx, t, min(l.cfg.Beat, end.Sub(began)))
		if _, lost := errors.AsType[*storage.ConflictError](err); lost {
			return
		}
		if wait = l.cfg.look(); err == nil {
			wait, last = l.cfg.Beat, began
		}
	}
}

// strike writes one beat.
func (l *Leader) strike(ctx context.Context, t *term, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := l.cfg.Store.Commit(ctx, []storage.Op{
		storage.Check(l.term, storage.Expect(t.fence.At)),
		storage.Put(l.beat, nil, storage.Any),
	})
	return err
}

// resign leaves the term to whoever looks next. It may fail: then the others wait.
func (l *Leader) resign(ctx context.Context, t *term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.look())
	defer cancel()
	value, err := json.Marshal(office{Term: t.number})
	if err == nil {
		_, err = l.cfg.Store.Commit(ctx, []storage.Op{storage.Put(l.term, value, storage.Expect(t.fence.At))})
	}
	if err != nil {
		l.cfg.Logger.V(1).Info("the next leader has to wait", "reason", err.Error())
	}
}
