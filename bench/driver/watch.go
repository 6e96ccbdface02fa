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

// watchWriters is the number of concurrent writers while watches are open.
const watchWriters = 8

// pacedSeconds is the maximum time of steady writes.
const pacedSeconds = 4

// opening is the number of watches opened concurrently.
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
			continue // nearly all of the processor time would be spent on writes
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

// delivery is an event as received by a watch.
type delivery struct {
	version uint64
	at      time.Time
}

// audience is a set of open watches.
type audience struct {
	cancel  context.CancelFunc
	clients []*http.Client
	readers sync.WaitGroup
	members []*member
}

// member is one watch. Until the audience is closed, only its reader accesses the deliveries.
type member struct {
	count      atomic.Int64
	ended      atomic.Pointer[error] // the reason, unless the audience ended it
	deliveries []delivery
}

// gathering describes the watches of an audience.
type gathering struct {
	watches int
	path    func(i int) string
	read    func(m *member, body io.Reader) error // reads a watch to its end
	window  int                                   // see client
}

// gather opens watches.
func (t *Target) gather(ctx context.Context, g gathering) (*audience, error) {
	ctx, cancel := context.WithCancel(ctx)
	a := &audience{cancel: cancel, members: make([]*member, g.watches)}
	for range (g.watches + streamsPerConnection - 1) / streamsPerConnection {
		a.clients = append(a.clients, t.client(g.window))
	}
	if err := t.connect(ctx, a.clients); err != nil { // otherwise the first streams would race to connect
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

// await returns when every member has n deliveries or has ended, or when there was no progress for
// the timeout.
func (a *audience) await(ctx context.Context, n int, timeout time.Duration) {
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
		if all || time.Since(since) > timeout {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// ended returns the number of watches that ended by themselves, with one of the reasons.
func (a *audience) ended() (n int, why error) {
	for _, m := range a.members {
		if err := m.ended.Load(); err != nil {
			n, why = n+1, *err
		}
	}
	return n, why
}

// record reads events and records when each arrived.
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

// events passes each event of a watch to see, except bookmarks. It returns the reason for the end
// of the watch.
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
			return fmt.Errorf("unexpected event %.300s", event)
		}
		if err := see(event); err != nil {
			return err
		}
	}
}

// ledger records the acknowledged versions and when their writes began.
type ledger struct {
	mu    sync.Mutex
	since map[uint64]time.Time
}

// publish makes n updates, at a rate or as fast as possible.
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

// verdict holds the errors in the deliveries and their latencies, measured from the beginning of
// the write.
type verdict struct {
	missed, doubled, reordered, ended, unknown int
	why                                        error
	latencies                                  []time.Duration
	last                                       time.Time
}

func (v *verdict) errors() int { return v.missed + v.doubled + v.reordered + v.ended + v.unknown }

// judge compares the deliveries of closed watches with the acknowledged writes.
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

// report adds a verdict to a result.
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

// watches measures deliveries. It subtracts the processor time of the same writes without watches,
// measured before and after.
func (t *Target) watches(ctx context.Context, n int, rate float64) (Result, error) {
	x, err := t.newWriter(ctx, watchWriters)
	if err != nil {
		return Result{}, err
	}
	if err := x.each(ctx, update); err != nil { // learn the versions
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
		a.await(ctx, len(l.since), t.scale.Timeout)
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
		r = r.with(map[string]float64{
			"serverCPU_us_with_writes": r.ServerCPU,
			"writes_per_s":             float64(len(l.since)) / out.Elapsed.Seconds(),
		})
		r.ServerCPU = micros(seen.server-(before+after)/2) / float64(r.Operations)
	}
	return v.report(r), ctx.Err()
}

// unseen returns the cost of writes that are not watched.
func (x *writer) unseen(ctx context.Context, writes int, rate float64) (time.Duration, error) {
	var out load.Outcome
	c, err := x.t.costOf(func() { _, out = x.publish(ctx, writes, rate) })
	return c.server, firstOf(err, out.Failure)
}

// everything returns the path of a watch of a whole collection.
func everything(coll, from string) func(int) string {
	path := coll + "?watch=true&timeoutSeconds=36000&resourceVersion=" + from
	return func(int) string { return path }
}

// version returns the current version of a collection.
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
