package crd_test

import (
	"context"
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

// migrationLoad is a kind whose stored version changes under writers, readers and informers. Each writer has objects of
// its own and counts up in them.
type migrationLoad struct {
	t        *testing.T
	srv      *apitest.Server
	versions []string // that clients use
	stop     atomic.Bool
	failed   atomic.Int64
	mu       sync.Mutex
	counts   map[string]float64 // what each object was last set to
}

// send sends a request that must not fail.
func (l *migrationLoad) send(method, path, contentType, body string) int {
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.srv.URL+path, strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return 0
	}
	r.Header.Set("Content-Type", contentType)
	answer, err := l.srv.Client().Do(r)
	if err != nil {
		l.t.Error(err)
		return 0
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode != http.StatusConflict {
		l.failed.Add(1)
		l.t.Errorf("%s %s: %d %v %.300s", method, path, answer.StatusCode, err, data)
	}
	return answer.StatusCode
}

// write counts up in the objects of a writer.
func (l *migrationLoad) write(writer, objectsOfEach int) {
	for n := 0; !l.stop.Load(); n++ {
		name := fmt.Sprintf("w%d-%d", writer, n%objectsOfEach)
		path := objects(l.versions[(n+writer)%len(l.versions)])
		if n < objectsOfEach {
			l.send("POST", path, "application/json", text(l.t, fixture(name, l.versions[(n+writer)%len(l.versions)])))
		}
		l.send("PATCH", path+"/"+name, "application/merge-patch+json", fmt.Sprintf(`{"num":{"num1":%d}}`, n+2))
		l.mu.Lock()
		l.counts[name] = float64(n + 2)
		l.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

func (l *migrationLoad) read(reader int) {
	for n := reader; !l.stop.Load(); n++ {
		l.send("GET", objects(l.versions[n%len(l.versions)]), "", "")
		time.Sleep(time.Millisecond)
	}
}

// written waits until each object was written some more times. A writer has one request in progress at a time, so
// after two more writes none is left that began before.
func (l *migrationLoad) written(times, objectsOfEach, want int) {
	now := func() map[string]float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return maps.Clone(l.counts)
	}
	before := now()
	require.Eventually(l.t, func() bool {
		counts := now()
		for name, count := range counts {
			if count < before[name]+float64(times*objectsOfEach) {
				return false
			}
		}
		return len(counts) == want
	}, time.Minute, time.Millisecond)
}

// migrate writes each object as it is, as the controller of storage version migrations does.
func (l *migrationLoad) migrate(version string) {
	_, list := call(l.t, l.srv, "GET", objects(version), "")
	for _, item := range list["items"].([]any) {
		metadata := item.(tree)["metadata"].(tree)
		body := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, metadata["uid"], metadata["resourceVersion"])
		// A conflict says that somebody else has written the object since, and so in the new version.
		l.send("PATCH", objects(version)+"/"+metadata["name"].(string), "application/merge-patch+json", body)
	}
}

// The stored version changes under load. Then all objects are written as they are, and no object is in the old version any
// more, which may go. No request fails, no write is lost, and informers do not list again.
func TestCRD_23_TheStoredVersionChangesUnderLoad(t *testing.T) {
	for _, strategy := range []string{"None", "Webhook"} {
		t.Run(strategy, func(t *testing.T) {
			const writers, readers, followers, objectsOfEach = 6, 3, 6, 3
			srv := start(t, crd.Kinds())
			definition := multiVersion()
			if strategy == "Webhook" {
				definition["spec"].(tree)["conversion"] = newHook(t).conversion("v1")
			}
			establish(t, srv, text(t, definition))
			l := &migrationLoad{t: t, srv: srv, versions: []string{"v1beta1", "v1alpha1"}, counts: map[string]float64{}}
			ctx, cancel := context.WithCancel(t.Context())
			var following, working sync.WaitGroup
			defer following.Wait()
			defer cancel()
			var informers []*informer
			for n := range followers {
				i := &informer{t: t, srv: srv, at: objects(l.versions[n%2]), seen: map[string]string{}}
				_, list := call(t, srv, "GET", i.at, "")
				i.rev = list["metadata"].(tree)["resourceVersion"].(string)
				informers = append(informers, i)
				following.Go(func() { i.run(ctx) })
			}
			for n := range writers {
				working.Go(func() { l.write(n, objectsOfEach) })
			}
			for n := range readers {
				working.Go(func() { l.read(n) })
			}
			defer l.stop.Store(true)
			l.written(2, objectsOfEach, writers*objectsOfEach)
			for n := range writers * objectsOfEach { // objects that nobody writes, beside those of the writers
				l.send("POST", objects("v1beta1"), "application/json", text(t, fixture(fmt.Sprintf("still-%d", n), "v1beta1")))
			}
			redefine(t, srv, storing("v1alpha1"))
			require.Equal(t, "stable.example.com/v1beta1", recorded(t, srv, "still-0")["apiVersion"], "nothing is migrated until asked for")
			// A request in progress ends with the kind that it began with, so it may still store the old version.
			l.written(2, objectsOfEach, writers*objectsOfEach)
			l.migrate("v1beta1")
			l.written(2, objectsOfEach, writers*objectsOfEach)
			l.stop.Store(true)
			working.Wait()
			require.Zero(t, l.failed.Load())
			for name, count := range l.counts {
				o := recorded(t, srv, name)
				require.Equal(t, "stable.example.com/v1alpha1", o["apiVersion"], name)
				require.InDelta(t, count, o["num"].(tree)["num1"], 0, name)
			}
			for n := range writers * objectsOfEach {
				o := recorded(t, srv, fmt.Sprintf("still-%d", n))
				require.Equal(t, "stable.example.com/v1alpha1", o["apiVersion"])
				requireFixture(t, "v1alpha1", o)
			}
			code, answer := sent(t, srv, "PATCH", multiversion+"/status", "application/merge-patch+json", `{"status":{"storedVersions":["v1alpha1"]}}`)
			require.Equal(t, 200, code, "%v", answer)
			require.Equal(t, []any{"v1alpha1"}, answer["status"].(tree)["storedVersions"])
			for _, i := range informers {
				require.Eventually(t, func() bool {
					_, list := call(t, srv, "GET", i.at, "")
					want := map[string]string{}
					for _, item := range list["items"].([]any) {
						metadata := item.(tree)["metadata"].(tree)
						want[metadata["name"].(string)] = metadata["resourceVersion"].(string)
					}
					return len(want) == 2*writers*objectsOfEach && maps.Equal(want, i.state())
				}, time.Minute, 5*time.Millisecond)
			}
			cancel()
			following.Wait()
			redefine(t, srv, func(spec tree) { // the old version goes
				versions := spec["versions"].([]any)
				spec["versions"] = versions[1:]
			})
			code, list := call(t, srv, "GET", objects("v1alpha1"), "")
			require.Equal(t, 200, code, "%v", list)
			require.Len(t, list["items"], 2*writers*objectsOfEach)
		})
	}
}
