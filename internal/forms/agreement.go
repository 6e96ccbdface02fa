package forms

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/ctxlock"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/storage"
)

// The times of a default Config. Taking a process for dead too early costs that process its view of
// some objects, and taking it for dead late costs nothing, so there is much time.
const (
	DefaultBeat     = 3 * time.Second
	DefaultPatience = 36 * time.Second
)

// tries is how often one look repeats a commit that another process was faster than.
const tries = 8

// Config configures an Agreement. Only Store is required.
type Config struct {
	Store  *storage.Store
	Logger logr.Logger

	Beat     time.Duration // between the beats of a process, each of which is followed by a look at the others
	Patience time.Duration // how long a process without a new beat is taken to be alive

	// Settled, if not nil, is told the name of each kind that this process may write in the form that it
	// prefers, after it had to write another one.
	Settled func(name string)
}

// Agreement is one process' part in it. All methods are safe for concurrent use, and on nil they
// answer as on a store of one process.
type Agreement struct {
	cfg  Config
	id   string
	host string

	looking ctxlock.Mutex // held during Join and each look; guards the next four
	mine    map[string][]string
	excess  bool             // this process may have announced kinds that are not among mine
	seen    map[string]sight // by process; what this one has seen of the others' beats
	told    map[string]bool  // the kinds whose delay has been logged

	others atomic.Pointer[map[string]string] // the kinds that this process writes in another form than it prefers
	broken atomic.Pointer[error]             // why this process must not serve
}

// sight is when a beat was seen first.
type sight struct {
	beat  storage.Revision
	since time.Time
}

// New returns an Agreement, or nil on a store of one process. It reads and starts nothing.
func New(cfg Config) *Agreement {
	if one, ok := storage.As[storage.Exclusive](cfg.Store); ok && one.Exclusive() {
		return nil
	}
	cfg.Beat = cmp.Or(cfg.Beat, DefaultBeat)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return &Agreement{
		cfg: cfg, id: rand.Text(), host: fmt.Sprintf("%s, process %d", host, os.Getpid()),
		mine: map[string][]string{}, seen: map[string]sight{}, told: map[string]bool{},
	}
}

// Written returns the form in which to write the objects of a kind, if it is not the one that this
// process prefers.
func (a *Agreement) Written(name string) (form string, other bool) {
	if a == nil {
		return "", false
	}
	others := a.others.Load()
	if others == nil {
		return "", false
	}
	form, other = (*others)[name]
	return form, other
}

// Ready returns the reason why this process must not serve, or nil.
func (a *Agreement) Ready() error {
	if a == nil {
		return nil
	}
	if why := a.broken.Load(); why != nil {
		return *why
	}
	return nil
}

// Join announces the forms that this process reads: by the storage name of each kind, the preferred
// form first. Kinds that were announced before and are not among them stay as they are. After Join,
// Written is right about these kinds. The error says what to do if the kinds are written in forms
// that this process does not read; then it must not serve them.
//
// Join returns when ctx ends, however long the store or another Join takes.
func (a *Agreement) Join(ctx context.Context, reads map[string][]string) error {
	if a == nil || len(reads) == 0 {
		return nil
	}
	if err := a.looking.Lock(ctx); err != nil {
		return err
	}
	defer a.looking.Unlock()
	before := a.mine
	a.mine = maps.Clone(before)
	maps.Copy(a.mine, reads)
	err := a.announce(ctx)
	if err == nil {
		err = a.look(ctx)
	}
	if err == nil {
		err = a.Ready()
	}
	if err != nil {
		a.mine, a.excess = before, true
		a.broken.Store(nil)
		if err := a.withdraw(ctx); err != nil {
			a.cfg.Logger.V(1).Info("an announcement of forms stays until the next beat", "reason", err.Error())
		}
	}
	return err
}

// withdraw takes back the announcement of kinds that are not served. After an error the next beat
// does it: while the announcement stays, the other processes write these kinds in the form that this
// one has announced.
func (a *Agreement) withdraw(ctx context.Context) error {
	if !a.excess {
		return nil
	}
	var err error
	if len(a.mine) == 0 {
		err = a.leave(ctx)
	} else {
		err = a.announce(ctx)
	}
	a.excess = err != nil
	return err
}

// Run keeps the announcement alive and looks at those of the others until ctx ends. Then it takes
// the announcement back, so that the others need not wait.
func (a *Agreement) Run(ctx context.Context) {
	if a == nil {
		return
	}
	for pause.For(ctx, a.cfg.Beat) == nil {
		if err := a.beat(ctx); err != nil && ctx.Err() == nil {
			a.cfg.Logger.V(1).Info("the forms of records cannot be agreed on for now; asking again", "reason", err.Error())
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Beat)
	defer cancel()
	err := a.looking.Lock(ctx)
	if err == nil {
		defer a.looking.Unlock()
		if len(a.mine) == 0 && !a.excess {
			return
		}
		err = a.leave(ctx)
	}
	if err != nil {
		a.cfg.Logger.V(1).Info("the other processes have to wait until this one is out of date", "reason", err.Error())
	}
}

// The records. The roster changes with each announcement.
var (
	root       = storage.SysKey("forms")
	writtenKey = storage.SysKey("forms", "written")
	rosterKey  = storage.SysKey("forms", "roster")
)

func (a *Agreement) noticeKey() string { return storage.SysKey("forms", "reads", a.id) }
func (a *Agreement) beatKey() string   { return storage.SysKey("forms", "beat", a.id) }

// announce stores what this process reads.
func (a *Agreement) announce(ctx context.Context) error {
	value, err := json.Marshal(notice{Host: a.host, Reads: a.mine})
	if err != nil {
		return err
	}
	_, err = a.cfg.Store.Commit(ctx, []storage.Op{
		storage.Put(a.noticeKey(), value, storage.Any),
		storage.Put(a.beatKey(), nil, storage.Any),
		storage.Put(rosterKey, []byte(a.id), storage.Any),
	})
	return err
}

// leave takes the announcement back. The roster stays as it is: that somebody is missing permits only more.
func (a *Agreement) leave(ctx context.Context) error {
	_, err := a.cfg.Store.Commit(ctx, []storage.Op{
		storage.Delete(a.noticeKey(), storage.Any), storage.Delete(a.beatKey(), storage.Any),
	})
	return err
}

// beat shows the others that this process is alive, and looks.
func (a *Agreement) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Beat)
	defer cancel()
	if err := a.looking.Lock(ctx); err != nil {
		return err
	}
	defer a.looking.Unlock()
	if err := a.withdraw(ctx); err != nil || len(a.mine) == 0 {
		return err
	}
	return a.look(ctx)
}

// look reads the records and does what they ask for.
func (a *Agreement) look(ctx context.Context) error {
	var err error
	for range tries {
		var s *state
		if s, err = a.read(ctx); err != nil {
			return err
		}
		if _, there := s.peers[a.id]; !there { // taken for dead
			if err := a.announce(ctx); err != nil {
				return err
			}
			continue
		}
		if err = a.act(ctx, s); !overtaken(err) {
			break
		}
	}
	return err
}

func overtaken(err error) bool {
	_, lost := errors.AsType[*storage.ConflictError](err)
	return lost
}

// act beats, removes the processes that are dead, and replaces forms, in one commit. Then it applies
// what is written.
func (a *Agreement) act(ctx context.Context, s *state) error {
	ops := []storage.Op{
		storage.Check(a.noticeKey(), storage.Expect(s.peers[a.id].notice)),
		storage.Put(a.beatKey(), nil, storage.Any),
	}
	for _, id := range a.dead(s) {
		p := s.peers[id]
		ops = append(ops, storage.Delete(storage.SysKey("forms", "reads", id), storage.Expect(p.notice)))
		if p.beat != 0 {
			ops = append(ops, storage.Delete(storage.SysKey("forms", "beat", id), storage.Expect(p.beat)))
		}
		a.cfg.Logger.Info("another process has not been heard of and no longer counts", "process", p.host)
		delete(s.peers, id)
		if len(ops) > 64 {
			break // the next look continues
		}
	}
	next := maps.Clone(s.written)
	for name, reads := range a.mine {
		if form := s.choose(name, reads, a.id); form != "" {
			next[name] = form
		}
	}
	if !maps.Equal(next, s.written) {
		value, err := json.Marshal(agreed{Forms: next})
		if err != nil {
			return err
		}
		ops = append(ops,
			storage.Put(writtenKey, value, storage.Expect(s.writtenAt)),
			storage.Check(rosterKey, storage.Expect(s.roster)))
	}
	if _, err := a.cfg.Store.Commit(ctx, ops); err != nil {
		return err
	}
	s.written = next
	a.apply(s)
	return nil
}

// dead lists the processes whose beats this one has not seen change for longer than its patience.
func (a *Agreement) dead(s *state) []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[id]
		at, known := a.seen[id]
		switch {
		case id == a.id:
		case !known || at.beat != p.beat:
			a.seen[id] = sight{p.beat, time.Now()}
		case time.Since(at.since) >= a.cfg.Patience:
			out = append(out, id)
		}
	}
	maps.DeleteFunc(a.seen, func(id string, _ sight) bool { return s.peers[id] == nil })
	return out
}

// apply remembers which kinds this process does not write as it prefers.
func (a *Agreement) apply(s *state) {
	next := map[string]string{}
	var broken error
	for _, name := range slices.Sorted(maps.Keys(a.mine)) {
		reads, form := a.mine[name], s.written[name]
		if form == "" || form == reads[0] {
			continue
		}
		next[name] = form
		if !slices.Contains(reads, form) && broken == nil {
			broken = fmt.Errorf("%s are stored as %s by %s, and this program reads only %s: stop those servers first, "+
				"or run a program here that reads it too (registry.Kind.Also)", name, form, s.users(name, form, a.id), list(reads))
		}
		if !a.told[name] {
			a.told[name] = true
			a.cfg.Logger.Info("objects are still written in the form that other processes on the store know", "resource", name,
				"form", form, "preferred", reads[0], "because", s.users(name, form, a.id))
		}
	}
	var before map[string]string
	if was := a.others.Swap(&next); was != nil {
		before = *was
	}
	a.broken.Store(nil)
	if broken != nil {
		a.broken.Store(&broken)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := next[name]; still || a.mine[name] == nil {
			continue
		}
		delete(a.told, name)
		a.cfg.Logger.Info("objects are written in the preferred form from now on", "resource", name, "form", a.mine[name][0])
		if a.cfg.Settled != nil {
			a.cfg.Settled(name)
		}
	}
}
