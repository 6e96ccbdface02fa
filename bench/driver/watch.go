package driver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/bench/load"
)

// watchWriters is how many write at once while others watch.
const watchWriters = 8

// pacedSeconds is how long writes are paced, at most.
const pacedSeconds = 4

// opening is how many watches are opened at once.
const opening = 32

func watchWorkloads(scale Scale) []Workload {
	var out []Workload
	for _, n := range scale.Watchers {
		out = append(out, Workload{
			Name: fmt.Sprintf("watch/%d", n),
			Doc:  fmt.Sprintf("updates as fast as they go, delivered to %d watches of the collection; an operation is a delivery", n),
			run:  func(ctx context.Context, t *Target) (Result, error) { return t.watches(ctx, n, 0) },
		})
		if n == 1 {
			continue // nearly all of its processor time would be the writes'
		}
		out = append(out, Workload{
			Name: fmt.Sprintf("watch-paced/%d", n),
			Doc:  fmt.Sprintf("updates at a steady rate, delivered to %d watches of the collection; an operation is a delivery", n),
			run: func(ctx context.Context, t *Target) (Result, error) {
				return t.watches(ctx, n, min(scale.Pace/float64(n), 200))
			},
		})
	}
	return out
}

// delivery is an event as a watcher saw it.
type delivery struct {
	version uint64
	at      time.Time
}

// audience is some open watches.
type audience struct {
	cancel  context.CancelFunc
	clients []*http.Client
	readers sync.WaitGroup
	members []*member
}

// member is one watch. Its reader alone writes the deliveries until the audience is closed.
type member struct {
	count      atomic.Int64
	ended      atomic.Pointer[error] // why, if it was not the audience that ended it
	deliveries []delivery
}

// gathering says what an audience watches, and how.
type gathering struct {
	watches int
	path    func(i int) string
	read    func(m *member, body io.Reader) error // reads one to its end
	window  int                                   // see client
}

// gather opens watches.
func (t *Target) gather(ctx context.Context, g gathering) (*audience, error) {
	ctx, cancel := context.WithCancel(ctx)
	a := &audience{cancel: cancel, members: make([]*member, g.watches)}
	for range (g.watches + streamsPerConnection - 1) / streamsPerConnection {
		a.clients = append(a.clients, t.client(g.window))
	}
	if err := t.connect(ctx, a.clients); err != nil { // else the first streams of each would race to do it
		a.close()
		return nil, err
	}
	for i := range a.members {
		a.members[i] = new(member)
	}
	out := load.Loop{Workers: opening, Operations: g.watches}.Run(ctx, func(_ context.Context, _, i int) (int64, error) {
		res, err := t.send(ctx, a.clients[i%len(a.clients)], request{path: g.path(i)})
		if err != nil {
			return 0, err
		}
		a.readers.Go(func() {
			defer res.Body.Close()
			if err := g.read(a.members[i], res.Body); ctx.Err() == nil {
				a.members[i].ended.Store(&err)
			}
		})
		return 0, nil
	})
	if out.Failure != nil {
		a.close()
		return nil, fmt.Errorf("open %d watches: %w", g.watches, out.Failure)
	}
	return a, nil
}

// close ends the watches and waits for their readers.
func (a *audience) close() {
	a.cancel()
	a.readers.Wait()
	for _, c := range a.clients {
		c.CloseIdleConnections()
	}
}

// await returns when every member has n deliveries or has ended, or when none has got on for as long as the patience.
func (a *audience) await(ctx context.Context, n int, patience time.Duration) {
	last, since := int64(-1), time.Now()
	for ctx.Err() == nil {
		all, total := true, int64(0)
		for _, m := range a.members {
			got := m.count.Load()
			total += got
			all = all && (got >= int64(n) || m.ended.Load() != nil)
		}
		if total != last {
			last, since = total, time.Now()
		}
		if all || time.Since(since) > patience {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// ended returns how many watches ended by themselves, and why one did.
func (a *audience) ended() (n int, why error) {
	for _, m := range a.members {
		if err := m.ended.Load(); err != nil {
			n, why = n+1, *err
		}
	}
	return n, why
}

// record reads events and notes when each came.
func record(m *member, body io.Reader) error {
	return events(body, func(event []byte) error {
		now := time.Now()
		version, err := versionNumber(event)
		if err != nil {
			return fmt.Errorf("%w: %.300s", err, event)
		}
		m.deliveries = append(m.deliveries, delivery{version, now})
		m.count.Add(1)
		return nil
	})
}

// count reads events and counts them.
func count(m *member, body io.Reader) error {
	return events(body, func([]byte) error { m.count.Add(1); return nil })
}

// events gives each event of a watch to see, but for bookmarks. It returns why the watch ended.
func events(body io.Reader, see func(event []byte) error) error {
	frames := newLines(bufio.NewReaderSize(body, 8<<10))
	for {
		event, err := frames.next()
		if err != nil {
			return fmt.Errorf("the watch ended: %w", err)
		}
		switch kindOf(event) {
		case "BOOKMARK":
			continue
		case "ADDED", "MODIFIED", "DELETED":
		default:
			return fmt.Errorf("the watch sent %.300s", event)
		}
		if err := see(event); err != nil {
			return err
		}
	}
}

// ledger is which versions were acknowledged, and when the write of each began.
type ledger struct {
	mu    sync.Mutex
	since map[uint64]time.Time
}

// publish updates objects, n in all, at a rate or as fast as they go.
func (x *writer) publish(ctx context.Context, n int, rate float64) (*ledger, load.Outcome) {
	l := &ledger{since: make(map[uint64]time.Time, n)}
	out := load.Loop{Workers: watchWriters, Operations: n, Rate: rate}.Run(ctx, func(ctx context.Context, w, _ int) (int64, error) {
		began := time.Now()
		version, err := x.write(ctx, w, update)
		if err != nil {
			return 0, err
		}
		number, err := strconv.ParseUint(version, 10, 64)
		if err != nil {
			return 0, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.since[number] = began
		return 0, nil
	})
	return l, out
}

// verdict is what is wrong with what some watchers saw, and how long deliveries took, from the beginning of the write.
type verdict struct {
	missed, doubled, reordered, ended, unknown int
	why                                        error
	latencies                                  []time.Duration
	last                                       time.Time
}

func (v *verdict) errors() int { return v.missed + v.doubled + v.reordered + v.ended + v.unknown }

// judge compares what the members saw with what was acknowledged; they are closed.
func (l *ledger) judge(members []*member) *verdict {
	v := &verdict{}
	for _, m := range members {
		if err := m.ended.Load(); err != nil {
			v.ended++
			v.why = *err
		}
		seen := make(map[uint64]struct{}, len(l.since))
		var before uint64
		for _, d := range m.deliveries {
			began, acknowledged := l.since[d.version]
			_, again := seen[d.version]
			switch {
			case !acknowledged:
				v.unknown++
				continue
			case again:
				v.doubled++
				continue
			case d.version < before:
				v.reordered++
			}
			seen[d.version] = struct{}{}
			before = max(before, d.version)
			v.latencies = append(v.latencies, d.at.Sub(began))
			if d.at.After(v.last) {
				v.last = d.at
			}
		}
		v.missed += len(l.since) - len(seen)
	}
	slices.Sort(v.latencies)
	return v
}

// report puts a verdict into a result.
func (v *verdict) report(r Result) Result {
	r.Errors += v.errors()
	if v.errors() > 0 {
		text := fmt.Sprintf("events: %d missed, %d doubled, %d reordered, %d of no acknowledged write; %d watches ended", v.missed, v.doubled, v.reordered, v.unknown, v.ended)
		if v.why != nil {
			text += ": " + v.why.Error()
		}
		if r.FirstError != "" {
			text += "; " + r.FirstError
		}
		r.FirstError = text
	}
	return r.with(map[string]float64{
		"missed": float64(v.missed), "doubled": float64(v.doubled), "reordered": float64(v.reordered), "ended": float64(v.ended),
	})
}

// watches measures deliveries. What the same writes cost without a watch, measured before and after, is taken off the
// server's processor time.
func (t *Target) watches(ctx context.Context, n int, rate float64) (Result, error) {
	x, err := t.newWriter(ctx, watchWriters)
	if err != nil {
		return Result{}, err
	}
	if err := x.each(ctx, update); err != nil { // learns the versions
		return Result{}, err
	}
	writes := min(max(t.scale.Deliveries/n, 100), 3000)
	if rate > 0 {
		writes = min(writes, max(int(rate*pacedSeconds), 10))
	}
	before, err := x.unseen(ctx, writes, rate)
	if err != nil {
		return Result{}, err
	}
	from, err := t.version(ctx, x.coll)
	if err != nil {
		return Result{}, err
	}
	a, err := t.gather(ctx, gathering{watches: n, path: everything(x.coll, from), read: record})
	if err != nil {
		return Result{}, err
	}
	defer a.close()
	if err := pause(ctx, t.scale.Settle/10); err != nil {
		return Result{}, err
	}
	var out load.Outcome
	var l *ledger
	began := time.Now()
	seen, err := t.spent(ctx, func() {
		l, out = x.publish(ctx, writes, rate)
		a.await(ctx, len(l.since), t.scale.Patience)
	})
	a.close()
	if err != nil {
		return Result{}, err
	}
	after, err := x.unseen(ctx, writes, rate)
	if err != nil {
		return Result{}, err
	}
	v := l.judge(a.members)
	r := account(load.Outcome{Latencies: v.latencies, Failed: out.Failed, Failure: out.Failure, Elapsed: v.last.Sub(began)}, seen)
	if r.Operations > 0 {
		r = r.with(map[string]float64{"serverCPU_us_with_writes": r.ServerCPU, "writes_per_s": float64(len(l.since)) / out.Elapsed.Seconds()})
		r.ServerCPU = micros(seen.server-(before+after)/2) / float64(r.Operations)
	}
	return v.report(r), ctx.Err()
}

// unseen returns what writes cost the server that nobody watches.
func (x *writer) unseen(ctx context.Context, writes int, rate float64) (time.Duration, error) {
	var out load.Outcome
	c, err := x.t.costOf(func() { _, out = x.publish(ctx, writes, rate) })
	return c.server, firstOf(err, out.Failure)
}

// everything is the path of a watch of a whole collection after a version.
func everything(coll, from string) func(int) string {
	path := coll + "?watch=true&timeoutSeconds=36000&resourceVersion=" + from
	return func(int) string { return path }
}

// version returns the version of a collection.
func (t *Target) version(ctx context.Context, coll string) (string, error) {
	var body bytes.Buffer
	if err := t.fetch(ctx, t.clients[0], request{path: coll + "?limit=1"}, &body); err != nil {
		return "", err
	}
	list, err := parseList(body.Bytes())
	if err == nil && list.Metadata.ResourceVersion == "" {
		err = fmt.Errorf("GET %s: a list without a version", coll)
	}
	return list.Metadata.ResourceVersion, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
