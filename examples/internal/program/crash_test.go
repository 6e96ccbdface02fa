package program

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// Environment variables that set up the crash test; see `make crash`.
const (
	killsVariable = "KINDWRIGHT_KILLS" // how often the server is killed
	seedVariable  = "KINDWRIGHT_SEED"  // the clients' actions and the times of the kills; the interleaving still varies
	defaultKills  = 3
)

const (
	crashWriters     = 6
	objectsPerWriter = 5
)

// marked is the part of a widget that the crash test uses.
type marked struct {
	Metadata meta.ObjectMeta `json:"metadata"`
	Spec     struct {
		Notes struct {
			Mark string `json:"mark"`
			Pad  string `json:"pad"`
		} `json:"notes"`
	} `json:"spec"`
}

// state decodes a widget. Its padding must be as long as its mark says.
func (m *marked) state() (state, error) {
	version, err := strconv.ParseUint(m.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return state{}, err
	}
	if want := m.Spec.Notes.Mark[strings.LastIndexByte(m.Spec.Notes.Mark, '-')+1:]; want != strconv.Itoa(len(m.Spec.Notes.Pad)) {
		return state{}, fmt.Errorf("%s has the mark %q and %d bytes of padding", m.Metadata.Name, m.Spec.Notes.Mark, len(m.Spec.Notes.Pad))
	}
	return state{mark: m.Spec.Notes.Mark, uid: string(m.Metadata.UID), side: m.Metadata.Labels["side"], version: version}, nil
}

// gate lets clients through while the server is running.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	open    bool
	closing bool
	waiting int
}

func newGate() *gate {
	g := &gate{}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// pass waits until the gate is open. It returns false when the test is over.
func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	g.changed.Broadcast()
	for !g.open && !g.closing {
		g.changed.Wait()
	}
	g.waiting--
	return !g.closing
}

func (g *gate) set(open, closing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.closing = open, closing
	g.changed.Broadcast()
}

// assembled waits until n clients wait at the closed gate, so no request is under way.
func (g *gate) assembled(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.waiting < n {
		g.changed.Wait()
	}
}

// writer changes its own objects as fast as the server allows, and records the answers.
type writer struct {
	name    string
	kube    *client
	rand    *rand.Rand
	journal *journal
	gate    *gate
	sent    int
	objects map[string]state // what it knows; an object that is missing here must be read first
}

// run writes until the gate closes for good. An answer that cannot be correct ends it with an
// error.
func (w *writer) run() error {
	for w.gate.pass() {
		object := fmt.Sprintf("%s-%d", w.name, w.rand.IntN(objectsPerWriter))
		now, known := w.objects[object]
		if !known {
			if err := w.read(object); err != nil {
				return err
			}
			continue
		}
		if err := w.change(object, now); err != nil {
			return err
		}
	}
	return nil
}

// read finds out the state of an object after an attempt with an unknown outcome.
func (w *writer) read(object string) error {
	res := w.kube.ask(http.MethodGet, widgetsPath+"/"+object, nil)
	switch {
	case res == nil:
		return nil
	case res.code != http.StatusOK && res.code != http.StatusNotFound:
		return fmt.Errorf("read %s: %d %s", object, res.code, res.body)
	}
	var now state
	if res.code == http.StatusOK {
		var err error
		if now, err = parseState(res.body); err != nil {
			return err
		}
	}
	a := &attempt{verb: "read", object: object, mark: now.mark}
	w.journal.begin(a)
	w.journal.acknowledge(a, now.version)
	w.objects[object] = now
	return nil
}

func parseState(body []byte) (state, error) {
	var m marked
	if err := json.Unmarshal(body, &m); err != nil {
		return state{}, fmt.Errorf("%w: %s", err, body)
	}
	return m.state()
}

// change makes one write to an object in a known state.
func (w *writer) change(object string, now state) error {
	a := &attempt{verb: "create", object: object}
	method, path, contentType, code := http.MethodPost, widgetsPath, "application/json", http.StatusCreated
	if now != (state{}) {
		path, code = widgetsPath+"/"+object, http.StatusOK
		switch n := w.rand.IntN(10); {
		case n < 2:
			return w.delete(&attempt{verb: "delete", object: object, base: now.version, uid: now.uid})
		case n < 6:
			a.verb, method, a.base = "replace", http.MethodPut, now.version
		default:
			a.verb, method, contentType = "patch", http.MethodPatch, "application/merge-patch+json"
		}
	}
	body := w.compose(a, now)
	w.journal.begin(a)
	delete(w.objects, object)
	res := w.kube.ask(method, path, body, "Content-Type", contentType)
	if res == nil {
		return nil
	}
	if res.code != code {
		return fmt.Errorf("%s: %d %s", a, res.code, res.body)
	}
	next, err := parseState(res.body)
	if err != nil {
		return err
	}
	if next.mark != a.mark {
		return fmt.Errorf("%s was answered with %+v", a, next)
	}
	w.objects[object] = next
	w.journal.acknowledge(a, next.version)
	return nil
}

// compose makes the body of a write, and its mark. Most objects are small, a few take many pages.
func (w *writer) compose(a *attempt, now state) []byte {
	pad := w.rand.IntN(1 << 10)
	if w.rand.IntN(50) == 0 {
		pad = w.rand.IntN(200 << 10)
	}
	w.sent++
	a.mark = fmt.Sprintf("%s-%d-%d", w.name, w.sent, pad)
	metadata := map[string]any{"labels": map[string]string{"side": []string{"left", "right"}[w.rand.IntN(2)]}}
	spec := map[string]any{"notes": map[string]string{"mark": a.mark, "pad": strings.Repeat("x", pad)}}
	body := map[string]any{"metadata": metadata, "spec": spec}
	if a.verb != "patch" {
		body["apiVersion"], body["kind"] = "example.dev/v1", "Widget"
		metadata["name"] = a.object
		spec["size"] = 1 + w.rand.IntN(1000)
	}
	if a.verb == "replace" {
		metadata["resourceVersion"] = strconv.FormatUint(now.version, 10)
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return data
}

func (w *writer) delete(a *attempt) error {
	w.journal.begin(a)
	delete(w.objects, a.object)
	body := fmt.Sprintf(`{"preconditions":{"uid":%q,"resourceVersion":"%d"}}`, a.uid, a.base)
	res := w.kube.ask(http.MethodDelete, widgetsPath+"/"+a.object, []byte(body))
	if res == nil {
		return nil
	}
	if res.code != http.StatusOK {
		return fmt.Errorf("%s: %d %s", a, res.code, res.body)
	}
	w.objects[a.object] = state{}
	w.journal.acknowledge(a, 0)
	return nil
}

// follower resumes its watch each time the server is back.
type follower struct {
	kube *client
	path string // with its selector
	gate *gate

	mu      sync.Mutex
	changed *sync.Cond
	at      uint64 // the newest version it received, by an event or a bookmark
	events  []event
	streams int
	err     error
}

func newFollower(kube *client, path string, g *gate, from uint64) *follower {
	f := &follower{kube: kube, path: path, gate: g, at: from}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// run follows until the gate closes for good. An event that no watch may see ends it with an error.
func (f *follower) run() error {
	for f.gate.pass() {
		if err := f.follow(); err != nil {
			f.mu.Lock()
			f.err = err
			f.changed.Broadcast()
			f.mu.Unlock()
			return err
		}
	}
	return nil
}

// follow reads one stream until it breaks.
func (f *follower) follow() error {
	f.mu.Lock()
	f.streams++
	path := fmt.Sprintf("%s&watch=1&allowWatchBookmarks=true&resourceVersion=%d", f.path, f.at)
	f.mu.Unlock()
	res, err := f.kube.open(context.Background(), http.MethodGet, path, nil)
	if err != nil {
		time.Sleep(time.Millisecond) // the gate is about to close
		return nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") != "" {
		return nil // the server is shutting down (rule 18)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, res.Status)
	}
	for frames := json.NewDecoder(res.Body); ; {
		var frame struct {
			Type   string
			Object json.RawMessage
		}
		if err := frames.Decode(&frame); err != nil {
			return nil // the stream has ended, perhaps within a frame
		}
		if err := f.take(frame.Type, frame.Object); err != nil {
			return err
		}
	}
}

func (f *follower) take(verb string, data []byte) error {
	if verb == "ERROR" {
		return fmt.Errorf("watch of %s after %d: %s", f.path, f.at, data)
	}
	var o marked
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if version < f.at || version == f.at && verb != "BOOKMARK" {
		return fmt.Errorf("watch of %s had come to %d and now sees %s %s", f.path, f.at, verb, data)
	}
	f.at = version
	f.changed.Broadcast()
	if verb == "BOOKMARK" {
		return nil
	}
	now, err := o.state()
	f.events = append(f.events, event{verb, o.Metadata.Name, version, now})
	return err
}

// seen waits until the follower has reached a version, and returns all its events up to it.
func (f *follower) seen(version uint64) ([]event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.at < version && f.err == nil {
		f.changed.Wait()
	}
	return f.events[:len(f.events):len(f.events)], f.err
}

// crash is one run of the test.
type crash struct {
	*testing.T
	rand              *rand.Rand
	dir, address      string
	server            *process
	kube              *client
	journal           *journal
	writing, watching *gate
	all, left         *follower
	clients           sync.WaitGroup
	failed            chan error
	sentinel          *writer
	early             int // kills right after a start
}

// listed is the answer to a list.
type listed struct {
	Metadata meta.ListMeta `json:"metadata"`
	Items    []marked      `json:"items"`
}

func (c *crash) launch() *process {
	return launch(c, "--data-dir="+c.dir, "--listen="+c.address)
}

// list reads all widgets in chunks of a size, 0 for one chunk, starting with a token.
func (c *crash) list(limit int, token string) *listed {
	c.Helper()
	l := &listed{}
	c.kube.get(c, fmt.Sprintf("%s?limit=%d&continue=%s", widgetsPath, limit, token), l)
	return l
}

func (c *crash) version(l *listed) uint64 {
	c.Helper()
	v, err := strconv.ParseUint(l.Metadata.ResourceVersion, 10, 64)
	require.NoError(c, err)
	return v
}

func (c *crash) states(items []marked) map[string]state {
	c.Helper()
	out := map[string]state{}
	for i := range items {
		s, err := items[i].state()
		require.NoError(c, err)
		_, twice := out[items[i].Metadata.Name]
		require.False(c, twice, "%s is listed twice", items[i].Metadata.Name)
		out[items[i].Metadata.Name] = s
	}
	return out
}

func (c *crash) fine(problems []string, events []event) {
	c.Helper()
	if len(problems) > 0 {
		require.FailNow(c, "the history is wrong", "%d problems, the first ones:\n%s\n\n%s", len(problems),
			strings.Join(problems[:min(10, len(problems))], "\n"), c.journal.story(problems, events))
	}
}

// start starts a new server, with its clients waiting at closed gates.
func (c *crash) start(seed uint64) {
	c.server = c.launch()
	c.server.serving(c)
	config := filepath.Join(c.dir, "kubeconfig")
	c.kube = admin(c, config)
	newWriter := func(name string, stream uint64) *writer {
		return &writer{
			name: name, kube: admin(c, config), rand: rand.New(rand.NewPCG(seed, stream)),
			journal: c.journal, gate: c.writing, objects: map[string]state{},
		}
	}
	c.sentinel = newWriter("sentinel", 1000)
	from := c.version(c.list(0, ""))
	c.all = newFollower(admin(c, config), widgetsPath+"?limit=0", c.watching, from)
	c.left = newFollower(admin(c, config), widgetsPath+"?labelSelector=side%3Dleft", c.watching, from)
	c.failed = make(chan error, crashWriters+2)
	for _, f := range []*follower{c.all, c.left} {
		c.clients.Go(func() { c.report(f.run()) })
	}
	for i := range crashWriters {
		w := newWriter("w"+strconv.Itoa(i), uint64(i))
		c.clients.Go(func() { c.report(w.run()) })
	}
	c.Cleanup(func() {
		c.server.kill()
		c.writing.set(false, true)
		c.watching.set(false, true)
		c.clients.Wait()
	})
	c.watching.set(true, false)
	c.writing.set(true, false)
}

func (c *crash) report(err error) {
	if err != nil {
		c.failed <- err
	}
}

// await waits for an event of the test itself, unless a client fails first.
func (c *crash) await(what <-chan struct{}) {
	c.Helper()
	select {
	case <-what:
	case err := <-c.failed:
		require.NoError(c, err)
	case <-c.server.ended:
		require.FailNow(c, "the server ended by itself", "%s\n%s", c.server.cmd.ProcessState, c.server.errOut)
	}
}

// strike kills the server during writes. It may kill the next one before that serves. Then it
// starts the server again, and writers stay outside.
func (c *crash) strike() {
	time.Sleep(time.Duration(c.rand.IntN(3000)) * time.Microsecond) // not always just after an acknowledgement
	require.NoError(c, c.server.cmd.Process.Kill())
	c.writing.set(false, false)
	c.watching.set(false, false)
	<-c.server.ended
	require.Empty(c, c.server.errOut.String(), "what the server complained about")
	c.writing.assembled(crashWriters)
	c.watching.assembled(2)
	for c.rand.IntN(4) == 0 {
		p := c.launch()
		time.Sleep(time.Duration(c.rand.IntN(100)) * time.Millisecond) // anywhere in its start
		p.kill()
		c.early++
	}
	c.server = c.launch()
	c.server.serving(c)
	c.watching.set(true, false)
}

// audit compares the contents of the server after a restart with what its clients know. begun is
// the first chunk of a list that started before.
func (c *crash) audit(begun *listed) {
	c.Helper()
	whole := c.list(0, "")
	c.fine(c.journal.checkList(c.states(whole.Items)), nil)

	// The watches are compared at a version that they can only reach after they have seen
	// everything before it.
	object := "sentinel-0"
	require.NoError(c, c.sentinel.read(object))
	now := c.sentinel.objects[object]
	a := &attempt{verb: "create", object: object}
	method, path := http.MethodPost, widgetsPath
	if now != (state{}) {
		a.verb, method, path, a.base = "replace", http.MethodPut, widgetsPath+"/"+object, now.version
	}
	body := strings.Replace(string(c.sentinel.compose(a, now)), `"right"`, `"left"`, 1)
	c.journal.begin(a)
	res := c.kube.do(c, method, path, body)
	require.Contains(c, []int{http.StatusOK, http.StatusCreated}, res.code, "%s", res.body)
	end, err := parseState(res.body)
	require.NoError(c, err)
	c.journal.acknowledge(a, end.version)

	events, err := c.all.seen(end.version)
	require.NoError(c, err)
	c.fine(c.journal.checkHistory(events), events)
	require.Equal(c, replay(events, c.version(whole)), c.states(whole.Items), "the list after the restart and the watch over it")

	left, err := c.left.seen(end.version)
	require.NoError(c, err)
	require.Equal(c, selected(events, "left"), left, "the watch with a selector sees the same history")

	items, next := begun.Items, begun
	for next.Metadata.Continue != "" {
		next = c.list(7, next.Metadata.Continue)
		require.Equal(c, begun.Metadata.ResourceVersion, next.Metadata.ResourceVersion)
		items = append(items, next.Items...)
	}
	require.Equal(c, replay(events, c.version(begun)), c.states(items), "the list that was begun before the kill and ended after it")
}

// summary counts the cases that the run has covered.
func (c *crash) summary(kills int) string {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	open, happened := 0, 0
	seen := map[string]bool{}
	for _, e := range c.all.events {
		seen[e.state.mark] = true
	}
	for _, a := range c.journal.attempts {
		if a.outcome == unknown && a.verb != "read" {
			open++
			if a.mark != "" && seen[a.mark] {
				happened++
			}
		}
	}
	return fmt.Sprintf("%d kills, %d of them right after the start; %d writes acknowledged, %d of unknown outcome, of which %d are seen to have happened; %d events in %d streams",
		kills+c.early, c.early, c.journal.acks, open, happened, len(c.all.events), c.all.streams)
}

// fromEnvironment reads a number that may be set in the environment.
func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// The test kills the server again and again while clients write, and starts it again on the same
// files and port. Kills say nothing about power loss, since the system keeps what was written. The
// tests of storage/bbolt cover that.
func TestSTORE_KilledServerKeepsItsWord(t *testing.T) {
	kills := int(fromEnvironment(t, killsVariable, defaultKills))
	seed := fromEnvironment(t, seedVariable, rand.Uint64())
	t.Logf("%s=%d", seedVariable, seed)
	c := &crash{
		T: t, rand: rand.New(rand.NewPCG(seed, 2000)), dir: t.TempDir(), address: freeAddress(t),
		journal: newJournal(), writing: newGate(), watching: newGate(),
	}
	c.start(seed)
	for range kills {
		c.await(c.journal.after(5 + c.rand.IntN(30)))
		begun := c.list(1+c.rand.IntN(10), "")
		c.await(c.journal.after(5 + c.rand.IntN(200)))
		c.strike()
		c.audit(begun)
		c.writing.set(true, false)
	}

	c.await(c.journal.after(50))
	c.writing.set(false, false)
	c.writing.assembled(crashWriters)
	begun := c.list(3, "")
	require.Equal(t, 0, c.server.interrupt(t), "%s", c.server.errOut)
	c.watching.set(false, false)
	c.watching.assembled(2)
	c.server = c.launch()
	c.server.serving(t)
	c.watching.set(true, false)
	c.audit(begun)
	require.Empty(t, c.failed)
	t.Log(c.summary(kills))
}
