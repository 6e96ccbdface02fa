package bbolt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/apitest"
	kwmeta "github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// Boat is the kind of the tests that write through a server.
type Boat struct {
	kwmeta.TypeMeta   `json:",inline"`
	kwmeta.ObjectMeta `json:"metadata,omitzero"`
	Size              int `json:"size"`
}

const boatsPath = "/apis/example.dev/v1/namespaces/default/boats"

// httpWrite is a write over HTTP.
type httpWrite struct{ method, path, contentType, body string }

// writesOf returns a write with every verb, in the order in which they work, for one name.
func writesOf(name string) []httpWrite {
	object := `{"apiVersion":"example.dev/v1","kind":"Boat","metadata":{"name":%q%s},"size":%d}`
	at := boatsPath + "/" + name
	return []httpWrite{
		{http.MethodPost, boatsPath, "application/json", fmt.Sprintf(object, name, `,"finalizers":["example.dev/held"]`, 1)},
		{http.MethodPut, at, "application/json", fmt.Sprintf(object, name, `,"finalizers":["example.dev/held"]`, 2)},
		{http.MethodPatch, at, "application/merge-patch+json", `{"size":3}`},
		{http.MethodPatch, at + "?fieldManager=m&force=true", "application/apply-patch+yaml", fmt.Sprintf(object, name, "", 4)},
		{http.MethodDelete, at, "", ""}, // marks it
		{http.MethodPatch, at, "application/merge-patch+json", `{"metadata":{"finalizers":null}}`},
		{http.MethodPost, boatsPath, "application/json", fmt.Sprintf(object, name, "", 5)},
		{http.MethodDelete, at, "", ""},
	}
}

// httpAnswer is what the client of an httpWrite is told.
type httpAnswer struct {
	code    int
	version storage.Revision // of the object in it; 0 if there is none
	text    string
	err     error
}

func (w httpWrite) send(srv *apitest.Server) (a httpAnswer) {
	r, err := http.NewRequest(w.method, srv.URL+w.path, strings.NewReader(w.body))
	if err != nil {
		return httpAnswer{err: err}
	}
	r.Header.Set("Content-Type", w.contentType)
	answer, err := srv.Client().Do(r)
	if err != nil {
		return httpAnswer{err: err}
	}
	text, err := io.ReadAll(answer.Body)
	var object struct {
		Metadata struct {
			ResourceVersion storage.Revision `json:"resourceVersion,string"`
		}
	}
	err = errors.Join(err, answer.Body.Close(), json.Unmarshal(text, &object))
	return httpAnswer{answer.StatusCode, object.Metadata.ResourceVersion, string(text), err}
}

// serveSeam starts a server on a store in a file.
func serveSeam(t *testing.T) (*apitest.Server, *DB, *seam) {
	t.Helper()
	s := &seam{}
	db, err := Open(filepath.Join(t.TempDir(), "store.db"), s.option())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	srv := apitest.Config{Backend: db}.New(t, registry.Kind[Boat]{Group: "example.dev", Version: "v1", Plural: "boats"})
	return srv, db, s
}

// No verb is answered before the sync of what it wrote.
func TestNoAnswerOverHTTPComesBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, db, s := serveSeam(t)
		for _, w := range writesOf("a") {
			h := s.hold()
			before := db.Statistics()
			answer := make(chan httpAnswer, 1)
			go func() { answer <- w.send(srv) }()
			<-h.waiting
			synctest.Wait() // all goroutines wait for the disk
			require.Empty(t, answer, "%s %s is answered before it is synced", w.method, w.path)
			s.heal()
			h.pass <- struct{}{}
			a := <-answer
			require.NoError(t, a.err)
			require.Less(t, a.code, 300, a.text)
			after := db.Statistics()
			require.Greater(t, after.Commits, before.Commits)
			require.Greater(t, after.Syncs, before.Syncs)
			require.False(t, db.bolt.NoSync, "a transaction that does not sync is no sync")
		}
	})
}

// Many clients at once are told of no version that is not durable, whether their write succeeded,
// lost a race, or only read.
func TestOverHTTPNothingIsToldThatIsNotDurable(t *testing.T) {
	srv, db, s := serveSeam(t)
	var durable, unsynced atomic.Uint64
	durable.Store(uint64(db.Statistics().Revision))
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		last := stateIn(tx).last
		if tx.DB().NoSync {
			unsynced.Add(1)
		}
		err := really(tx)
		if err == nil {
			durable.Store(uint64(last))
		}
		return err
	})
	before := db.Statistics()
	var clients sync.WaitGroup
	var acknowledged atomic.Uint64
	for c := range 16 {
		clients.Go(func() {
			for range 5 {
				for _, w := range append(writesOf(fmt.Sprint("x", c/2)), httpWrite{method: http.MethodGet, path: boatsPath}) { // two share a name
					a := w.send(srv)
					if now := durable.Load(); a.err != nil || uint64(a.version) > now {
						t.Errorf("%s %s: told of version %d when %d was durable: %v %s", w.method, w.path, a.version, now, a.err, a.text)
					}
					if w.method != http.MethodGet && a.code < 300 {
						acknowledged.Add(1)
					}
				}
			}
		})
	}
	clients.Wait()
	after := db.Statistics()
	require.NotZero(t, acknowledged.Load())
	require.NotZero(t, after.Commits-before.Commits)
	require.Zero(t, unsynced.Load(), "transactions that do not sync")
	require.NotZero(t, after.Syncs-before.Syncs)
}
