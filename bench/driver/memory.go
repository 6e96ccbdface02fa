package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/kindwright/kindwright/bench/load"
	"github.com/kindwright/kindwright/bench/process"
)

// concurrentLists is how many clients list at once in memory/lists16.
const concurrentLists = 16

func memoryWorkloads(scale Scale) []Workload {
	var out []Workload
	add := func(name, doc string, run func(context.Context, *Target) (Result, error)) {
		out = append(out, Workload{Name: "memory/" + name, Doc: doc, Fresh: true, run: run})
	}
	for _, n := range scale.MemoryObjects {
		add(fmt.Sprintf("load-%d", n), fmt.Sprintf("resident after %d objects were made", n),
			func(ctx context.Context, t *Target) (Result, error) { return t.memoryLoad(ctx, n) })
	}
	most := scale.MemoryObjects[len(scale.MemoryObjects)-1]
	add("lists16", fmt.Sprintf("peak above idle while 16 clients list %d objects, twice each", most),
		func(ctx context.Context, t *Target) (Result, error) { return t.memoryLists(ctx, most) })
	add("forms", fmt.Sprintf("resident after every representation of %d objects was asked for once", most),
		func(ctx context.Context, t *Target) (Result, error) { return t.memoryForms(ctx, most) })
	for _, n := range scale.IdleWatchers {
		add(fmt.Sprintf("idle-%d", n), fmt.Sprintf("resident with %d watches that see nothing, their HTTP/2 streams included", n),
			func(ctx context.Context, t *Target) (Result, error) { return t.memoryIdle(ctx, n) })
	}
	add("stalled", fmt.Sprintf("latency of %d watches, alone and beside %d that do not read", scale.Live, scale.Stalled),
		func(ctx context.Context, t *Target) (Result, error) { return t.memoryStalled(ctx) })
	add("churn", fmt.Sprintf("resident after %s at %g updates/s with %d watches of one object each", scale.ChurnTime,
		scale.ChurnRate, scale.ChurnWatchers),
		func(ctx context.Context, t *Target) (Result, error) { return t.memoryChurn(ctx) })
	return out
}

// settled waits for the server to release memory, and returns its resident memory.
func (t *Target) settled(ctx context.Context) (float64, error) {
	if err := pause(ctx, t.scale.Settle); err != nil {
		return 0, err
	}
	n, err := t.Processes.Resident()
	return mebibytes(n), err
}

// loadedWith creates n objects and returns the resident memory before and after.
func (t *Target) loadedWith(ctx context.Context, n int) (coll string, before, after float64, err error) {
	if before, err = t.settled(ctx); err != nil {
		return "", 0, 0, err
	}
	if coll, err = t.fill(ctx, "load", n); err != nil {
		return "", 0, 0, err
	}
	after, err = t.settled(ctx)
	return coll, before, after, err
}

// heap adds two figures if they are available: the resident memory that is file-backed, and the
// live heap. Measuring the heap changes the resident memory.
func (t *Target) heap(ctx context.Context, figures map[string]float64) error {
	switch n, err := t.Processes.Mapped(); {
	case err == nil:
		figures["of_files_MiB"] = mebibytes(n)
	case !errors.Is(err, process.ErrUnknown):
		return err
	}
	if t.LiveHeap == nil {
		return nil
	}
	n, err := t.LiveHeap(ctx)
	figures["heap_MiB"] = mebibytes(n)
	return err
}

func (t *Target) memoryLoad(ctx context.Context, n int) (Result, error) {
	_, before, after, err := t.loadedWith(ctx, n)
	if err != nil {
		return Result{}, err
	}
	data := mebibytes(t.dataBytes(n))
	figures := map[string]float64{
		"before_MiB": before, "resident_MiB": after, "data_MiB": data, "above_idle_per_data": (after - before) / data, "resident_per_data": after / data,
	}
	err = t.heap(ctx, figures)
	return Result{Operations: n}.with(figures), err
}

func (t *Target) memoryLists(ctx context.Context, n int) (Result, error) {
	coll, _, loaded, err := t.loadedWith(ctx, n)
	if err != nil {
		return Result{}, err
	}
	figures := map[string]float64{"loaded_MiB": loaded}
	// Return the garbage of loading to the system, or the lists would reuse its memory.
	if err := t.heap(ctx, figures); err != nil {
		return Result{}, err
	}
	idle, err := t.settled(ctx)
	if err != nil {
		return Result{}, err
	}
	figures["idle_MiB"] = idle
	if err := t.Processes.ResetPeak(); err != nil && !errors.Is(err, process.ErrUnknown) {
		return Result{}, err
	}
	var clients []*Target
	for range concurrentLists {
		c, err := Open(ctx, t.Config, t.scale)
		if err != nil {
			return Result{}, err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	size, err := t.drain(ctx, t.clients[0], request{path: coll})
	if err != nil {
		return Result{}, err
	}
	if size < t.dataBytes(n) {
		return Result{}, fmt.Errorf("GET %s: %d bytes cannot hold %d objects", coll, size, n)
	}
	r, err := t.loop(ctx, load.Loop{Workers: concurrentLists, Operations: 2 * concurrentLists}, func(ctx context.Context, w, _ int) (int64, error) {
		got, err := clients[w].drain(ctx, clients[w].clients[0], request{path: coll})
		if err == nil && got != size {
			err = fmt.Errorf("GET %s: %d bytes, want %d as before", coll, got, size)
		}
		return got, err
	})
	if err != nil {
		return r, err
	}
	switch peak, err := t.Processes.Peak(); {
	case err == nil:
		figures["peak_MiB"] = mebibytes(peak)
		figures["peak_above_idle_MiB"] = mebibytes(peak) - idle
	case !errors.Is(err, process.ErrUnknown):
		return r, err
	}
	return r.with(figures), nil
}

// memoryForms requests each form of a list. For forms that are not served it only reports how many
// there are.
func (t *Target) memoryForms(ctx context.Context, n int) (Result, error) {
	coll, before, idle, err := t.loadedWith(ctx, n)
	if err != nil {
		return Result{}, err
	}
	served, refused := 0, 0
	forms := append(listForms(),
		listForm{name: "yaml", accept: asYAML}, listForm{name: "pretty", query: "pretty=true"},
		listForm{name: "table-objects", accept: asTable, query: "includeObject=Object"},
		listForm{name: "partial-gzip", accept: asPartial, gzip: true}, listForm{name: "table-gzip", accept: asTable, gzip: true})
	for _, f := range forms {
		if f.field && t.Shape.Field == "" {
			continue
		}
		if f.field {
			f.query = "fieldSelector=" + url.QueryEscape(t.Shape.Field)
		}
		l := &lister{t: t, request: request{path: coll + "?" + f.query, accept: f.accept, gzip: f.gzip}}
		read := l.whole
		switch f.name {
		case "paged":
			read = l.pages
		case "watchlist":
			read = l.initial
		}
		_, _, err := read(ctx, false)
		if _, not := notServed(err); not {
			refused++
			continue
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", f.name, err)
		}
		served++
	}
	after, err := t.settled(ctx)
	if err != nil {
		return Result{}, err
	}
	figures := map[string]float64{
		"before_MiB": before, "loaded_MiB": idle, "resident_MiB": after,
		"above_loaded_MiB": after - idle, "not_served": float64(refused),
	}
	err = t.heap(ctx, figures)
	return Result{Operations: served}.with(figures), err
}

// hold reads a silent watch with as little memory as possible. It does not request bookmarks.
func hold(m *member, body io.Reader) error {
	var few [64]byte
	for {
		n, err := body.Read(few[:])
		if n > 0 {
			m.count.Add(1)
		}
		if err != nil {
			return err
		}
	}
}

func (t *Target) memoryIdle(ctx context.Context, n int) (Result, error) {
	coll, err := t.fill(ctx, "idle", 1)
	if err != nil {
		return Result{}, err
	}
	before, err := t.settled(ctx)
	if err != nil {
		return Result{}, err
	}
	from, err := t.version(ctx, coll)
	if err != nil {
		return Result{}, err
	}
	a, err := t.gather(ctx, gathering{watches: n, path: everything(coll, from), read: hold})
	if err != nil {
		return Result{}, err
	}
	defer a.close()
	after, err := t.settled(ctx)
	if err != nil {
		return Result{}, err
	}
	figures := map[string]float64{"before_MiB": before, "resident_MiB": after, "per_watch_KiB": (after - before) * 1024 / float64(n)}
	err = t.heap(ctx, figures)
	r := Result{Operations: n}.with(figures)
	if err != nil {
		return r, err
	}
	if ended, why := a.ended(); ended > 0 {
		return r, fmt.Errorf("%d of %d watches ended: %w", ended, n, why)
	}
	return r, nil
}

// stall returns a reader that does not read.
func stall(ctx context.Context) func(*member, io.Reader) error {
	return func(*member, io.Reader) error {
		<-ctx.Done()
		return ctx.Err()
	}
}

func (t *Target) memoryStalled(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x, err := t.newWriter(ctx, watchWriters)
	if err != nil {
		return Result{}, err
	}
	if err := x.each(ctx, update); err != nil {
		return Result{}, err
	}
	before, err := t.settled(ctx)
	if err != nil {
		return Result{}, err
	}
	// Stay far below the capacity of the machine. Otherwise the latencies measure queues.
	rate := max(t.scale.Pace/2/float64(t.scale.Live), 5)
	alone, err := x.live(ctx, rate)
	if err != nil {
		return Result{}, err
	}
	from, err := t.version(ctx, x.coll)
	if err != nil {
		return Result{}, err
	}
	deaf, err := t.gather(ctx, gathering{watches: t.scale.Stalled, path: everything(x.coll, from), read: stall(ctx), window: 64 << 10})
	if err != nil {
		return Result{}, err
	}
	defer deaf.close()
	defer cancel()
	beside, err := x.live(ctx, rate)
	if err != nil {
		return Result{}, err
	}
	after, err := t.Processes.Resident()
	if err != nil {
		return Result{}, err
	}
	p99 := func(v *verdict) float64 { return micros(load.Percentile(v.latencies, 0.99)) / 1e3 }
	r := Result{Operations: len(alone.latencies) + len(beside.latencies)}
	r = beside.report(alone.report(r))
	return r.with(map[string]float64{
		"live_p99_alone_ms": p99(alone), "live_p99_beside_ms": p99(beside), "ratio": p99(beside) / p99(alone),
		"before_MiB": before, "resident_MiB": mebibytes(after),
	}), nil
}

// live opens the watches that read, publishes updates, and returns the verdict.
func (x *writer) live(ctx context.Context, rate float64) (*verdict, error) {
	from, err := x.t.version(ctx, x.coll)
	if err != nil {
		return nil, err
	}
	a, err := x.t.gather(ctx, gathering{watches: x.t.scale.Live, path: everything(x.coll, from), read: record})
	if err != nil {
		return nil, err
	}
	defer a.close()
	l, out := x.publish(ctx, x.t.scale.StalledWrites, rate)
	a.await(ctx, len(l.since), x.t.scale.Timeout)
	a.close()
	return l.judge(a.members), firstOf(out.Failure, ctx.Err())
}

// memoryChurn updates objects for a while. Each object has one watch by name.
func (t *Target) memoryChurn(ctx context.Context) (Result, error) {
	n := t.scale.ChurnWatchers
	coll, before, loaded, err := t.loadedWith(ctx, n)
	if err != nil {
		return Result{}, err
	}
	from, err := t.version(ctx, coll)
	if err != nil {
		return Result{}, err
	}
	of := everything(coll, from)
	a, err := t.gather(ctx, gathering{watches: n, read: count, path: func(i int) string {
		return of(i) + "&fieldSelector=" + url.QueryEscape("metadata.name="+object(i))
	}})
	if err != nil {
		return Result{}, err
	}
	defer a.close()
	watched, err := t.settled(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := t.Processes.ResetPeak(); err != nil && !errors.Is(err, process.ErrUnknown) {
		return Result{}, err
	}
	updates := max(int(t.scale.ChurnRate*t.scale.ChurnTime.Seconds()), 1)
	bodies := make([][]byte, 64)
	loop := load.Loop{Workers: len(bodies), Operations: updates, Rate: t.scale.ChurnRate, Time: t.scale.ChurnTime}
	r, err := t.loop(ctx, loop, func(ctx context.Context, w, i int) (int64, error) {
		v := t.values("load", i%n)
		bodies[w] = t.Shape.Patch.Append(bodies[w][:0], v)
		return t.drain(ctx, t.clientOf(w), request{
			method: "PATCH", path: coll + "/" + v.Name,
			contentType: "application/merge-patch+json", body: bodies[w],
		})
	})
	if err != nil {
		return r, err
	}
	done := r.Operations
	for since := time.Now(); a.total() < int64(done) && time.Since(since) < t.scale.Timeout; {
		time.Sleep(5 * time.Millisecond)
	}
	at, err := t.Processes.Resident()
	if err != nil {
		return r, err
	}
	figures := map[string]float64{
		"before_MiB": before, "loaded_MiB": loaded, "with_watches_MiB": watched, "at_the_end_MiB": mebibytes(at),
		"missed": float64(done) - float64(a.total()), "written_MiB": mebibytes(t.dataBytes(1)) * float64(done),
	}
	if peak, err := t.Processes.Peak(); err == nil {
		figures["peak_MiB"] = mebibytes(peak)
	}
	err = t.heap(ctx, figures)
	r = r.with(figures)
	if err != nil {
		return r, err
	}
	if ended, why := a.ended(); ended > 0 {
		return r, fmt.Errorf("%d of %d watches ended: %w", ended, n, why)
	}
	if got := a.total(); got != int64(done) {
		return r, fmt.Errorf("%d events of %d updates were delivered", got, done)
	}
	return r, nil
}

// total returns the number of deliveries to all members.
func (a *audience) total() int64 {
	var n int64
	for _, m := range a.members {
		n += m.count.Load()
	}
	return n
}
