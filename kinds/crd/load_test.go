package crd_test

import (
	"bufio"
	"context"
	"encoding/json"
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

// A definition changes all the time: descriptions, and which version is stored. No request of its
// kind fails, and informers of all versions end with what a list shows, without listing again.
func TestVER_15_ADefinitionChangesUnderLoad(t *testing.T) {
	srv := apitest.New(t, crd.Kinds())
	establish(t, srv, text(t, multiVersion()))
	const objectsOfEach, writes, changes = 2, 30, 40
	ctx, cancel := context.WithCancel(t.Context())
	var following, working sync.WaitGroup
	defer following.Wait()
	defer cancel()
	versions := []string{"v1alpha1", "v1beta1"}
	var informers []*informer
	for n := range 6 {
		i := &informer{t: t, srv: srv, at: objects(versions[n%2]), seen: map[string]string{}, rev: "1"}
		_, list := call(t, srv, "GET", i.at, "")
		i.rev = list["metadata"].(tree)["resourceVersion"].(string)
		informers = append(informers, i)
		following.Go(func() { i.run(ctx) })
	}
	send := func(method, path, contentType, body string) {
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
	for w := range 4 {
		bodies := make([]string, objectsOfEach)
		for n := range bodies {
			bodies[n] = text(t, fixture(fmt.Sprintf("w%d-%d", w, n), versions[n%2]))
		}
		working.Go(func() {
			for n, body := range bodies {
				send("POST", objects(versions[n%2]), "application/json", body)
			}
			for n := range writes {
				one := fmt.Sprintf("%s/w%d-%d", objects(versions[(n+w)%2]), w, n%objectsOfEach)
				send("PATCH", one, "application/merge-patch+json", fmt.Sprintf(`{"num":{"num1":%d}}`, n))
				send("GET", one, "", "")
				send("GET", objects(versions[n%2]), "", "")
			}
		})
	}
	for n := range changes {
		redefine(t, srv, func(spec tree) {
			storing(versions[n%2])(spec)
			for _, v := range spec["versions"].([]any) {
				v.(tree)["schema"].(tree)["openAPIV3Schema"].(tree)["description"] = fmt.Sprintf("change %d", n)
			}
		})
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
			return len(want) == 4*objectsOfEach && maps.Equal(want, i.state())
		}, time.Minute, 5*time.Millisecond)
	}
}

// A watch that ends while an event is being converted does not tell that the client has seen the event.
func TestWATCH_29_NoBookmarkPassesAnEventThatWasNotSent(t *testing.T) {
	var holding atomic.Bool
	held := make(chan struct{})
	srv := apitest.New(t, crd.Kinds(crd.Convert("multiversion.stable.example.com", func(ctx context.Context, to string, objects []tree) ([]tree, error) {
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
