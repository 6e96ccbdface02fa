package crd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

// informer follows a collection as Kubernetes' clients do. It lists once.
type informer struct {
	t   *testing.T
	srv *apitest.Server
	at  string

	mu   sync.Mutex
	seen map[string]string // resourceVersions by name
	rev  string
}

// get sends a GET and returns the body of the answer.
func get(ctx context.Context, srv *apitest.Server, path string) (int, io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil)
	if err != nil {
		return 0, nil, err
	}
	answer, err := srv.Client().Do(r)
	if err != nil {
		return 0, nil, err
	}
	return answer.StatusCode, answer.Body, nil
}

// run watches until ctx ends, each time from where the last watch has ended.
func (i *informer) run(ctx context.Context) {
	for ctx.Err() == nil {
		i.mu.Lock()
		rev := i.rev
		i.mu.Unlock()
		code, body, err := get(ctx, i.srv, i.at+"?watch=true&allowWatchBookmarks=true&resourceVersion="+rev)
		if err != nil {
			if ctx.Err() == nil {
				i.t.Errorf("watch: %v", err)
			}
			return
		}
		if code != http.StatusOK {
			i.t.Errorf("a watch from %s was refused with %d", rev, code)
		}
		for lines := bufio.NewScanner(body); lines.Scan(); {
			i.event(lines.Bytes())
		}
		_ = body.Close()
	}
}

func (i *informer) event(line []byte) {
	var event struct {
		Type   string
		Object struct {
			Metadata struct{ Name, ResourceVersion string }
		}
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return // the end of the test has cut it
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch o := event.Object.Metadata; event.Type {
	case "ERROR":
		i.t.Errorf("an informer would have to list again: %s", line)
	case "DELETED":
		delete(i.seen, o.Name)
		i.rev = o.ResourceVersion
	case "BOOKMARK":
		i.rev = o.ResourceVersion
	default:
		i.seen[o.Name], i.rev = o.ResourceVersion, o.ResourceVersion
	}
}

func (i *informer) state() map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.seen)
}

// changingFor lets TestVER_15_ADefinitionChangesUnderLoad run for a time with many clients:
//
//	make crds-churn DURATION=1m
var changingFor = flag.Duration("changing", 0, "how long a definition changes every 10 ms under 50 writers, 50 readers and 100 informers; 0 for a few of each")

// clientsPause is how long each writer and reader pauses between requests. Without a pause, the clients
// take all processors, and the number of changes says how long one request waits for a processor.
var clientsPause = flag.Duration("pause", 400*time.Millisecond, "how long a writer or a reader pauses between its requests, with -changing")

// underLoad is how many clients there are, and how long they work.
type underLoad struct {
	writers, readers, informers int
	goesOn                      func(n int) bool // whether there is a request number n of each client
	between                     time.Duration    // changes of the definition
	pause                       time.Duration    // between the requests of a client
}

// chosenLoad is what the flag says.
func chosenLoad() underLoad {
	if *changingFor == 0 {
		return underLoad{writers: 4, readers: 2, informers: 6, goesOn: func(n int) bool { return n < 30 }}
	}
	end := time.Now().Add(*changingFor)
	return underLoad{writers: 50, readers: 50, informers: 100, goesOn: func(int) bool { return time.Now().Before(end) }, between: 10 * time.Millisecond, pause: *clientsPause}
}

// A definition changes all the time: descriptions, and which version is stored. No request of its
// kind fails, and informers of all versions end with what a list shows, without listing again.
func TestVER_15_ADefinitionChangesUnderLoad(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, text(t, multiVersion()))
	const objectsOfEach = 2
	load := chosenLoad()
	ctx, cancel := context.WithCancel(t.Context())
	var following, working sync.WaitGroup
	defer following.Wait()
	defer cancel()
	versions := []string{"v1alpha1", "v1beta1"}
	var informers []*informer
	for n := range load.informers {
		i := &informer{t: t, srv: srv, at: objects(versions[n%2]), seen: map[string]string{}, rev: "1"}
		_, list := call(t, srv, "GET", i.at, "")
		i.rev = list["metadata"].(tree)["resourceVersion"].(string)
		informers = append(informers, i)
		following.Go(func() { i.run(ctx) })
	}
	var sent atomic.Int64
	send := func(method, path, contentType, body string) {
		sent.Add(1)
		r, err := http.NewRequestWithContext(ctx, method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", contentType)
		answer, err := srv.Client().Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		if data, _ := io.ReadAll(answer.Body); answer.StatusCode >= http.StatusMultipleChoices {
			t.Errorf("%s %s: %s", method, path, data)
		}
	}
	for w := range load.writers {
		bodies := make([]string, objectsOfEach)
		for n := range bodies {
			bodies[n] = text(t, fixture(fmt.Sprintf("w%d-%d", w, n), versions[n%2]))
		}
		working.Go(func() {
			for n, body := range bodies {
				send("POST", objects(versions[n%2]), "application/json", body)
			}
			for n := 0; load.goesOn(n); n++ {
				one := fmt.Sprintf("%s/w%d-%d", objects(versions[(n+w)%2]), w, n%objectsOfEach)
				send("PATCH", one, "application/merge-patch+json", fmt.Sprintf(`{"num":{"num1":%d}}`, n))
				send("GET", one, "", "")
				time.Sleep(load.pause)
			}
		})
	}
	for r := range load.readers {
		working.Go(func() {
			for n := r; load.goesOn(n); n++ {
				send("GET", objects(versions[n%2]), "", "")
				time.Sleep(load.pause)
			}
		})
	}
	changes := 0
	for next := time.Now(); load.goesOn(changes); changes++ {
		redefine(t, srv, func(spec tree) {
			storing(versions[changes%2])(spec)
			for _, v := range spec["versions"].([]any) {
				v.(tree)["schema"].(tree)["openAPIV3Schema"].(tree)["description"] = fmt.Sprintf("change %d", changes)
			}
		})
		next = next.Add(load.between)
		time.Sleep(time.Until(next))
	}
	working.Wait()
	for _, i := range informers {
		require.Eventually(t, func() bool {
			_, list := call(t, srv, "GET", i.at, "")
			want := map[string]string{}
			for _, item := range list["items"].([]any) {
				metadata := item.(tree)["metadata"].(tree)
				want[metadata["name"].(string)] = metadata["resourceVersion"].(string)
			}
			return len(want) == load.writers*objectsOfEach && maps.Equal(want, i.state())
		}, time.Minute, 5*time.Millisecond)
	}
	t.Logf("%d changes of the definition, %d requests", changes, sent.Load())
}

// A watch that ends while an event is being converted does not tell that the client has seen the event.
func TestWATCH_29_NoBookmarkPassesAnEventThatWasNotSent(t *testing.T) {
	var holding atomic.Bool
	held := make(chan struct{})
	srv := start(t, crd.Kinds(crd.Convert("multiversion.stable.example.com", func(ctx context.Context, to string, objects []tree) ([]tree, error) {
		if to == "stable.example.com/v1alpha1" && holding.CompareAndSwap(true, false) {
			close(held)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		out := make([]tree, len(objects))
		for i, o := range objects {
			out[i] = maps.Clone(o)
			out[i]["apiVersion"] = to
		}
		return out, nil
	})))
	establish(t, srv, text(t, multiVersion()))
	_, list := call(t, srv, "GET", objects("v1alpha1"), "")
	rev := list["metadata"].(tree)["resourceVersion"].(string)
	code, body, err := get(t.Context(), srv, objects("v1alpha1")+"?watch=true&allowWatchBookmarks=true&resourceVersion="+rev)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	defer func() { _ = body.Close() }()

	holding.Store(true)
	code, created := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("a", "v1beta1")))
	require.Equal(t, http.StatusCreated, code, "%v", created)
	<-held
	redefine(t, srv, func(spec tree) { // the watch ends with the kind that it began with
		spec["versions"].([]any)[0].(tree)["schema"].(tree)["openAPIV3Schema"].(tree)["description"] = "changed"
	})
	again := &informer{t: t, srv: srv, at: objects("v1alpha1"), seen: map[string]string{}, rev: rev}
	for lines := bufio.NewScanner(body); lines.Scan(); {
		again.event(lines.Bytes())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { again.run(ctx) })
	require.Eventually(t, func() bool { return len(again.state()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	following.Wait()
}
