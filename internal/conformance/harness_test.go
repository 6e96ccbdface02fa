package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// onEach runs a test on a new server over each backend, as the subtests "memory" and "bbolt", each
// in its own bubble: time is virtual, and passes only while every goroutine waits. The options are
// added to those of every server here.
func onEach(t *testing.T, test func(t *testing.T, s *server), opts ...kindwright.Option) {
	t.Helper()
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		test(t, start(t, open, opts...))
	})
}

// onEachBackend is onEach for tests that start their servers themselves. open opens the same store
// again after it was closed. In memory that is not possible, so the store is not closed in between.
func onEachBackend(t *testing.T, test func(t *testing.T, open func() storage.Backend)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			test(t, func() storage.Backend { return lasting{db} })
		})
	})
	t.Run("bbolt", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "db")
		synctest.Test(t, func(t *testing.T) {
			test(t, func() storage.Backend {
				db, err := bbolt.Open(path)
				require.NoError(t, err)
				return db
			})
		})
	})
	onRemote(t, test)
}

// remote in the environment is the unix socket of a store that internal/remotestore serves. The tests
// then run on it, too: storage/etcd cannot be linked here.
const remote = "KINDWRIGHT_REMOTE"

// notRemote lists the tests that say something about a store in this process.
var notRemote = map[string]string{
	"TestGET_05_AVersionIssuedMeanwhileIsServed": "revisions of etcd have gaps",
	"TestGET_07_TheMatchParameterIsIgnored":      "a get that accepts an older version may answer with it",
	"TestS15_DryRunsRejectWhatIsTooLarge":        "etcd's limit is lower",
}

// onRemote is onEachBackend for the store in another process, if there is one.
func onRemote(t *testing.T, test func(t *testing.T, open func() storage.Backend)) {
	t.Helper()
	address := os.Getenv(remote)
	if address == "" {
		return
	}
	for name := range notRemote {
		if strings.HasPrefix(t.Name(), name) {
			return
		}
	}
	name := rand.Text()
	t.Run("remote", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, func() storage.Backend {
				b, err := remotestore.Open(t.Context(), "unix", address, name)
				require.NoError(t, err)
				return b
			})
		})
	})
}

// lasting is a store in memory that survives its server, as a file does.
type lasting struct{ storage.Backend }

func (l lasting) Unwrap() storage.Backend { return l.Backend }

func (lasting) Close() error { return nil }

// server is a server under test behind net/http, with connections in memory.
type server struct {
	t       *testing.T
	api     *kindwright.Server
	backend storage.Backend
	client  *http.Transport
	stop    func()
}

// start starts a server over the store. It stops with the test, or earlier with stop.
func start(t *testing.T, open func() storage.Backend, opts ...kindwright.Option) *server {
	t.Helper()
	return startWith(t, open, nil, opts...)
}

// startWith is start with options for the built-in kinds.
func startWith(t *testing.T, open func() storage.Backend, of []kinds.ControlPlaneOption, opts ...kindwright.Option) *server {
	t.Helper()
	backend := shared(t, open())
	base := []kindwright.Option{
		kindwright.Serve(widgets(), zones(), gauges(), slates(), kinds.ControlPlane(of...)),
		kindwright.Authenticate(byHeader),
		kindwright.Access{CheckPlugins: true, CheckExecution: true},
		kindwright.Housekeeping{LeaderBeat: 12 * time.Hour, LeaderPatience: 48 * time.Hour}, // some tests wait for months
	}
	api, err := kindwright.New(backend, append(base, opts...)...)
	require.NoError(t, err)
	// Do not use the test's context: a client that watches the server until it stops must not lose
	// it first.
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, api.Start(ctx))
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	handler, others := alternate(ctx, t, api, func() (*kindwright.Server, error) { return kindwright.New(backend, append(base, opts...)...) })
	web := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- web.Serve(l) }()
	s := &server{t: t, api: api, backend: backend}
	s.client = &http.Transport{DialContext: l.dial, DisableCompression: true}
	s.stop = sync.OnceFunc(func() {
		cancel()
		api.Wait()
		others()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = web.Shutdown(ctx) // let watches send their last events
		require.NoError(t, web.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
		s.client.CloseIdleConnections()
		require.NoError(t, backend.Close())
	})
	t.Cleanup(func() { s.stop() })
	return s
}

// startInMemory starts a server with its own store, for a test that needs a second server.
func startInMemory(t *testing.T, opts ...kindwright.Option) *server {
	t.Helper()
	return start(t, func() storage.Backend { return memory.New() }, opts...)
}

// listener accepts connections that are pipes.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *listener) Addr() net.Addr { return pipeAddr{} }

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// byHeader authenticates the user in the header X-User, with the groups in X-Groups.
var byHeader = authn.Func(func(r *http.Request) (authn.User, bool, error) {
	name := r.Header.Get("X-User")
	return authn.User{Name: name, Groups: strings.Fields(r.Header.Get("X-Groups"))}, name != "", nil
})

// request returns a request of a member of system:masters unless the headers say otherwise. Headers
// are pairs; an empty value removes a header. Bodies are JSON unless Content-Type says otherwise.
func (s *server) request(method, path, body string, headers ...string) *http.Request {
	s.t.Helper()
	// Send paths and queries as they are written: tests of bad input need some that clients would
	// clean.
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://server/", strings.NewReader(body))
	require.NoError(s.t, err)
	target, query, _ := strings.Cut(path, "?")
	r.URL.Opaque, r.URL.RawQuery = "//server"+target, query
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

// send sends a request and returns the answer with its body unread.
func (s *server) send(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	res, err := s.client.RoundTrip(s.request(method, path, body, headers...))
	require.NoError(s.t, err)
	return res
}

// do sends a request and reads the answer.
func (s *server) do(method, path, body string, headers ...string) *answer {
	s.t.Helper()
	a, err := s.attempt(method, path, body, headers...)
	require.NoError(s.t, err)
	return a
}

// attempt is do for a server that may stop meanwhile.
func (s *server) attempt(method, path, body string, headers ...string) (*answer, error) {
	s.t.Helper()
	res, err := s.client.RoundTrip(s.request(method, path, body, headers...))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{
		t: s.t, asked: method + " " + path, code: res.StatusCode, header: res.Header, body: data,
	}
	_ = json.Unmarshal(data, &a.doc) // doc stays nil if it is not JSON
	return a, nil
}

// agree repeats a request until it is answered with a status twice in a row. Two servers that answer in
// turn are both that far then: a policy is in force on the other one a moment later.
func (s *server) agree(code int, method, path, body string) {
	s.t.Helper()
	for same := 0; same < 2; {
		if s.do(method, path, body).code == code {
			same++
			continue
		}
		same = 0
		require.NoError(s.t, s.t.Context().Err())
		time.Sleep(time.Millisecond)
	}
}

func (s *server) get(path string, headers ...string) *answer {
	s.t.Helper()
	return s.do("GET", path, "", headers...)
}

// create creates an object from JSON, in the collection at path.
func (s *server) create(path, body string) *answer {
	s.t.Helper()
	return s.do("POST", path, body).is(201)
}

// widget creates a widget in the namespace default; labels are written "a=b,c=d".
func (s *server) widget(name, labels string) *answer {
	s.t.Helper()
	return s.create(widgetPath, widgetJSON(name, labels, "red", 1))
}

// widgets creates a number of widgets, named w000, w001 and so on.
func (s *server) widgets(n int) {
	s.t.Helper()
	for i := range n {
		s.widget(fmt.Sprintf("w%03d", i), "")
	}
}

// namespace creates a namespace.
func (s *server) namespace(name string) *answer {
	s.t.Helper()
	return s.create("/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
}

// patch changes an object with a merge patch.
func (s *server) patch(path, body string) *answer {
	s.t.Helper()
	return s.do("PATCH", path, body, "Content-Type", "application/merge-patch+json").is(200)
}

func (s *server) delete(path string) *answer {
	s.t.Helper()
	return s.do("DELETE", path, "").is(200)
}

// compact makes the store drop its history up to now, as if it had grown old. The server's memory
// stays.
func (s *server) compact() {
	s.t.Helper()
	ctx := context.Background()
	rev, err := s.backend.Revision(ctx)
	require.NoError(s.t, err)
	require.NoError(s.t, s.backend.Compact(ctx, rev))
}

// age lets time pass until all earlier history is gone, from the store and from the server's
// memory. The newest state would stay known, so age makes one more write.
func (s *server) age() {
	s.t.Helper()
	time.Sleep(historyForTests + time.Second)
	s.create("/api/v1/namespaces", `{"metadata":{"generateName":"age-"}}`)
	time.Sleep(2 * historyForTests)
}

// historyForTests is more than servers retain by default.
const historyForTests = 6 * time.Minute

// answer is a response.
type answer struct {
	t      *testing.T
	asked  string
	code   int
	header http.Header
	body   []byte
	doc    map[string]any // the body if it is a JSON object
}

// String shows an answer in a failed test.
func (a *answer) String() string {
	return fmt.Sprintf("%s: %d %v\n%s", a.asked, a.code, a.header, a.body[:min(len(a.body), 2000)])
}

// is requires a status code.
func (a *answer) is(code int) *answer {
	a.t.Helper()
	require.Equal(a.t, code, a.code, "%s", a)
	return a
}

// refused requires an error with a Status of this code and reason whose message contains text.
func (a *answer) refused(code int, reason, text string) *answer {
	a.t.Helper()
	a.is(code)
	require.Equal(a.t, "Status", a.at("kind"), "%s", a)
	require.Equal(a.t, "v1", a.at("apiVersion"), "%s", a)
	require.Equal(a.t, "Failure", a.at("status"), "%s", a)
	require.InDelta(a.t, code, a.at("code"), 0, "%s", a)
	require.Equal(a.t, reason, a.at("reason"), "%s", a)
	require.Contains(a.t, a.text("message"), text, "%s", a)
	return a
}

// because requires that one of the causes of an error has text in its message.
func (a *answer) because(reason, field, text string) *answer {
	a.t.Helper()
	causes, _ := a.at("details", "causes").([]any)
	for _, c := range causes {
		message, _ := at(c, "message").(string)
		if f, _ := at(c, "field").(string); f == field && at(c, "reason") == reason && strings.Contains(message, text) {
			return a
		}
	}
	require.Fail(a.t, "no such cause", "%s in %q: %s\n%s", reason, field, text, a)
	return a
}

// at returns the value at a path of the document, or nil if there is none.
func (a *answer) at(path ...string) any { return at(a.doc, path...) }

// text is at for strings. It returns "" if there is none.
func (a *answer) text(path ...string) string {
	s, _ := a.at(path...).(string)
	return s
}

// version returns metadata.resourceVersion.
func (a *answer) version() string {
	a.t.Helper()
	v := a.text("metadata", "resourceVersion")
	require.NotEmpty(a.t, v, "%s", a)
	return v
}

// next returns metadata.continue.
func (a *answer) next() string { return a.text("metadata", "continue") }

// items returns the items of a list, and requires that it is one.
func (a *answer) items() []any {
	a.t.Helper()
	a.is(200)
	items, ok := a.at("items").([]any)
	require.True(a.t, ok, "%s", a)
	return items
}

// names returns the names of the items of a list. A namespace other than default comes first, with
// a slash.
func (a *answer) names() []string {
	a.t.Helper()
	names := []string{}
	for _, item := range a.items() {
		name := fmt.Sprint(at(item, "metadata", "name"))
		if ns, ok := at(item, "metadata", "namespace").(string); ok && ns != "default" {
			name = ns + "/" + name
		}
		names = append(names, name)
	}
	return names
}

// at returns the value at a path of a decoded document, or nil if there is none.
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// stream is a running watch. Its events are read as they arrive, whether or not the test asks for
// them.
type stream struct {
	t      *testing.T
	res    *http.Response
	events chan string
}

// watch starts a watch, which must succeed. The path has its parameters.
func (s *server) watch(path string, headers ...string) *stream {
	s.t.Helper()
	res := s.send("GET", path, "", headers...)
	require.Equal(s.t, 200, res.StatusCode, "GET %s", path)
	w := &stream{t: s.t, res: res, events: make(chan string, 1<<16)}
	s.t.Cleanup(w.close)
	go func() {
		defer close(w.events)
		lines := bufio.NewReader(res.Body)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				w.events <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return w
}

// close ends the watch from the client's side.
func (w *stream) close() { _ = w.res.Body.Close() }

// event is one frame of a watch.
type event struct {
	kind   string         // its type
	object map[string]any // its object
	fields int            // the number of members of the frame
	line   string
}

func (e *event) at(path ...string) any { return at(e.object, path...) }

func (e *event) name() string { s, _ := e.at("metadata", "name").(string); return s }

func (e *event) version() string { s, _ := e.at("metadata", "resourceVersion").(string); return s }

// eventTimeout is how long, in virtual time, a test waits for an event.
const eventTimeout = 10 * time.Second

// next returns the next event, which must come.
func (w *stream) next() *event {
	w.t.Helper()
	select {
	case line, ok := <-w.events:
		require.True(w.t, ok, "the watch has ended")
		return w.parse(line)
	case <-time.After(eventTimeout):
		require.Fail(w.t, "no event")
		return nil
	}
}

func (w *stream) parse(line string) *event {
	w.t.Helper()
	var frame map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(line)))
	require.NoError(w.t, d.Decode(&frame), "%s", line)
	e := &event{fields: len(frame), line: line}
	e.kind, _ = frame["type"].(string)
	e.object, _ = frame["object"].(map[string]any)
	return e
}

// expect requires that the next event has a type and is about an object.
func (w *stream) expect(kind, name string) *event {
	w.t.Helper()
	e := w.next()
	require.Equal(w.t, kind, e.kind, "%s", e.line)
	require.Equal(w.t, name, e.name(), "%s", e.line)
	return e
}

// change returns the next event that is not a bookmark.
func (w *stream) change() *event {
	w.t.Helper()
	for {
		if e := w.next(); e.kind != "BOOKMARK" {
			return e
		}
	}
}

// quiet requires that the watch continues and sends nothing for a time.
func (w *stream) quiet(d time.Duration) {
	w.t.Helper()
	select {
	case line, ok := <-w.events:
		require.True(w.t, ok, "the watch has ended")
		require.Fail(w.t, "an unexpected event", "%s", line)
	case <-time.After(d):
	}
}

// ended requires that the stream ends within a time without another event.
func (w *stream) ended(within time.Duration) {
	w.t.Helper()
	select {
	case line, ok := <-w.events:
		require.False(w.t, ok, "an unexpected event: %s", line)
	case <-time.After(within):
		require.Fail(w.t, "the watch has not ended")
	}
}
