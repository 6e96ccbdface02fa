package soak

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// Boat is the kind that is written and watched.
type Boat struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   BoatSpec   `json:"spec" doc:"What the boat should be."`
	Status BoatStatus `json:"status,omitzero" doc:"What it is."`
}

// BoatSpec is the desired state of a boat.
type BoatSpec struct {
	Owner   string `json:"owner,omitempty" selectable:"" doc:"Who sails it."`
	Size    int32  `json:"size,omitempty" column:"Size" doc:"How long it is."`
	Padding string `json:"padding,omitempty" doc:"Anything."`
}

// BoatStatus is the observed state of a boat.
type BoatStatus struct {
	Phase string `json:"phase,omitempty" doc:"One word."`
}

const (
	storageName = "boats"
	group       = "soak.dev"
	collection  = "boats"
)

// plan holds the parameters of a run.
type plan struct {
	seed     uint64
	events   int64  // to be delivered
	store    string // where the objects are, of stores
	restarts int
	window   time.Duration // of history
	logBytes int           // of the log in memory: older events come from the store
	fault    *fault
	watchers int // of each question
	writers  int
}

// Where the objects of a soak are.
const (
	inMemory  = "memory"
	inFile    = "bbolt"
	elsewhere = "remote"
)

// remote in the environment is the unix socket of a store that internal/remotestore serves. The soak
// then runs on it: storage/etcd cannot be linked here.
const remote = "KINDWRIGHT_REMOTE"

// stores are what the soak runs on.
func stores() []string {
	if os.Getenv(remote) != "" {
		return []string{elsewhere}
	}
	return []string{inMemory, inFile}
}

// host is a server that is restarted now and then.
type host struct {
	t     *testing.T
	plan  plan
	truth *truth
	path  string // of the store's file
	name  string // of the store in another process

	acknowledged atomic.Uint64 // the newest revision that a writer received

	// gate is held for writing while the server restarts. Writers hold it for reading, so the
	// outcome of every write is known. Watchers do not hold it.
	gate   sync.RWMutex
	server *apitest.Server
	tls    *http.Client
	url    string // for tls
}

func newHost(t *testing.T, p plan, problem func(error)) *host {
	h := &host{t: t, plan: p, path: filepath.Join(t.TempDir(), "store.db"), name: rand.Text()}
	h.truth = &truth{history: &watchtest.History{}, problem: problem}
	h.open()
	t.Cleanup(h.close)
	return h
}

// open starts a server over the stored data.
func (h *host) open() {
	switch {
	case h.plan.store == inFile:
		db, err := bbolt.Open(h.path, bbolt.WithRecentBytes(h.plan.logBytes)) // so that watches read the file as well
		require.NoError(h.t, err)
		h.truth.Backend = db
	case h.plan.store == elsewhere:
		db, err := remotestore.Open(h.t.Context(), "unix", os.Getenv(remote), h.name)
		require.NoError(h.t, err)
		h.truth.Backend = db
	case h.truth.Backend == nil:
		h.truth.Backend = memory.New()
	}
	if h.truth.gone() == 0 {
		h.truth.compacted.Store(uint64(h.truth.current())) // a new store has no history
	}
	h.server = apitest.Config{
		Backend: h.truth,
		Options: []kindwright.Option{
			kindwright.Watches{History: h.plan.window, LogBytes: h.plan.logBytes, BookmarkEvery: 20 * time.Millisecond},
		},
	}.New(h.t, registry.Kind[Boat]{Group: group, Version: "v1", Plural: collection, StorageName: storageName, Doc: "A boat."})
	endpoint := h.server.ListenTLS()
	pool := x509.NewCertPool()
	require.True(h.t, pool.AppendCertsFromPEM(endpoint.CA))
	pair, err := tls.X509KeyPair(endpoint.Cert, endpoint.Key)
	require.NoError(h.t, err)
	h.url = endpoint.URL
	h.tls = &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}
}

// shut stops the server, and its watches with it.
func (h *host) shut() {
	h.server.Close()
	h.tls.CloseIdleConnections()
	if h.plan.store != inMemory {
		require.NoError(h.t, h.truth.Backend.Close())
	}
}

func (h *host) close() {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.shut()
	if h.plan.store == inMemory {
		require.NoError(h.t, h.truth.Backend.Close())
	}
}

// restart stops the server and starts another over the same store. bbolt's file is closed and
// opened.
func (h *host) restart() {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.shut()
	h.open()
}

// connection returns a client of the running server. It waits for a server that is starting.
func (h *host) connection(http2 bool) (*http.Client, string) {
	h.gate.RLock()
	defer h.gate.RUnlock()
	if http2 {
		return h.tls, h.url
	}
	return h.server.Client(), h.server.URL
}

// current returns the store's revision, while there is a store.
func (h *host) current() storage.Revision {
	h.gate.RLock()
	defer h.gate.RUnlock()
	return h.truth.current()
}

// elsewhere reports whether the store says that it never issued a revision and never will.
func (h *host) elsewhere(rev storage.Revision) bool {
	h.gate.RLock()
	defer h.gate.RUnlock()
	l, ok := storage.As[storage.Lineage](h.truth)
	return ok && errors.Is(l.Holds(context.Background(), rev), storage.ErrCompacted)
}

// write sends one request, and returns the code of the answer.
func (h *host) write(ctx context.Context, method, path, contentType, body string) (int, error) {
	h.gate.RLock()
	defer h.gate.RUnlock()
	r, err := http.NewRequestWithContext(ctx, method, h.server.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	res, err := h.server.Client().Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 500 {
		err = fmt.Errorf("%s %s: %s", method, path, answer)
	}
	if err == nil && res.StatusCode < 300 {
		h.acknowledge(answer)
	}
	return res.StatusCode, err
}

// acknowledge records the version in an answer. From then on every read shows that version.
func (h *host) acknowledge(answer []byte) {
	_, rest, _ := bytes.Cut(answer, []byte(`"resourceVersion":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	revision, err := strconv.ParseUint(string(text), 10, 64)
	for old := h.acknowledged.Load(); err == nil && old < revision && !h.acknowledged.CompareAndSwap(old, revision); {
		old = h.acknowledged.Load()
	}
}
