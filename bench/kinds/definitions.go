package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// measureDefinitions measures what custom resource definitions cost that are sent over HTTP.
func measureDefinitions(one, all int) error {
	dir, err := os.MkdirTemp("", "definitions")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, step := range []func() error{
		func() error { return firstObjects("memory", memory.New(), 0) },
		func() error { return onFile(filepath.Join(dir, "first.db"), "bbolt", 0) },
		func() error { return firstObjects("memory", memory.New(), all) },
		func() error { return onFile(filepath.Join(dir, "many.db"), "bbolt", all) },
		func() error { return manyDefinitions(one) },
		func() error { return restart(filepath.Join(dir, "restart.db"), one) },
		besideGo,
		throughWebhook,
		informers,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func onFile(file, name string, before int) error {
	db, err := bbolt.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return firstObjects(name, db, before)
}

// startOn returns a server on a backend, and what ends it.
func startOn(db storage.Backend, serve ...registry.Definition) (*measured, func(), error) {
	ctx, cancel := context.WithCancel(context.Background())
	server, err := kindwright.New(db, kindwright.Authorize(authz.AlwaysAllow()), kindwright.Serve(serve...))
	if err != nil {
		cancel()
		return nil, nil, err
	}
	end := func() {
		cancel()
		server.Wait()
	}
	if err := server.Start(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return &measured{Server: server, shared: 1}, end, nil
}

// definition returns a definition of its own group, which has the schema of a Machine.
func definition(n int) ([]byte, error) {
	return crd.From(registry.Kind[Machine]{
		Group: fmt.Sprintf("g%d.example.dev", n), Version: "v1", Scope: registry.ClusterScoped,
		Names: registry.Names{Kind: fmt.Sprintf("Machine%d", n)}, Plural: fmt.Sprintf("machines%d", n),
	})
}

func objectsPath(n int) string { return fmt.Sprintf("/apis/g%d.example.dev/v1/machines%d", n, n) }

// machine returns an object of kind n.
func machine(n int, name string) string {
	return fmt.Sprintf(`{"apiVersion":"g%d.example.dev/v1","kind":"Machine%d","metadata":{"name":%q,"labels":{"app":"shop"}},
		"spec":{"size":5,"image":"registry.example.com/shop:1.2.3","labels":{"tier":"front","zone":"a"},
		"ports":[{"name":"http","number":80},{"name":"metrics","number":9090}]}}`, n, n, name)
}

// define sends definition n.
func (m *measured) define(n int) error {
	body, err := definition(n)
	if err != nil {
		return err
	}
	return m.must("POST", definitionsPath, "application/yaml", string(body))
}

// must sends a request that has to succeed.
func (m *measured) must(method, path, contentType, body string) error {
	if code, answer := m.send(method, path, contentType, body); code >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %d %s", method, path, code, answer)
	}
	return nil
}

// await waits until kind n is served.
func (m *measured) await(n int) {
	for {
		if code, _ := m.send("GET", objectsPath(n), "", ""); code == http.StatusOK {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// firstObjects measures the time from the moment when a definition is sent until its first object is
// created.
func firstObjects(name string, db storage.Backend, before int) error {
	m, end, err := startOn(db, crd.Kinds())
	if err != nil {
		return err
	}
	defer end()
	for n := range before {
		if err := m.define(n); err != nil {
			return err
		}
	}
	if before > 0 {
		m.await(before - 1)
	}
	runtime.GC() // do not count earlier garbage
	const times = 101
	var took, cpu []time.Duration
	for n := before; n < before+times; n++ {
		began, worked := time.Now(), processor()
		if err := m.define(n); err != nil {
			return err
		}
		for {
			code, answer := m.send("POST", objectsPath(n), "application/json", machine(n, "first"))
			if code == http.StatusCreated {
				break
			}
			if code != http.StatusNotFound {
				return fmt.Errorf("the first object: %d %s", code, answer)
			}
			time.Sleep(100 * time.Microsecond)
		}
		took, cpu = append(took, time.Since(began)), append(cpu, processor()-worked)
	}
	slices.Sort(took)
	slices.Sort(cpu)
	fmt.Printf("first object, %6s, %5d definitions       %8.2f ms, p90 %.2f ms, processor %.2f ms\n", name, before,
		ms(took[times/2]), ms(took[times*9/10]), ms(cpu[times/2]))
	return nil
}

func ms(d time.Duration) float64 { return 1e3 * d.Seconds() }

// manyDefinitions measures what n definitions take.
func manyDefinitions(n int) error {
	m, end, err := startOn(memory.New(), crd.Kinds())
	if err != nil {
		return err
	}
	defer end()
	if err := m.get("/apis", "/openapi/v3"); err != nil {
		return err
	}
	m.before = heap()
	goroutines := runtime.NumGoroutine()
	var first, last time.Duration
	began, bytes := processor(), allocated()
	for i := range n {
		at := processor()
		if err := m.define(i); err != nil {
			return err
		}
		m.await(i)
		if i < n/10 {
			first += processor() - at
		} else if i >= n-n/10 {
			last += processor() - at
		}
	}
	cpu, bytes := processor()-began, allocated()-bytes
	m.made = n
	body, err := definition(0)
	if err != nil {
		return err
	}
	fmt.Printf("%d definitions of %.1f KB                  %8.2f s processor, %.0f KiB allocated each\n", n, float64(len(body))/1e3,
		cpu.Seconds(), float64(bytes)/float64(n)/1024)
	fmt.Printf("last tenth / first tenth                    %8.2f\n", last.Seconds()/first.Seconds())
	m.memory("a definition without documents")
	fmt.Printf("goroutines more than before                 %8d\n", runtime.NumGoroutine()-goroutines)
	if err := m.get("/apis", "/openapi/v3"); err != nil {
		return err
	}
	for i := range n {
		if err := m.get(fmt.Sprintf("/openapi/v3/apis/g%d.example.dev/v1", i)); err != nil {
			return err
		}
	}
	m.memory("a definition, every document fetched")
	return nil
}

// restart measures the start of a server with n definitions of 10 objects each.
func restart(file string, n int) error {
	db, err := bbolt.Open(file)
	if err != nil {
		return err
	}
	m, end, err := startOn(db, crd.Kinds())
	if err != nil {
		return err
	}
	for i := range n {
		if err := m.define(i); err != nil {
			return err
		}
		m.await(i)
		for j := range 10 {
			if err := m.must("POST", objectsPath(i), "application/json", machine(i, fmt.Sprintf("m%d", j))); err != nil {
				return err
			}
		}
	}
	end()
	if err := db.Close(); err != nil {
		return err
	}
	runtime.GC()
	began, cpu := time.Now(), processor()
	if db, err = bbolt.Open(file); err != nil {
		return err
	}
	if m, end, err = startOn(db, crd.Kinds()); err != nil {
		return err
	}
	m.await(n - 1)
	fmt.Printf("restart, %d definitions of 10 objects      %8.2f s, processor %.2f s\n", n, time.Since(began).Seconds(), (processor() - cpu).Seconds())
	end()
	return db.Close()
}

// besideGo compares the objects of a definition with those of the Go kind that it was made from.
func besideGo() error {
	kind := registry.Kind[Machine]{
		Group: "g0.example.dev", Version: "v1", Names: registry.Names{Kind: "Machine0"}, Plural: "machines0", Scope: registry.ClusterScoped,
	}
	native, endNative, err := startOn(memory.New(), kind)
	if err != nil {
		return err
	}
	defer endNative()
	custom, endCustom, err := startOn(memory.New(), crd.Kinds())
	if err != nil {
		return err
	}
	defer endCustom()
	if err := custom.define(0); err != nil {
		return err
	}
	custom.await(0)
	both := [2]*measured{native, custom}
	versions := map[*measured]map[string]string{native: {}, custom: {}}
	for _, m := range both {
		for i := range 500 {
			name := fmt.Sprintf("m%d", i)
			code, answer := m.send("POST", objectsPath(0), "application/json", machine(0, name))
			if code != http.StatusCreated {
				return fmt.Errorf("create: %d %s", code, answer)
			}
			versions[m][name] = versionOf(answer)
		}
	}
	return compareObjects(both, versions)
}

// compareObjects compares requests for 500 objects that both servers have.
func compareObjects(both [2]*measured, versions map[*measured]map[string]string) error {
	made := 0
	for _, w := range []struct {
		name  string
		times int
		do    func(m *measured, i int) error
	}{
		{"get", 2000, func(m *measured, i int) error {
			return m.must("GET", fmt.Sprintf("%s/m%d", objectsPath(0), i%500), "", "")
		}},
		{"list of 500", 40, func(m *measured, _ int) error { return m.must("GET", objectsPath(0), "", "") }},
		{"create", 500, func(m *measured, _ int) error {
			made++
			return m.must("POST", objectsPath(0), "application/json", machine(0, fmt.Sprintf("new%d", made)))
		}},
		{"update", 500, func(m *measured, i int) error {
			made++
			name := fmt.Sprintf("m%d", i%500)
			body := strings.Replace(machine(0, name), `"size":5`, fmt.Sprintf(`"size":%d`, made%90+1), 1)
			body = strings.Replace(body, `"name":`, `"resourceVersion":"`+versions[m][name]+`","name":`, 1)
			code, answer := m.send("PUT", objectsPath(0)+"/"+name, "application/json", body)
			if code != http.StatusOK {
				return fmt.Errorf("update: %d %s", code, answer)
			}
			versions[m][name] = versionOf(answer)
			return nil
		}},
		{"merge patch", 500, func(m *measured, i int) error {
			made++
			return m.must("PATCH", fmt.Sprintf("%s/m%d", objectsPath(0), i%500), "application/merge-patch+json", fmt.Sprintf(`{"spec":{"size":%d}}`, made%90+1))
		}},
	} {
		if err := compareServers(w.name, w.times, both, w.do); err != nil {
			return err
		}
	}
	return nil
}

// versionOf returns the resourceVersion of an object in an answer.
func versionOf(answer string) string {
	_, rest, _ := strings.Cut(answer, `"resourceVersion":"`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

// compareServers does the same on two servers in turns and prints what the second takes for each unit
// of the first. The median of the rounds tells more than the sum on a machine that others use too.
func compareServers(name string, times int, both [2]*measured, do func(*measured, int) error) error {
	const turns = 21
	var of [2][]time.Duration
	var bytes [2]uint64
	for range turns {
		for k, m := range both {
			runtime.GC()
			before, began := allocated(), processor()
			for i := range times {
				if err := do(m, i); err != nil {
					return err
				}
			}
			of[k] = append(of[k], processor()-began)
			bytes[k] += allocated() - before
		}
	}
	for k := range of {
		slices.Sort(of[k])
	}
	fmt.Printf("%-43s %8.2f of the time, %.2f of the bytes (%.1f µs, %.1f KiB)\n", name,
		of[1][turns/2].Seconds()/of[0][turns/2].Seconds(), float64(bytes[1])/float64(bytes[0]),
		1e6*of[1][turns/2].Seconds()/float64(times), float64(bytes[1])/float64(turns*times)/1024)
	return nil
}
