package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/bench/driver"
	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/process"
	"github.com/kindwright/kindwright/bench/server"
	"github.com/kindwright/kindwright/bench/shape"
)

// measure runs the measurements. On error, the report holds the results so far.
func measure(ctx context.Context, o *options, progress io.Writer) (*report, error) {
	id, err := server.NewIdentity("bench-token")
	if err != nil {
		return nil, err
	}
	r := &report{Machine: process.ThisMachine()}
	for _, s := range o.shapes {
		p := &plan{options: o, identity: id, shape: s, progress: progress, report: r}
		if err := p.run(ctx); err != nil {
			return r, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return r, nil
}

// plan is the set of measurements with one shape.
type plan struct {
	*options
	identity *server.Identity
	shape    shape.Shape
	progress io.Writer
	report   *report

	servers []*source
	profile string // the file of the next profile, or ""
}

// source creates the targets of one name.
type source struct {
	name    string
	backend server.Backend // "" for the peer
	target  *driver.Target // the current target, or nil
	child   *server.Child
}

func (p *plan) run(ctx context.Context) (err error) {
	for _, b := range p.backends {
		p.servers = append(p.servers, &source{name: string(b), backend: b})
	}
	if p.peer.url != "" {
		p.servers = append(p.servers, &source{name: p.peer.name})
	}
	defer func() {
		for _, s := range p.servers {
			err = errors.Join(err, p.end(s))
		}
	}()
	for _, w := range driver.Workloads(p.scale) {
		if !p.options.run.MatchString(w.Name) {
			continue
		}
		for round := range p.rounds {
			order := slices.Clone(p.servers)
			if round%2 == 1 { // A B, B A: slow changes of the machine affect both alike
				slices.Reverse(order)
			}
			for _, s := range order {
				r, err := p.once(ctx, w, s)
				if err != nil {
					return err
				}
				r.Round = round
				p.report.Results = append(p.report.Results, result{Shape: p.shape.Name, Result: r})
				_, _ = fmt.Fprintln(p.progress, line(p.shape.Name, r)) // output errors are ignored
			}
		}
		if err := p.profiles(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// profiles runs a workload once more on each of our servers and discards its figures: profiling
// costs time too.
func (p *plan) profiles(ctx context.Context, w driver.Workload) error {
	if p.options.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(p.options.profiles, 0o755); err != nil {
		return err
	}
	for _, s := range p.servers {
		if s.backend == "" {
			continue
		}
		name := strings.Join([]string{p.shape.Name, s.name, strings.ReplaceAll(w.Name, "/", "-")}, "-") + ".pprof"
		p.profile = filepath.Join(p.options.profiles, name)
		_, err := p.once(ctx, w, s)
		p.profile = ""
		if err != nil {
			return err
		}
	}
	return nil
}

// once runs a workload on a server. A memory workload gets a new server, except for a peer.
func (p *plan) once(ctx context.Context, w driver.Workload, s *source) (driver.Result, error) {
	if w.Fresh && s.backend != "" {
		fresh := &source{name: s.name, backend: s.backend}
		if err := p.begin(ctx, fresh); err != nil {
			return driver.Result{}, err
		}
		r := w.Run(ctx, fresh.target)
		err := p.heap(ctx, fresh.child)
		return r, firstOf(ctx.Err(), err, p.end(fresh))
	}
	if err := p.begin(ctx, s); err != nil {
		return driver.Result{}, err
	}
	r := w.Run(ctx, s.target)
	return r, ctx.Err()
}

// begin ensures that a source has a target.
func (p *plan) begin(ctx context.Context, s *source) (err error) {
	if s.target != nil {
		return nil
	}
	config := driver.Config{Name: s.name, Shape: p.shape}
	if s.backend == "" {
		config.URL, config.Token, config.TLS, config.Processes = p.peer.url, p.peer.token, p.peer.tls, p.peer.processes
		if err := p.install(ctx); err != nil {
			return err
		}
	} else {
		if s.child, err = server.Start(ctx, p.identity, s.backend, p.dir, limit.Faults{}); err != nil {
			return err
		}
		config.URL, config.Token, config.TLS = s.child.URL, p.identity.Token, p.identity.TLS()
		config.Processes, config.LiveHeap = s.child.Processes, s.child.LiveHeap
		config.Observe = func(ctx context.Context) (func(context.Context) error, error) { return p.observe(ctx, s.child) }
	}
	s.target, err = driver.Open(ctx, config, p.scale)
	return err
}

// observe takes a CPU profile of the measurement, if one is due.
func (p *plan) observe(ctx context.Context, c *server.Child) (func(context.Context) error, error) {
	file := p.profile
	if file == "" {
		return func(context.Context) error { return nil }, nil
	}
	if err := c.StartProfile(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		data, err := c.StopProfile(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(file, data, 0o644)
	}, nil
}

// heap takes a heap profile at the end of a memory workload, if one is due.
func (p *plan) heap(ctx context.Context, c *server.Child) error {
	if p.profile == "" {
		return nil
	}
	data, err := c.HeapProfile(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(p.profile, ".pprof")+"-heap.pprof", data, 0o644)
}

// end releases a source's target and stops its server if it is ours.
func (p *plan) end(s *source) error {
	var err error
	if s.target != nil {
		if s.backend == "" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err = s.target.Clean(ctx)
		}
		s.target.Close()
	}
	if s.child != nil {
		err = errors.Join(err, s.child.Stop())
	}
	s.target, s.child = nil, nil
	return err
}

// install creates the shape's definition on the peer and waits until the kind is served.
func (p *plan) install(ctx context.Context) error {
	if !p.peer.install || p.shape.Definition == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: p.peer.tls, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	code, err := p.ask(ctx, client, http.MethodPost, definitions, p.shape.Definition)
	if err != nil || code != http.StatusCreated && code != http.StatusConflict {
		return fmt.Errorf("POST %s: %d: %w", definitions, code, err)
	}
	for {
		switch code, err := p.ask(ctx, client, http.MethodGet, p.shape.In("default"), nil); {
		case err != nil:
			return fmt.Errorf("wait for %s: %w", p.shape.Name, err)
		case code == http.StatusOK:
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *plan) ask(ctx context.Context, client *http.Client, method, path string, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.peer.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.peer.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.peer.token)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
