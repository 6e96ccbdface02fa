package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/storage/memory"
)

// converter is a conversion webhook that renames apiVersion, and the number of its calls.
func converter(calls *atomic.Int64) *httptest.Server {
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Request    struct {
				UID               string           `json:"uid"`
				DesiredAPIVersion string           `json:"desiredAPIVersion"`
				Objects           []map[string]any `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, o := range review.Request.Objects {
			o["apiVersion"] = review.Request.DesiredAPIVersion
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": review.APIVersion, "kind": review.Kind,
			"response": map[string]any{
				"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"},
			},
		})
	}))
}

// throughWebhook compares lists in the version of the records with lists that a webhook has converted.
func throughWebhook() error {
	const size = 2_000
	var calls atomic.Int64
	hook := converter(&calls)
	defer hook.Close()
	m, end, err := startOn(memory.New(), crd.Kinds())
	if err != nil {
		return err
	}
	defer end()
	if err := m.defineConverted(hook); err != nil {
		return err
	}
	m.await(0)
	for i := range size {
		if err := m.must("POST", objectsPath(0), "application/json", machine(0, fmt.Sprintf("m%d", i))); err != nil {
			return err
		}
	}
	const other = "/apis/g0.example.dev/v2/machines0"
	began := processor()
	if err := m.must("GET", other, "", ""); err != nil {
		return err
	}
	fmt.Printf("list of %d through a webhook, cold         %8.2f ms with the webhook, %d calls\n", size, ms(processor()-began), calls.Load())
	if err := m.must("GET", other, "", ""); err != nil { // what is asked for twice is kept
		return err
	}
	paths := map[*measured]string{}
	as := [2]*measured{{Server: m.Server}, {Server: m.Server}}
	paths[as[0]], paths[as[1]] = objectsPath(0), other
	before := calls.Load()
	if err := compareServers(fmt.Sprintf("list of %d, webhook / record", size), 10, as, func(m *measured, _ int) error {
		return m.must("GET", paths[m], "", "")
	}); err != nil {
		return err
	}
	fmt.Printf("calls of the webhook for warm lists         %8d\n", calls.Load()-before)
	return nil
}

// defineConverted sends definition 0 with a second version and a webhook.
func (m *measured) defineConverted(hook *httptest.Server) error {
	if err := m.define(0); err != nil {
		return err
	}
	m.await(0)
	name := definitionsPath + "/machines0.g0.example.dev"
	_, answer := m.send("GET", name, "", "")
	var object map[string]any
	if err := json.Unmarshal([]byte(answer), &object); err != nil {
		return err
	}
	spec, _ := object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	first, ok := versions[0].(map[string]any)
	if !ok {
		return errors.New("the definition has no version")
	}
	second := map[string]any{"name": "v2", "served": true, "storage": false, "schema": first["schema"], "subresources": first["subresources"]}
	spec["versions"] = append(versions, second)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": hook.URL, "caBundle": bundle},
	}}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := m.must("PUT", name, "application/json", string(body)); err != nil {
		return err
	}
	for {
		if code, _ := m.send("GET", "/apis/g0.example.dev/v2/machines0", "", ""); code == http.StatusOK {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// informers lets 1,000 clients watch a kind while the limits in its schema change, and counts those
// that would have to list again.
func informers() error {
	const clients, changes = 1_000, 20
	m, end, err := startOn(memory.New(), crd.Kinds())
	if err != nil {
		return err
	}
	defer end()
	if err := m.define(0); err != nil {
		return err
	}
	m.await(0)
	if err := m.must("POST", objectsPath(0), "application/json", machine(0, "a")); err != nil {
		return err
	}
	_, list := m.send("GET", objectsPath(0), "", "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all := make([]*informer, clients)
	var following sync.WaitGroup
	for i := range all {
		all[i] = &informer{version: versionOf(list)}
		following.Go(func() { all[i].run(ctx, m) })
	}
	began := processor()
	for n := range changes {
		patch := fmt.Sprintf(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum","value":%d}]`, 100+n)
		if err := m.must("PATCH", definitionsPath+"/machines0.g0.example.dev", "application/json-patch+json", patch); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := m.must("POST", objectsPath(0), "application/json", machine(0, "last")); err != nil {
		return err
	}
	watches, relists := int64(0), int64(0)
	for _, i := range all {
		for !i.done.Load() && i.relists.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		watches += i.watches.Load()
		relists += i.relists.Load()
	}
	fmt.Printf("%d informers, %d changes of validation     %8d relists, %d watches, processor %.0f ms a change\n", clients, changes,
		relists, watches, ms(processor()-began)/changes)
	cancel()
	following.Wait()
	return nil
}

// informer watches from the version that it has seen, as client-go does.
type informer struct {
	version          string
	watches, relists atomic.Int64
	done             atomic.Bool
	code             int
}

func (i *informer) run(ctx context.Context, m *measured) {
	for ctx.Err() == nil && !i.done.Load() {
		i.watches.Add(1)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, objectsPath(0)+"?watch=true&allowWatchBookmarks=true&resourceVersion="+i.version, nil)
		i.code = http.StatusOK
		m.ServeHTTP(i.writer(), r)
		if i.code != http.StatusOK {
			i.relists.Add(1)
			return
		}
	}
}

func (i *informer) writer() *events { return &events{informer: i, header: http.Header{}} }

// events is the body of a watch.
type events struct {
	*informer
	header http.Header
	line   []byte
}

// Header implements http.ResponseWriter.
func (e *events) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter.
func (e *events) WriteHeader(code int) { e.code = code }

// Flush implements http.Flusher.
func (e *events) Flush() {}

// Write implements http.ResponseWriter.
func (e *events) Write(data []byte) (int, error) {
	e.line = append(e.line, data...)
	for {
		line, rest, ok := bytes.Cut(e.line, []byte("\n"))
		if !ok {
			return len(data), nil
		}
		e.line = rest
		if v := versionOf(string(line)); v != "" {
			e.version = v
		}
		if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
			e.relists.Add(1)
		}
		if bytes.Contains(line, []byte(`"name":"last"`)) {
			e.done.Store(true)
		}
	}
}
