package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/bench/process"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

const group = "memory.example.com"

// Part is the object that is kept.
type Part struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Color           string            `json:"color" selectable:""`
	Data            map[string]string `json:"data,omitempty"`
}

// figures are what the command prints.
type figures struct {
	Objects       int     `json:"objects"`
	JSON          int     `json:"json_bytes"`          // of one object
	ReadyCPU      float64 `json:"ready_cpu_s"`         // opening the file and starting
	Ready         float64 `json:"ready_wall_s"`        // the same by the clock
	HeapPerObject float64 `json:"heap_bytes_object"`   // after a collection, less that of an empty server
	Beyond        float64 `json:"beyond_json_bytes"`   // of an object; negative if texts are shared
	HeapObjects   float64 `json:"heap_objects_object"` // the same in heap objects
	CollectCPU    float64 `json:"gc_cycle_cpu_ms"`
	ResidentMiB   float64 `json:"resident_MiB"`
}

func main() {
	objects := flag.Int("objects", 200_000, "how many objects")
	flag.Parse()
	if err := run(context.Background(), *objects); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, objects int) error {
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "objects.db")
	var length int
	if err := serve(ctx, path, func(srv *kindwright.Server, _ *bbolt.DB) (err error) {
		length, err = create(ctx, srv)
		return err
	}); err != nil {
		return err
	}
	if err := fill(ctx, path, objects); err != nil {
		return err
	}
	out := figures{Objects: objects, JSON: length}
	before := heap()
	cpu, begin := used(), time.Now()
	err = serve(ctx, path, func(*kindwright.Server, *bbolt.DB) error {
		out.ReadyCPU, out.Ready = (used() - cpu).Seconds(), time.Since(begin).Seconds()
		after := heap()
		out.HeapPerObject = float64(after.HeapAlloc-before.HeapAlloc) / float64(objects)
		out.HeapObjects = float64(after.HeapObjects-before.HeapObjects) / float64(objects)
		out.Beyond = out.HeapPerObject - float64(length)
		out.CollectCPU = collections()
		resident, err := process.Group{os.Getpid()}.Resident()
		out.ResidentMiB = float64(resident) / (1 << 20)
		return err
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// serve runs a server on a file while f does.
func serve(ctx context.Context, path string, f func(*kindwright.Server, *bbolt.DB) error) error {
	db, err := bbolt.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{"system:masters"}}, true, nil
	})
	kind := registry.Kind[Part]{Group: group, Version: "v1", Plural: "parts", Scope: registry.ClusterScoped}
	srv, err := kindwright.New(db, kindwright.Serve(kind), kindwright.Authenticate(admin))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		return err
	}
	return f(srv, db)
}

// pattern stands for the digits of a name.
const pattern = "12345678"

// create makes the object that is copied. It returns the length of its JSON.
func create(ctx context.Context, srv *kindwright.Server) (int, error) {
	object := `{"apiVersion":"` + group + `/v1","kind":"Part","metadata":{"name":"part-` + pattern + `","labels":{"app":"a","tier":"b"}},` +
		`"color":"red","data":{"a":"` + strings.Repeat("x", 500) + `"}}`
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/apis/"+group+"/v1/parts?fieldManager=memory", strings.NewReader(object))
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	srv.ServeHTTP(answer, r)
	if answer.Code != http.StatusCreated {
		return 0, fmt.Errorf("create: %d %s", answer.Code, answer.Body)
	}
	return answer.Body.Len(), nil
}

// fill copies the record under other names.
func fill(ctx context.Context, path string, objects int) error {
	db, err := bbolt.Open(path)
	if err != nil {
		return err
	}
	store := storage.New(db)
	defer func() { _ = store.Close() }()
	page, err := store.List(ctx, storage.ListRequest{Prefix: "/r/", Limit: 1000})
	if err != nil {
		return err
	}
	page.Records = slices.DeleteFunc(page.Records, func(r storage.Record) bool { return !strings.Contains(r.Key, pattern) })
	if len(page.Records) != 1 {
		return fmt.Errorf("%d records have %s in their key", len(page.Records), pattern)
	}
	var ops []storage.Op
	for i := range objects {
		digits := fmt.Sprintf("%08d", i)
		value := bytes.Replace(page.Records[0].Value, []byte(pattern), []byte(digits), 1)
		key := strings.Replace(page.Records[0].Key, pattern, digits, 1)
		if ops = append(ops, storage.Put(key, value, storage.Any)); len(ops) == 128 || i == objects-1 {
			if _, err := store.Commit(ctx, ops); err != nil {
				return err
			}
			ops = ops[:0]
		}
	}
	return nil
}

func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// collections returns the processor time of one cycle of garbage collection in milliseconds.
func collections() float64 {
	const cycles = 5
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}}
	read := func() float64 {
		metrics.Read(sample)
		return sample[0].Value.Float64() - sample[1].Value.Float64()
	}
	runtime.GC()
	before := read()
	for range cycles {
		runtime.GC()
	}
	return (read() - before) / cycles * 1000
}
