package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kindwright/kindwright/bench/load"
)

// deletions is the maximum number of objects to delete.
const deletions = 4000

func writeWorkloads() []Workload {
	of := func(name, doc string, workers int, how change) Workload {
		return Workload{Name: name, Doc: fmt.Sprintf("%s, %d at once", doc, workers), run: func(ctx context.Context, t *Target) (Result, error) {
			return t.changes(ctx, workers, how)
		}}
	}
	create := func(workers int) Workload {
		return Workload{
			Name: fmt.Sprintf("create/c%d", workers), Doc: fmt.Sprintf("new objects, %d at once", workers),
			run: func(ctx context.Context, t *Target) (Result, error) { return t.creates(ctx, workers) },
		}
	}
	return []Workload{
		create(16), create(64),
		of("update/c16", "replace objects of a version", 16, update),
		of("patch/c16", "merge patches", 16, patch),
		of("apply-change/c16", "server-side apply that changes a field", 16, applyChange),
		of("apply-noop/c16", "server-side apply that changes nothing", 16, applySame),
		{
			Name: "delete/c16", Doc: "delete objects, 16 at once",
			run: func(ctx context.Context, t *Target) (Result, error) { return t.deletes(ctx) },
		},
		of("writes/c64", "acknowledged updates by 64 writers: look at the operations per second", 64, update),
	}
}

func (t *Target) creates(ctx context.Context, workers int) (Result, error) {
	coll, err := t.collection(ctx, "create")
	if err != nil {
		return Result{}, err
	}
	bodies := make([][]byte, workers)
	from := t.loaded["create"]
	r, err := t.loop(ctx, t.closed(workers), func(ctx context.Context, w, i int) (int64, error) {
		bodies[w] = t.Shape.Body.Append(bodies[w][:0], t.values("create", from+i))
		res, err := t.send(ctx, t.clientOf(w),
			request{method: http.MethodPost, path: coll, contentType: "application/json", body: bodies[w]})
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			return 0, fmt.Errorf("POST %s: %d", coll, res.StatusCode)
		}
		return discard(res)
	})
	t.loaded["create"] = from + r.Operations + r.Errors + workers
	return r, err
}

func discard(res *http.Response) (int64, error) {
	var sink bytes.Buffer
	return sink.ReadFrom(res.Body)
}

// deletes creates objects and deletes each.
func (t *Target) deletes(ctx context.Context) (Result, error) {
	from := t.loaded["delete"]
	n := min(t.scale.Operations, deletions)
	coll, err := t.fill(ctx, "delete", from+n)
	if err != nil {
		return Result{}, err
	}
	return t.loop(ctx, load.Loop{Workers: 16, Operations: n}, func(ctx context.Context, w, i int) (int64, error) {
		return t.drain(ctx, t.clientOf(w), request{method: http.MethodDelete, path: coll + "/" + object(from+i)})
	})
}

// change is a way to modify an object.
type change int

const (
	update change = iota
	patch
	applyChange
	applySame
)

// writer modifies the objects of the scratch collection. Each worker has its own objects, so writes
// do not conflict.
type writer struct {
	t       *Target
	coll    string
	workers []writerState
	version []string // last known version of each object, or ""
}

// writerState is the state of one worker.
type writerState struct {
	turn   int
	body   []byte
	answer bytes.Buffer
}

func (t *Target) newWriter(ctx context.Context, workers int) (*writer, error) {
	coll, err := t.fill(ctx, "scratch", t.scale.Scratch)
	if err != nil {
		return nil, err
	}
	return &writer{t: t, coll: coll, workers: make([]writerState, workers), version: make([]string, t.scale.Scratch)}, nil
}

// write modifies the next object of a worker and returns its new version.
func (x *writer) write(ctx context.Context, w int, how change) (version string, err error) {
	s := &x.workers[w]
	mine := len(x.version) / len(x.workers)
	i := w + len(x.workers)*(s.turn%mine)
	s.turn++
	defer func() {
		if err != nil {
			version = ""
		}
		x.version[i] = version
	}()
	path := x.coll + "/" + object(i)
	if x.version[i] == "" {
		if err := x.t.fetch(ctx, x.t.clientOf(w), request{path: path}, &s.answer); err != nil {
			return "", err
		}
		x.version[i] = firstVersion(s.answer.Bytes())
	}
	s.body = s.body[:0]
	if err := x.t.fetch(ctx, x.t.clientOf(w), x.request(s, i, how), &s.answer); err != nil {
		return "", err
	}
	version = firstVersion(s.answer.Bytes())
	switch {
	case version == "":
		return "", fmt.Errorf("%s: the response has no version: %.200s", path, s.answer.Bytes())
	case how != applySame && version == x.version[i]:
		return "", fmt.Errorf("%s: version %s did not change, although the object did", path, version)
	}
	return version, nil
}

// request builds the request that modifies object i.
func (x *writer) request(s *writerState, i int, how change) request {
	v := x.t.values("scratch", i)
	r := request{path: x.coll + "/" + object(i)}
	switch how {
	case update:
		v.Version = x.version[i]
		r.method, r.contentType = http.MethodPut, "application/json"
		s.body = x.t.Shape.Body.Append(s.body, v)
	case patch:
		r.method, r.contentType = http.MethodPatch, "application/merge-patch+json"
		s.body = x.t.Shape.Patch.Append(s.body, v)
	default:
		if how == applySame {
			v.Seq = 0
		}
		r.method, r.contentType = http.MethodPatch, "application/apply-patch+yaml"
		r.path += "?fieldManager=bench&force=true"
		s.body = x.t.Shape.Body.Append(s.body, v)
	}
	r.body = s.body
	return r
}

// changes writes in a loop. It warms up applies first: every object then has the manager, and
// no-ops change nothing.
func (t *Target) changes(ctx context.Context, workers int, how change) (Result, error) {
	x, err := t.newWriter(ctx, workers)
	if err != nil {
		return Result{}, err
	}
	if _, err := x.write(ctx, 0, how); err != nil { // find out here whether the operation is served
		return Result{}, err
	}
	if how == applyChange || how == applySame {
		if err := x.each(ctx, how); err != nil {
			return Result{}, err
		}
	}
	return t.loop(ctx, t.closed(workers), func(ctx context.Context, w, _ int) (int64, error) {
		mine := len(x.version) / len(x.workers)
		at := w + workers*(x.workers[w].turn%mine)
		before := x.version[at]
		after, err := x.write(ctx, w, how)
		if err == nil && how == applySame && before != after {
			err = fmt.Errorf("%s: a no-op apply changed the version from %s to %s", object(at), before, after)
		}
		return int64(len(x.workers[w].body)), err
	})
}

// each writes every object once.
func (x *writer) each(ctx context.Context, how change) error {
	workers := len(x.workers)
	mine := len(x.version) / workers
	out := load.Loop{Workers: workers, Operations: workers}.Run(ctx, func(ctx context.Context, _, i int) (int64, error) {
		for range mine {
			if _, err := x.write(ctx, i, how); err != nil { // any goroutine may run this, but only this worker has object i
				return 0, err
			}
		}
		return 0, nil
	})
	return out.Failure
}

// firstVersion returns the first resourceVersion in an object. That is the object's own: no field
// of that name can precede it in metadata.
func firstVersion(object []byte) string {
	_, after, found := bytes.Cut(object, []byte(`"resourceVersion":"`))
	if !found {
		return ""
	}
	version, _, _ := bytes.Cut(after, []byte(`"`))
	return string(version)
}

// versionNumber parses a version, so that versions can be ordered.
func versionNumber(object []byte) (uint64, error) {
	v := firstVersion(object)
	if v == "" {
		return 0, errors.New("object without a version")
	}
	return strconv.ParseUint(v, 10, 64)
}
