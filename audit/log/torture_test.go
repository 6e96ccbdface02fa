package log

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/audit/webhook"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

var (
	tortureWrites = flag.Int("audit-writes", 400, "writes of each trial of the audit log")
	tortureSeed   = flag.Uint64("audit-seed", 1, "of what fails, and when")
)

// dice decides what fails. It is safe for concurrent use.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func newDice() *dice { return &dice{rand: rand.New(rand.NewPCG(*tortureSeed, 7))} } //nolint:gosec // reproducible, and no secret

// under returns a number below n.
func (d *dice) under(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

// stored are the records that a back end has: how often, by audit id, stage and code.
type stored struct {
	mu      sync.Mutex
	records map[string]int
	bad     []string // lines that are no record
}

func keyOf(id string, stage audit.Stage, code int32) string {
	return fmt.Sprintf("%s %s %d", id, stage, code)
}

func (s *stored) add(line []byte) {
	e, err := audit.ParseEvent(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.bad = append(s.bad, fmt.Sprintf("%v: %.200s", err, line))
		return
	}
	code := int32(0)
	if e.ResponseStatus != nil {
		code = e.ResponseStatus.Code
	}
	s.records[keyOf(e.AuditID, e.Stage, code)]++
}

func (s *stored) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[key] > 0
}

func (s *stored) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.records {
		n += times
	}
	return n
}

// badDisk is a file on a disk that is full, slow, or writes a part, now and then.
type badDisk struct {
	*os.File

	dice *dice
	seen *stored // the whole lines that a kill at this moment would leave
}

func (d *badDisk) Write(p []byte) (int, error) {
	switch d.dice.under(20) {
	case 0:
		return 0, syscall.ENOSPC
	case 1:
		n, err := d.File.Write(p[:d.dice.under(len(p))])
		return n, errors.Join(err, syscall.ENOSPC)
	case 2:
		n, err := d.File.Write(p[:len(p)-1])
		return n, err // short, and no error
	}
	n, err := d.File.Write(p)
	if err == nil {
		for line := range bytes.Lines(p) {
			if line = bytes.TrimSuffix(line, []byte{'\n'}); len(line) > 0 {
				d.seen.add(line)
			}
		}
	}
	return n, err
}

// badNet is a receiver of records that fails, hangs for a while, loses its connections, and stores
// what it says that it has not.
type badNet struct {
	dice     *dice
	seen     *stored
	accepted atomic.Uint64 // records whose receipt the sink was told of
}

func (b *badNet) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	code, store, broken := 200, true, false
	switch b.dice.under(12) {
	case 0:
		code, store = 500, false
	case 1:
		code = 503 // a lie
	case 2:
		broken = true // a lie, too
	case 3:
		broken, store = true, false
	case 4:
		code, store = 400, false
	}
	if store {
		list, err := json.DecodeTree(body, json.TreeOptions{})
		if err != nil {
			return nil, err
		}
		items := list.(map[string]any)["items"].([]any) //nolint:forcetypeassert // or the test fails
		for _, item := range items {
			line, err := json.AppendTree(nil, item)
			if err != nil {
				return nil, err
			}
			b.seen.add(line)
		}
		if code == 200 && !broken {
			b.accepted.Add(uint64(len(items)))
		}
	}
	if broken {
		return nil, syscall.ECONNRESET
	}
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{}, Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
}

// badStore fails before a commit, or after it.
type badStore struct {
	storage.Backend

	dice  *dice
	fails atomic.Bool // once the server has started, which is about something else
}

func (b *badStore) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if !b.fails.Load() {
		return b.Backend.Commit(ctx, ops)
	}
	switch b.dice.under(40) {
	case 0:
		return 0, errors.New("the disk of the store is full")
	case 1:
		_, err := b.Backend.Commit(ctx, ops)
		return 0, errors.Join(err, storage.ErrUnknownOutcome)
	}
	return b.Backend.Commit(ctx, ops)
}

// counting counts the records that a sink is given.
type counting struct {
	audit.Sink

	given atomic.Uint64
}

func (c *counting) Write(ctx context.Context, line []byte) error {
	c.given.Add(1)
	return c.Sink.Write(ctx, line)
}

type thing struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Text string `json:"text,omitempty"`
}

// hook is a rule that panics, waits for the end of the request, or fails.
func hook(d *dice) func(context.Context, *thing, *status.Fields) {
	return func(ctx context.Context, x *thing, f *status.Fields) {
		if x.Text == slow {
			<-ctx.Done()
		}
		switch d.under(30) {
		case 0:
			panic("a broken rule\nwith two lines")
		case 1:
			f.At("text").Invalid("x", "never")
		}
	}
}

// slow is the text of an object whose write takes as long as it may.
const slow = "slow"

// trial is a server that writes to a sink, and its clients.
type trial struct {
	t      *testing.T
	server *kindwright.Server
	dice   *dice
	stop   func()
	acked  atomic.Uint64
	failed atomic.Uint64
}

func newTrial(t *testing.T, sink audit.Sink) *trial {
	t.Helper()
	tr := &trial{t: t, dice: newDice()}
	db := &badStore{Backend: memory.New(), dice: tr.dice}
	srv, err := kindwright.New(
		db, kindwright.LogTo(logr.Discard()), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelRequestResponse}}}, sink),
		kindwright.Serve(registry.Kind[thing]{
			Group: "example.dev", Version: "v1", Plural: "things", Names: registry.Names{Kind: "Thing"}, Scope: registry.ClusterScoped,
			Rules: registry.Rules[thing]{Validate: hook(tr.dice)},
		}),
		kindwright.Authenticate(authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
		})))
	require.NoError(t, err)
	tr.server = srv
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	db.fails.Store(true)
	tr.stop = func() { cancel(); srv.Wait() }
	t.Cleanup(func() { tr.stop(); require.NoError(t, db.Close()) })
	return tr
}

// write makes one random write and returns its audit id and the code, or 0 for a broken connection.
func (tr *trial) write(worker, i int) (id string, code int) {
	const path = "/apis/example.dev/v1/things"
	name := fmt.Sprintf("t-%d-%d", worker, i/4)
	text, query := fmt.Sprintf("%d\n", i), ""
	if tr.dice.under(30) == 0 {
		text, query = slow, "?timeout=5ms"
	}
	method, at, body := http.MethodPost, path, fmt.Sprintf(`{"metadata":{"name":%q},"text":%q}`, name, text)
	switch i % 4 {
	case 1:
		method, at = http.MethodPut, path+"/"+name
	case 2:
		method, at, body = http.MethodPatch, path+"/"+name, fmt.Sprintf(`{"text":%q}`, text)
	case 3:
		method, at, body = http.MethodDelete, path+"/"+name, ""
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if tr.dice.under(20) == 0 {
		time.AfterFunc(time.Duration(tr.dice.under(500))*time.Microsecond, cancel) // the client goes
	}
	r := httptest.NewRequestWithContext(ctx, method, at+query, strings.NewReader(body))
	r.Header.Set("Content-Type", map[bool]string{true: string(meta.MergePatch), false: "application/json"}[method == http.MethodPatch])
	r.Header.Set("User-Agent", "tortured\x1b[31m \u2028")
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil { // the server breaks the connection off
			id, code = w.Header().Get("Audit-Id"), 0
		}
	}()
	tr.server.ServeHTTP(w, r)
	return w.Header().Get("Audit-Id"), w.Code
}

// run makes the writes, and calls acknowledged for each that the client was told of.
func (tr *trial) run(acknowledged func(id string, code int)) {
	const workers = 8
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range *tortureWrites / workers {
				id, code := tr.write(worker, i)
				if code < 200 || code > 299 {
					tr.failed.Add(1)
					continue
				}
				tr.acked.Add(1)
				acknowledged(id, code)
			}
		})
	}
	all.Wait()
	require.NotZero(tr.t, tr.acked.Load())
	require.NotZero(tr.t, tr.failed.Load())
}

// strictly checks each acknowledged write at the moment of its acknowledgement: a kill then, or at
// any time after, leaves the record that it was received. It returns what must be recorded in the end.
func (tr *trial) strictly(seen *stored) map[string]bool {
	var mu sync.Mutex
	acked, lost := map[string]bool{}, []string(nil)
	tr.run(func(id string, code int) {
		has := seen.has(keyOf(id, audit.StageRequestReceived, 0))
		mu.Lock()
		defer mu.Unlock()
		if acked[keyOf(id, audit.StageResponseComplete, int32(code))] = true; !has { //nolint:gosec // three digits
			lost = append(lost, id)
		}
	})
	require.Empty(tr.t, lost, "acknowledged, and without a record at that moment")
	return acked
}

// onBadDisk returns a log whose file is on a bad disk.
func onBadDisk(t *testing.T, mode audit.Mode) (*Log, string, *stored) {
	t.Helper()
	path, seen, d := filepath.Join(t.TempDir(), "audit.log"), &stored{records: map[string]int{}}, newDice()
	o := Options{Mode: mode, MaxSize: 1, MaxBackups: 0, Batch: audit.Batch{BufferSize: 50, MaxSize: 7, MaxWait: time.Millisecond}}
	require.NoError(t, o.check())
	r := &rotating{path: path, most: 1 << 20, now: time.Now, open: func(path string) (file, int64, error) {
		f, size, err := openFile(path)
		if err != nil {
			return nil, 0, err
		}
		return &badDisk{f.(*os.File), d, seen}, size, nil //nolint:forcetypeassert // openFile opens one
	}}
	require.NoError(t, r.reopen())
	l := &Log{options: o, file: newWriter(r)}
	l.begin()
	return l, path, seen
}

// recordsIn reads all files of a log.
func recordsIn(t *testing.T, path string) *stored {
	t.Helper()
	out := &stored{records: map[string]int{}}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f) //nolint:gosec // ours
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			out.add(bytes.TrimSuffix(line, []byte{'\n'}))
		}
	}
	require.Empty(t, out.bad, "each line is a record")
	return out
}

func TestSEC_D4_D5_StrictModeLosesNoRecordOnABadDisk(t *testing.T) {
	l, path, seen := onBadDisk(t, audit.ModeBlockingStrict)
	tr := newTrial(t, l)
	acked := tr.strictly(seen)
	tr.stop()
	require.NoError(t, l.Close())
	files := recordsIn(t, path)
	for key := range acked {
		require.Positive(t, files.records[key], key)
	}
	_, lost := l.Losses()
	t.Logf("%d writes acknowledged, each with its record; %d refused or failed; %d records in the files, %d not stored", tr.acked.Load(), tr.failed.Load(), files.count(), lost)
}

func TestSEC_D4_D5_BatchModeCountsWhatABadDiskLoses(t *testing.T) {
	l, path, _ := onBadDisk(t, audit.ModeBatch)
	sink := &counting{Sink: l}
	tr := newTrial(t, sink)
	tr.run(func(string, int) {})
	require.NoError(t, l.Close())
	_, lost := l.Losses()
	in := recordsIn(t, path).count()
	require.Equal(t, sink.given.Load(), uint64(in)+lost, "each record is in a file or counted")
	require.NotZero(t, lost)
	t.Logf("%d records: %d in the files, %d counted as lost", sink.given.Load(), in, lost)
}

// toBadNet returns a webhook whose receiver is bad.
func toBadNet(t *testing.T, o webhook.Options) (*webhook.Webhook, *badNet) {
	t.Helper()
	net := &badNet{dice: newDice(), seen: &stored{records: map[string]int{}}}
	o.InitialBackoff = time.Microsecond
	w, err := webhook.New(webhook.Connection{URL: "https://audit.example.org/", Client: &http.Client{Transport: net}}, o)
	require.NoError(t, err)
	return w, net
}

func TestSEC_D4_D5_StrictModeLosesNoRecordToABadReceiver(t *testing.T) {
	w, net := toBadNet(t, webhook.Options{Mode: audit.ModeBlockingStrict})
	tr := newTrial(t, w)
	acked := tr.strictly(net.seen)
	tr.stop()
	require.NoError(t, w.Close())
	require.Empty(t, net.seen.bad)
	for key := range acked {
		require.True(t, net.seen.has(key), key)
	}
	t.Logf("%d writes acknowledged, each with its record; %d refused or failed", len(acked), tr.failed.Load())
}

func TestSEC_D4_D5_BatchModeCountsWhatABadReceiverLoses(t *testing.T) {
	w, net := toBadNet(t, webhook.Options{Mode: audit.ModeBatch, NoThrottle: true, Batch: audit.Batch{BufferSize: 50, MaxSize: 7, MaxWait: time.Millisecond}})
	sink := &counting{Sink: w}
	tr := newTrial(t, sink)
	tr.run(func(string, int) {})
	require.NoError(t, w.Close())
	_, lost := w.Losses()
	require.Empty(t, net.seen.bad)
	require.Equal(t, sink.given.Load(), net.accepted.Load()+lost, "each record was accepted or is counted")
	t.Logf("%d records: %d accepted, %d counted as lost", sink.given.Load(), net.accepted.Load(), lost)
}
