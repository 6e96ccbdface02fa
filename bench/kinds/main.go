// Command kinds measures what kinds cost a running server: to install them one at a time, to
// install one more when there are many, to keep them, and to publish their documents.
//
//	make kinds-scale
//	make crds-scale
//
// The second measures definitions that clients send, with -definitions: the time until their first
// object, their memory, a restart, their objects beside those of a Go kind, conversions by a webhook,
// and informers while a definition changes.
//
// Each kind has its own schema, group version and table, like kinds from custom resource
// definitions; with -shared, several kinds share a group version. Times are processor times of all
// threads, including garbage collection unless the line says otherwise. Memory is the heap after a
// collection, minus the heap without kinds, divided by the number of kinds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

func main() {
	one := flag.Int("one", 1_000, "how many kinds to install one at a time")
	all := flag.Int("all", 10_000, "how many kinds there are before one more is installed, and for OpenAPI v2")
	shared := flag.Int("shared", 1, "how many kinds share a group version")
	definitions := flag.Bool("definitions", false, "measure custom resource definitions instead")
	flag.Parse()
	run := func() error { return measure(*one, *all, *shared) }
	if *definitions {
		run = func() error { return measureDefinitions(*one, *all) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kinds:", err)
		os.Exit(1)
	}
}

// measured is a server with a number of kinds.
type measured struct {
	*kindwright.Server
	shared, made int
	before       float64 // bytes of heap without kinds
}

// rounds is how often two servers are compared.
const rounds = 5

// start returns a server without kinds, and what ends it.
func start(shared int) (*measured, func(), error) {
	m, end, err := startOn(memory.New())
	if err == nil {
		m.shared = shared
	}
	return m, end, err
}

func measure(one, all, shared int) error {
	ctx := context.Background()
	m, end, err := start(shared)
	if err != nil {
		return err
	}
	defer end()
	if err := m.get("/apis", "/openapi/v2"); err != nil {
		return err
	}
	m.before = heap()
	for _, step := range []func() error{
		func() error { return m.oneAtATime(ctx, one) },
		func() error { return m.oneMore(ctx, all) },
		m.describe,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// oneAtATime installs kinds with schemas of their own. The total counts garbage collection.
func (m *measured) oneAtATime(ctx context.Context, n int) error {
	if n > 100 {
		if err := compare(ctx, n, m.shared); err != nil {
			return err
		}
	}
	runtime.GC() // do not count earlier garbage
	began := processor()
	if err := m.install(ctx, n); err != nil {
		return err
	}
	fmt.Printf("%d kinds one at a time, schemas included  %8.2f s\n", n, (processor() - began).Seconds())
	m.memory("a kind without documents")
	return m.documents(n)
}

// compare compares the last hundred of n kinds with the first.
//
// Two servers get them in turns, one of which has the other kinds already. So both find the same
// heap and the same machine: with one server after the other, or one hundred after the other, what
// the allocator and other programs do to the processor's caches is more than the difference. The
// garbage collector rests, because a collection costs more than a hundred kinds do, and where it
// falls is chance. What more kinds make a collection cost shows in the total and in the memory that
// a kind takes.
func compare(ctx context.Context, n, shared int) error {
	var first, last cost
	for range rounds {
		if err := takeTurns(ctx, n, shared, &first, &last); err != nil {
			return err
		}
	}
	fmt.Printf("last 100 of %d / first 100                %8.2f of the time, %.2f of the bytes\n", n,
		last.time.Seconds()/first.time.Seconds(), float64(last.bytes)/float64(first.bytes))
	return nil
}

// takeTurns adds what the first and the last hundred of n kinds cost, ten kinds at a time.
func takeTurns(ctx context.Context, n, shared int, first, last *cost) error {
	few, end, err := start(shared)
	if err != nil {
		return err
	}
	defer end()
	many, end, err := start(shared)
	if err != nil {
		return err
	}
	defer end()
	if err := many.install(ctx, n-100); err != nil {
		return err
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 10 {
		if err := errors.Join(few.add(ctx, 10, first), many.add(ctx, 10, last)); err != nil {
			return err
		}
	}
	return nil
}

// cost is what it costs to install some kinds.
type cost struct {
	time  time.Duration
	bytes uint64 // allocated
}

// add installs n kinds one at a time and adds what that costs.
func (m *measured) add(ctx context.Context, n int, to *cost) error {
	bytes, began := allocated(), processor()
	err := m.install(ctx, n)
	to.time += processor() - began
	to.bytes += allocated() - bytes
	return err
}

// install installs n kinds one at a time.
func (m *measured) install(ctx context.Context, n int) error {
	for range n {
		if err := m.Install(ctx, m.next()); err != nil {
			return err
		}
	}
	return nil
}

// documents fetches what a client needs to discover all kinds, except OpenAPI v2.
func (m *measured) documents(n int) error {
	began := processor()
	if err := m.get("/apis"); err != nil {
		return err
	}
	fmt.Printf("discovery of %d kinds                      %8.2f ms\n", n, 1e3*(processor()-began).Seconds())
	began = processor()
	if err := m.get("/openapi/v3"); err != nil {
		return err
	}
	fmt.Printf("OpenAPI v3 of %d kinds                     %8.2f s\n", n, (processor() - began).Seconds())
	m.memory("a kind with discovery and OpenAPI v3")
	if err := m.Install(context.Background(), m.next()); err != nil {
		return err
	}
	began = processor()
	if err := m.get("/apis", "/openapi/v3"); err != nil {
		return err
	}
	fmt.Printf("both again after one more kind              %8.2f ms\n", 1e3*(processor()-began).Seconds())
	return nil
}

// oneMore installs kinds up to a number and then measures the cost of another one.
func (m *measured) oneMore(ctx context.Context, n int) error {
	var definitions []registry.Definition
	for m.made < n {
		definitions = append(definitions, m.next())
	}
	began := processor()
	if err := m.Install(ctx, definitions...); err != nil {
		return err
	}
	fmt.Printf("%d kinds at once                          %8.2f s\n", len(definitions), (processor() - began).Seconds())
	const more = 100
	described := make([]registry.Definition, more)
	for i := range described {
		described[i] = m.next()
	}
	runtime.GC() // do not count earlier garbage
	began = processor()
	for _, d := range described {
		if err := m.Install(ctx, d); err != nil {
			return err
		}
	}
	fmt.Printf("one more at %d, schema included           %8.2f ms\n", n, 1e3*(processor()-began).Seconds()/more)
	return nil
}

// describe measures OpenAPI v2 and checks that it is freed.
func (m *measured) describe() error {
	for _, accept := range []string{"application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"} {
		runtime.GC()
		began := processor()
		size, err := m.fetch("/openapi/v2", accept)
		if err != nil {
			return err
		}
		fmt.Printf("OpenAPI v2 of %d kinds, %4.0f MB            %8.2f s\n", m.made, float64(size)/1e6, (processor() - began).Seconds())
	}
	return nil
}

func (m *measured) memory(what string) {
	fmt.Printf("%-43s %8.1f KiB\n", what, (heap()-m.before)/float64(m.made)/1024)
}

// next returns the definition of a new kind.
func (m *measured) next() registry.Definition {
	m.made++
	return registry.Kind[Machine]{
		Group: fmt.Sprintf("g%d.example.dev", m.made/m.shared), Version: "v1",
		Names: registry.Names{Kind: fmt.Sprintf("Machine%d", m.made)}, Plural: fmt.Sprintf("machines%d", m.made),
	}
}

// Machine is a kind of typical size.
type Machine struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            MachineSpec   `json:"spec"`
	Status          MachineStatus `json:"status,omitzero"`
}

// MachineSpec is the desired state of a Machine.
type MachineSpec struct {
	Size     int32             `json:"size" minimum:"1" maximum:"100" doc:"How large it is."`
	Image    string            `json:"image" maxLength:"200" doc:"What it runs."`
	Policy   string            `json:"policy,omitempty" enum:"Always,Never" default:"Always"`
	Labels   map[string]string `json:"labels,omitempty"`
	Ports    []Port            `json:"ports,omitempty" list:"map,key=name"`
	Replicas int32             `json:"replicas,omitempty" default:"1"`
}

// Port is a port of a Machine.
type Port struct {
	Name   string `json:"name" pattern:"^[a-z]+$"`
	Number int32  `json:"number" minimum:"1" maximum:"65535"`
}

// MachineStatus is the observed state of a Machine.
type MachineStatus struct {
	Ready      int32       `json:"ready,omitempty"`
	Conditions []Condition `json:"conditions,omitempty" list:"map,key=type"`
}

// Condition is a condition of a Machine.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status" enum:"True,False,Unknown"`
	Message string `json:"message,omitempty"`
}

// get requests documents like client-go.
func (m *measured) get(paths ...string) error {
	for _, path := range paths {
		if _, err := m.fetch(path, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"); err != nil {
			return err
		}
	}
	return nil
}

func (m *measured) fetch(path, accept string) (int, error) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return 0, fmt.Errorf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Len(), nil
}

// send sends a request and returns the code and the body of the answer.
func (m *measured) send(method, path, contentType, body string) (int, string) {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// allocated returns the number of bytes that were allocated since the program began.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only invalid arguments can fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
