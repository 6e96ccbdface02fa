package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/examples/internal/program"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// fleet is three servers on three members of etcd, each server with a network of its own, and clients of
// all servers that note what they are told.
type fleet struct {
	t       *testing.T
	etcds   *etcdtest.Cluster
	paths   [3][]*etcdtest.Proxy // by server and member
	servers [3]*running
	urls    [3]string
	admin   *clientv3.Client
	store   *etcd.DB // without a server or proxy between
	forget  func()   // ends the record, and empties it and all that refers to it
	client  *http.Client
	stop    context.CancelFunc // ends informers and the record
	ctx     context.Context
	running sync.WaitGroup
	hold    context.CancelFunc // ends writers and readers
	working context.Context
	workers sync.WaitGroup

	mu        sync.Mutex
	told      map[string]told // of writes, by the value written
	known     map[string]storage.Revision
	acked     [3]int // by server
	unknown   int
	refused   int
	slowest   time.Duration
	back      time.Duration // the longest time from a leader to a write, in the rounds of one fault
	anomalies []string
	history   []change
	informers []*informer
}

// told is the answer to a write.
type told struct {
	revision storage.Revision
	outcome  string // acknowledged, refused or unknown
}

// change is a state of an object that was stored; value is empty if it was deleted.
type change struct {
	revision    storage.Revision
	name, value string
}

// requestTimeout is the deadline that clients name in each request.
const requestTimeout = 5 * time.Second

// slack is how much later an answer may arrive on a busy machine.
const slack = 2 * time.Second

func newFleet(t *testing.T, o etcdtest.Options) *fleet {
	t.Helper()
	o.Divisible = true
	f := &fleet{t: t, etcds: etcdtest.Start(t, 3, o), told: map[string]told{}, known: map[string]storage.Revision{}}
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var starting sync.WaitGroup
	for i := range f.servers {
		for _, e := range f.etcds.Endpoints() {
			f.paths[i] = append(f.paths[i], etcdtest.NewProxy(t, strings.TrimPrefix(e, "http://")))
		}
		starting.Go(func() { f.serve(i) })
	}
	starting.Wait()
	f.admin = f.etcds.Client(t)
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.working, f.hold = context.WithCancel(context.Background())
	f.follow(false)
	for i := range f.servers {
		for w := range 2 {
			n := &informer{server: i, known: map[string]change{}}
			f.informers = append(f.informers, n)
			f.running.Go(func() { n.run(f) })
			f.workers.Go(func() { f.write(i, w) })
		}
		f.workers.Go(func() { f.read(i) })
	}
	t.Cleanup(func() { f.end() })
	return f
}

// serve starts a server, on the address that it had before if it had one.
func (f *fleet) serve(i int, flags ...string) {
	var urls []string
	for _, p := range f.paths[i] {
		urls = append(urls, "http://"+p.Address())
	}
	flags = append(flags, "--etcd-servers="+strings.Join(urls, ","))
	if f.urls[i] != "" {
		flags = append(flags, "--listen="+strings.TrimPrefix(f.urls[i], "https://"))
	}
	f.servers[i] = serve(f.t, flags...)
	if f.urls[i] == "" {
		f.urls[i] = f.servers[i].url
	}
}

// follow opens the store and begins to record what happens to it.
func (f *fleet) follow(restored bool) {
	config := etcd.Config{Endpoints: f.etcds.Endpoints(), Prefix: "/kindwright", Owner: "example.dev", Restored: restored}
	store, err := etcd.Open(f.ctx, config)
	require.NoError(f.t, err)
	begin, err := store.Revision(f.ctx)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	f.store, f.forget = store, func() {
		cancel()
		<-done
		_ = store.Close() // it may have ended
		f.mu.Lock()
		defer f.mu.Unlock()
		f.history = nil
		clear(f.told)
		clear(f.known)
		for _, n := range f.informers {
			n.mu.Lock()
			n.events = nil
			n.mu.Unlock()
		}
	}
	go func() {
		defer close(done)
		f.record(ctx, store, begin)
	}()
}

// end stops clients and servers.
func (f *fleet) end() {
	f.hold()
	f.workers.Wait()
	f.stop()
	f.running.Wait()
	f.client.CloseIdleConnections()
	f.forget()
}

func (f *fleet) anomaly(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.anomalies = append(f.anomalies, fmt.Sprintf(format, args...))
}

// record follows the store itself.
func (f *fleet) record(ctx context.Context, store *etcd.DB, begin storage.Revision) {
	prefix := storage.ResourcePrefix("example.dev/gadgets")
	for b, err := range store.Watch(ctx, prefix, begin) {
		if err != nil {
			if ctx.Err() == nil {
				f.anomaly("the watch of the store ended: %v", err)
			}
			return
		}
		for _, c := range b.Changes {
			name := nameIn(c.Key)
			f.mu.Lock()
			f.history = append(f.history, change{c.Revision, name, valueIn(c.Value)})
			f.mu.Unlock()
		}
	}
}

// written finds the value that a client wrote in a record.
var written = regexp.MustCompile(`"data":{"v":"([^"]*)"`)

func valueIn(record []byte) string {
	if m := written.FindSubmatch(record); m != nil {
		return string(m[1])
	}
	return ""
}

func nameIn(key string) string { return path.Base(strings.TrimRight(key, "/\x01")) }

// answer is what a server said.
type answer struct {
	code   int
	gadget program.Gadget
	text   string
}

// ask sends a request with a deadline, and notes whether it was kept.
func (f *fleet) ask(server int, method, where string, body any) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	if body == nil {
		text = nil
	}
	ctx, cancel := context.WithTimeout(f.ctx, requestTimeout+slack)
	defer cancel()
	url := f.urls[server] + where + "?timeout=" + requestTimeout.String()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer administrator")
	req.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	res, err := f.client.Do(req)
	var a answer
	if err == nil {
		defer func() { _ = res.Body.Close() }()
		data, failed := io.ReadAll(res.Body)
		err, a.code, a.text = failed, res.StatusCode, string(data)
		_ = json.Unmarshal(data, &a.gadget) // a status has no data
	}
	took := time.Since(begun)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slowest = max(f.slowest, took)
	if errors.Is(err, context.DeadlineExceeded) {
		f.anomalies = append(f.anomalies, fmt.Sprintf("%s %s on server %d: no answer after %v", method, where, server, took))
	}
	return a, err
}

func (a answer) revision() storage.Revision {
	n, _ := strconv.ParseUint(a.gadget.ResourceVersion, 10, 64)
	return storage.Revision(n)
}

const fleetKeys = 4

// write replaces objects that it has read, or makes them.
func (f *fleet) write(server, writer int) {
	for i := 0; f.working.Err() == nil; i++ {
		name := fmt.Sprint("g", i%fleetKeys)
		a, err := f.ask(server, "GET", gadgets+"/"+name, nil)
		method, where := "PUT", gadgets+"/"+name
		switch {
		case err == nil && a.code == 404:
			method, where = "POST", gadgets
		case err != nil || a.code != 200:
			wait()
			continue
		case i%11 == 10:
			_, _ = f.ask(server, "DELETE", where, map[string]any{"preconditions": map[string]any{"resourceVersion": a.gadget.ResourceVersion}})
			continue
		}
		g := a.gadget
		value := fmt.Sprintf("%d/%d/%d", server, writer, i)
		g.APIVersion, g.Kind, g.Name, g.Data = "example.dev/v1", "Gadget", name, map[string]string{"v": value}
		a, err = f.ask(server, method, where, g)
		o := told{outcome: "unknown"}
		switch {
		case err != nil || a.code == 504 || a.code == 500:
		case a.code == 200 || a.code == 201:
			o = told{a.revision(), "acknowledged"}
		default: // 503 says that nothing was written, and 409 too
			o.outcome = "refused"
		}
		f.note(server, name, value, o)
		if o.outcome != "acknowledged" {
			wait()
		}
	}
}

// wait is the pause of a client after a failure.
func wait() { time.Sleep(5 * time.Millisecond) }

func (f *fleet) note(server int, name, value string, o told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[value] = o
	switch o.outcome {
	case "acknowledged":
		f.acked[server]++
		f.known[name] = max(f.known[name], o.revision)
	case "unknown":
		f.unknown++
	default:
		f.refused++
	}
}

// read checks that a read sees what any server had acknowledged before it began.
func (f *fleet) read(server int) {
	for i := 0; f.working.Err() == nil; i++ {
		name := fmt.Sprint("g", i%fleetKeys)
		f.mu.Lock()
		least := f.known[name]
		f.mu.Unlock()
		if a, err := f.ask(server, "GET", gadgets+"/"+name, nil); err == nil && a.code == 200 && a.revision() < least {
			f.anomaly("server %d read %s at %d after a write at %d", server, name, a.revision(), least)
		}
		wait()
	}
}

// informer is a client that follows a collection over HTTP.
type informer struct {
	server int

	mu     sync.Mutex
	known  map[string]change
	events []change // since the last reset, or since the beginning
	resets int
}

// run follows the collection.
func (n *informer) run(f *fleet) {
	api := &http.Client{Transport: &authorized{f.client.Transport}}
	kind := client.Resource[program.Gadget]{Group: "example.dev", Version: "v1", Plural: "gadgets"}
	c := client.For(api, kind, client.At(f.urls[n.server]))
	for event, err := range c.Watch(f.ctx, client.In("default")) {
		if err != nil {
			if f.ctx.Err() == nil {
				f.anomaly("an informer of server %d ended: %v", n.server, err)
			}
			return
		}
		n.take(event)
	}
}

func (n *informer) take(event client.Event[program.Gadget]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var c change
	if g := event.Object; g != nil {
		rev, _ := strconv.ParseUint(g.ResourceVersion, 10, 64)
		c = change{storage.Revision(rev), g.Name, g.Data["v"]}
	}
	switch event.Type {
	case client.Reset:
		clear(n.known)
		n.events = nil
		n.resets++
	case client.Synced:
		n.events = nil
	case meta.Added, meta.Modified:
		n.known[c.name] = c
		n.events = append(n.events, c)
	case meta.Deleted:
		delete(n.known, c.name)
		n.events = append(n.events, change{c.revision, c.name, ""})
	}
}

// authorized adds the credentials of the tests.
type authorized struct{ http.RoundTripper }

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer administrator")
	return a.RoundTripper.RoundTrip(r)
}

// goesOn waits until each server has acknowledged more writes.
func (f *fleet) goesOn() {
	f.t.Helper()
	f.mu.Lock()
	before := f.acked
	f.mu.Unlock()
	for more := false; !more; time.Sleep(2 * time.Millisecond) {
		require.NoError(f.t, f.t.Context().Err())
		f.mu.Lock()
		more = true
		for i := range before {
			more = more && f.acked[i] >= before[i]+3
		}
		f.mu.Unlock()
	}
}

// newest returns the last version that the record has. The record follows the servers, so it may have
// none yet.
func (f *fleet) newest() (last storage.Revision) {
	f.t.Helper()
	for ; last == 0; time.Sleep(2 * time.Millisecond) {
		require.NoError(f.t, f.t.Context().Err())
		f.mu.Lock()
		if n := len(f.history); n > 0 {
			last = f.history[n-1].revision
		}
		f.mu.Unlock()
	}
	return last
}

// caughtUp waits until the record has what any server has acknowledged, and any informer was told.
func (f *fleet) caughtUp() {
	f.t.Helper()
	f.mu.Lock()
	var least storage.Revision
	for _, at := range f.known {
		least = max(least, at)
	}
	f.mu.Unlock()
	for _, n := range f.informers {
		n.mu.Lock()
		if told := len(n.events); told > 0 {
			least = max(least, n.events[told-1].revision)
		}
		n.mu.Unlock()
	}
	for f.newest() < least {
		require.NoError(f.t, f.t.Context().Err())
		time.Sleep(2 * time.Millisecond)
	}
}

// comesBack measures how long it takes from now, when there is a leader, until each server writes again.
func (f *fleet) comesBack() {
	f.t.Helper()
	begun := time.Now()
	f.goesOn()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = max(f.back, time.Since(begun))
}

// timely says how long writes needed after there was a leader. With many rounds it is checked too.
func (f *fleet) timely(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.Logf("%s: each server writes again %v after a leader at the latest", name, f.back.Round(time.Millisecond))
	if *rounds > 1 {
		assert.Less(f.t, f.back, 3*time.Second, name)
	}
	f.back = 0
}

// check compares everything when nobody writes any more.
func (f *fleet) check(name string, rounds int) {
	t := f.t
	t.Helper()
	f.hold()
	f.workers.Wait()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		behind := f.behind()
		if behind == "" {
			break
		}
		require.Less(t, time.Since(begun), time.Minute, "informers differ from the store: %s", behind)
	}
	f.caughtUp()
	f.mu.Lock()
	defer f.mu.Unlock()
	happened := map[string]storage.Revision{}
	for _, c := range f.history {
		if c.value == "" {
			continue
		}
		if at, twice := happened[c.value]; twice {
			f.anomalies = append(f.anomalies, fmt.Sprintf("%s was written at %d and at %d", c.value, at, c.revision))
		}
		happened[c.value] = c.revision
	}
	for value, o := range f.told {
		at, did := happened[value]
		switch {
		case o.outcome == "acknowledged" && at != o.revision:
			f.anomalies = append(f.anomalies, fmt.Sprintf("%s was acknowledged at %d and is stored at %d", value, o.revision, at))
		case o.outcome == "refused" && did:
			f.anomalies = append(f.anomalies, fmt.Sprintf("%s was refused and is stored at %d", value, at))
		}
	}
	resets := 0
	for _, n := range f.informers {
		resets += n.resets - 1
		f.missed(n)
	}
	t.Logf("%s: %d rounds, %d writes (%d unknown, %d refused), %d changes, the slowest answer after %v, %d relists, %d anomalies",
		name, rounds, len(f.told), f.unknown, f.refused, len(f.history), f.slowest.Round(time.Millisecond), resets, len(f.anomalies))
	require.Empty(t, f.anomalies)
}

// behind says which informer does not have what the store has.
func (f *fleet) behind() string {
	page, err := f.store.List(f.t.Context(), storage.ListRequest{Prefix: storage.ResourcePrefix("example.dev/gadgets"), Limit: 100})
	if err != nil {
		return err.Error()
	}
	want := map[string]change{}
	for _, r := range page.Records {
		name := nameIn(r.Key)
		want[name] = change{r.Revision, name, valueIn(r.Value)}
	}
	for _, n := range f.informers {
		n.mu.Lock()
		same := maps.Equal(want, n.known)
		n.mu.Unlock()
		if !same {
			return fmt.Sprintf("server %d: %+v, want %+v", n.server, n.known, want)
		}
	}
	return ""
}

// missed checks that an informer was told of every change between the first and the last one that it was
// told of, in order.
func (f *fleet) missed(n *informer) {
	if len(n.events) == 0 {
		return
	}
	first := n.events[0].revision
	var want []change
	for _, c := range f.history {
		if c.revision >= first {
			want = append(want, c)
		}
	}
	for i, e := range n.events {
		if i >= len(want) || e != want[i] {
			f.anomalies = append(f.anomalies, fmt.Sprintf("an informer of server %d got %+v as event %d", n.server, e, i))
			return
		}
	}
	if len(want) != len(n.events) {
		f.anomalies = append(f.anomalies, fmt.Sprintf("an informer of server %d got %d of %d events", n.server, len(n.events), len(want)))
	}
}
