package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/bbolt"
)

const group = "walk.example.com"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: walk DIRECTORY")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := bbolt.Open(filepath.Join(dir, "walk.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{"system:masters"}}, true, nil
	})
	srv, err := kindwright.New(db, kindwright.Serve(widgets(), kinds.ControlPlane()), kindwright.Authenticate(admin))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		return err
	}
	listener := httptest.NewServer(srv)
	defer listener.Close()
	w := &walker{ctx: ctx, out: out, base: listener.URL + "/apis/" + group}
	defer w.closeWatch()
	return w.all()
}

// walker sends the requests.
type walker struct {
	ctx    context.Context // of all requests
	client http.Client
	out    string // counters go below this directory
	base   string // URL of the group
	watch  io.ReadCloser
}

const (
	widgetsPath = "/v1/namespaces/default/widgets"
	applied     = `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"one"},"spec":{"size":2}}`
)

func (w *walker) all() error {
	const pages = 600 // enough objects for a list that is compressed in parts
	one := widgetsPath + "/one"
	steps := []func() error{
		func() error { return w.send(http.MethodPost, widgetsPath, "application/json", object("first"), 201) },
		w.openWatch,
		func() error {
			return w.walk("create", func() error {
				if err := w.send(http.MethodPost, widgetsPath, "application/json", object("one"), 201); err != nil {
					return err
				}
				return w.awaitEvent("one")
			})
		},
		func() error { w.closeWatch(); return nil },
		w.one("apply", http.MethodPatch, one+"?fieldManager=m&force=true", "application/apply-patch+yaml", applied),
		w.one("apply-unchanged", http.MethodPatch, one+"?fieldManager=m&force=true", "application/apply-patch+yaml", applied),
		func() error {
			for i := range pages {
				name := fmt.Sprintf("n%d", i)
				if err := w.send(http.MethodPost, widgetsPath, "application/json", object(name), 201); err != nil {
					return err
				}
			}
			return nil
		},
		w.one("list", http.MethodGet, widgetsPath, "", ""),
		w.one("patch-other-version", http.MethodPatch, "/v1beta1/namespaces/default/widgets/one",
			"application/merge-patch+json", `{"size":5}`),
		w.one("get", http.MethodGet, one, "", ""),
		w.one("delete", http.MethodDelete, one, "", ""),
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func object(name string) string {
	return `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":{"size":1}}`
}

// one returns a step that walks a single request, which must succeed with 200.
func (w *walker) one(name, method, path, mediaType, body string) func() error {
	return func() error {
		return w.walk(name, func() error { return w.send(method, path, mediaType, body, 200) })
	}
}

// settle is the time for the server to finish the work after a request, such as closing its
// connection.
const settle = 200 * time.Millisecond

// walk runs f and writes the counters of the code that ran meanwhile.
func (w *walker) walk(name string, f func() error) error {
	time.Sleep(settle)
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	time.Sleep(settle)
	dir := filepath.Join(w.out, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}

func (w *walker) send(method, path, mediaType, body string, want int) error {
	r, err := http.NewRequestWithContext(w.ctx, method, w.base+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	res, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != want {
		err = fmt.Errorf("%s %s: status %d, want %d: %s", method, path, res.StatusCode, want, answer)
	}
	return err
}

func (w *walker) openWatch() error {
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.base+widgetsPath+"?watch=true", nil)
	if err != nil {
		return err
	}
	res, err := w.client.Do(r) //nolint:bodyclose // closeWatch closes it
	if err != nil {
		return err
	}
	w.watch = res.Body
	return w.awaitEvent("first")
}

func (w *walker) closeWatch() {
	if w.watch != nil {
		_ = w.watch.Close()
		w.watch = nil
	}
}

// awaitEvent reads the watch until the object of that name has arrived.
func (w *walker) awaitEvent(name string) error {
	var seen []byte
	part := make([]byte, 4096)
	for !bytes.Contains(seen, []byte(`"name":"`+name+`"`)) {
		n, err := w.watch.Read(part)
		if err != nil {
			return err
		}
		seen = append(seen, part[:n]...)
	}
	return nil
}
