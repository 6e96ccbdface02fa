package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// follower keeps a copy of all objects of a kind by watches, each of which goes on where the one
// before ended.
type follower struct {
	srv     *apitest.Server
	path    string
	version string
	have    map[string]string // resource versions by name
	until   func(have map[string]string) bool
}

func (f *follower) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if done, err := f.watch(ctx); done || err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *follower) watch(ctx context.Context) (done bool, err error) {
	r, err := http.NewRequestWithContext(ctx, "GET", f.srv.URL+f.path+"?watch=true&allowWatchBookmarks=true&resourceVersion="+f.version, nil)
	if err != nil {
		return false, err
	}
	answer, err := f.srv.Client().Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != 200 {
		return false, fmt.Errorf("watch from %s: %s", f.version, answer.Status)
	}
	for events := json.NewDecoder(answer.Body); ; {
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Name, ResourceVersion string }
				Message  string
			}
		}
		if err := events.Decode(&event); err != nil {
			return false, nil // the watch ended in order: the kind was replaced
		}
		f.version = event.Object.Metadata.ResourceVersion
		switch event.Type {
		case "ERROR":
			return false, fmt.Errorf("watch: %s", event.Object.Message)
		case "ADDED", "MODIFIED":
			f.have[event.Object.Metadata.Name] = f.version
		case "DELETED":
			delete(f.have, event.Object.Metadata.Name)
		}
		if f.until(f.have) {
			return true, nil
		}
	}
}

// A definition changes all the time. No request for its objects fails, and clients that watch miss
// nothing and never begin anew.
func TestCRD_04_RequestsGoOnWhileADefinitionChanges(t *testing.T) {
	const writers, writes, followers = 4, 40, 4
	const objects = "/apis/shop.example.com/v1/namespaces/default/shirts"
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		establish(t, srv, shirts)
		send := func(method, path, body string) (int, map[string]any) {
			r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
			if err != nil {
				return 0, nil
			}
			if method == "PATCH" {
				r.Header.Set("Content-Type", string(meta.JSONPatch))
			}
			answer, err := srv.Client().Do(r)
			if err != nil {
				return 0, nil
			}
			defer func() { _ = answer.Body.Close() }()
			var out map[string]any
			_ = json.NewDecoder(answer.Body).Decode(&out)
			return answer.StatusCode, out
		}
		_, list := send("GET", objects, "")
		start := list["metadata"].(map[string]any)["resourceVersion"].(string)
		errs := make(chan error, writers*writes*2+followers)
		var all, writing sync.WaitGroup
		for range followers {
			all.Go(func() {
				f := follower{srv: srv, path: objects, version: start, have: map[string]string{}, until: func(have map[string]string) bool { return len(have) == writers*writes }}
				if err := f.run(t.Context()); err != nil {
					errs <- err
				}
			})
		}
		for w := range writers {
			writing.Go(func() {
				for i := range writes {
					code, answer := send("POST", objects, fmt.Sprintf(`{"metadata":{"name":"s%d-%d"},"spec":{"size":1}}`, w, i))
					if code != 201 {
						errs <- fmt.Errorf("create: %d %v", code, answer)
					}
					if code, answer = send("GET", objects+"?limit=5", ""); code != 200 {
						errs <- fmt.Errorf("list: %d %v", code, answer)
					}
				}
			})
		}
		stop := make(chan struct{})
		var changing sync.WaitGroup
		changing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				code, answer := send("PATCH", definitions+"/shirts.shop.example.com", fmt.Sprintf(
					`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/p%d","value":{"type":"string","maxLength":%d}}]`, i%3, i+1))
				if code != 200 {
					errs <- fmt.Errorf("change: %d %v", code, answer)
					return
				}
			}
		})
		writing.Wait()
		close(stop)
		changing.Wait()
		all.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
	})
}
