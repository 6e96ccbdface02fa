package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/audit/webhook"
	"github.com/kindwright/kindwright/internal/json"
)

// backend is a server of records, without a network.
type backend struct {
	mu     sync.Mutex
	codes  []int // of the next answers; 200 when there are no more, 0 for a broken connection
	at     []time.Duration
	begin  time.Time
	stored []string
	hangs  bool
}

func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Since(b.begin))
	code := 200
	if len(b.codes) > 0 {
		code, b.codes = b.codes[0], b.codes[1:]
	}
	if code == 0 {
		return nil, errors.New("the connection was reset")
	}
	if code == 200 {
		var list struct {
			Kind       string        `json:"kind"`
			APIVersion string        `json:"apiVersion"`
			Items      []audit.Event `json:"items"`
		}
		if err := json.Unmarshal(body, &list); err != nil || list.Kind != "EventList" || list.APIVersion != "audit.k8s.io/v1" {
			return nil, fmt.Errorf("no EventList: %s %w", body, err)
		}
		for _, e := range list.Items {
			b.stored = append(b.stored, e.AuditID)
		}
	}
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Body: io.NopCloser(strings.NewReader("lies")), Request: r}, nil
}

// has returns the ids of the records that are stored.
func (b *backend) has() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stored)
}

func (b *backend) connection() webhook.Connection {
	b.begin = time.Now()
	return webhook.Connection{URL: "https://audit.example.org/", Client: &http.Client{Transport: b}}
}

func record(id string) []byte {
	e := audit.Event{APIVersion: "audit.k8s.io/v1", Kind: "Event", AuditID: id, Stage: audit.StageResponseComplete}
	return e.AppendJSON(nil)
}

func TestAUD_17_27_ABatchIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{codes: []int{0, 503, 429}}
		w, err := webhook.New(b.connection(), webhook.Options{})
		require.NoError(t, err)
		for i := range 3 {
			require.NoError(t, w.Write(t.Context(), record(fmt.Sprint(i))))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"0", "1", "2"}, b.stored)
		require.Equal(t, []time.Duration{30 * time.Second, 40 * time.Second, 55 * time.Second, 77500 * time.Millisecond}, b.at)
		require.NoError(t, w.Close())
		_, lost := w.Losses()
		require.Zero(t, lost)
	})
}

// AUD-27: a receiver that is being replaced answers anything for a while. What it may accept later is not lost.
func TestAUD_27_NoAnswerIsFinal(t *testing.T) {
	for _, code := range []int{302, 400, 401, 403, 404, 413} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{codes: []int{code, code}}
			w, err := webhook.New(b.connection(), webhook.Options{})
			require.NoError(t, err)
			require.NoError(t, w.Write(t.Context(), record("a")))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(t, []string{"a"}, b.stored, "%d", code)
			require.NoError(t, w.Close())
			_, lost := w.Losses()
			require.Zero(t, lost)
		})
	}
}

// AUD-23: a batch that waits for its next attempt does not hold up the others.
func TestAUD_23_ABatchThatIsRefusedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{codes: []int{413}}
		w, err := webhook.New(b.connection(), webhook.Options{Batch: audit.Batch{BufferSize: 2, MaxSize: 1}})
		require.NoError(t, err)
		for i := range 6 {
			require.NoError(t, w.Write(t.Context(), record(fmt.Sprint(i))))
			synctest.Wait()
		}
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, b.has())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"1", "2", "3", "4", "5", "0"}, b.has())
		require.NoError(t, w.Close())
		_, lost := w.Losses()
		require.Zero(t, lost)
	})
}

func TestABatchIsLostAfterFiveAttempts(t *testing.T) {
	for _, codes := range [][]int{{500, 500, 500, 500, 500}, {400, 400, 400, 400, 400}, {302, 400, 0, 500, 404}} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{codes: codes}
			w, err := webhook.New(b.connection(), webhook.Options{})
			require.NoError(t, err)
			require.NoError(t, w.Write(t.Context(), record("a")))
			require.NoError(t, w.Write(t.Context(), record("b")))
			time.Sleep(time.Hour)
			require.NoError(t, w.Write(t.Context(), record("c")))
			require.NoError(t, w.Close())
			require.Equal(t, []string{"c"}, b.stored)
			require.Len(t, b.at, len(codes)+1)
			name, lost := w.Losses()
			require.Equal(t, "webhook", name)
			require.EqualValues(t, 2, lost)
		})
	}
}

func TestAUD_20_ModesDecideWhatAFailureMeans(t *testing.T) {
	for mode, fails := range map[audit.Mode]bool{audit.ModeBlocking: false, audit.ModeBlockingStrict: true} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{codes: []int{200, 400, 400, 400, 400, 400}}
			w, err := webhook.New(b.connection(), webhook.Options{Mode: mode, InitialBackoff: time.Second})
			require.NoError(t, err)
			require.NoError(t, w.Write(t.Context(), record("a")))
			require.Equal(t, []string{"a"}, b.stored, "it is there before Write returns")
			require.Equal(t, fails, w.Write(t.Context(), record("b")) != nil)

			b.hangs = true
			began := time.Now()
			require.Equal(t, fails, w.Write(context.WithoutCancel(t.Context()), record("c")) != nil)
			require.Equal(t, 30*time.Second, time.Since(began), "no request waits longer")
			_, lost := w.Losses()
			require.EqualValues(t, 2, lost)
			require.NoError(t, w.Close())
		})
	}
}

func TestAUD_23_AHangingBackEndStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hangs: true}
		w, err := webhook.New(b.connection(), webhook.Options{Batch: audit.Batch{BufferSize: 10, MaxSize: 1}})
		require.NoError(t, err)
		began := time.Now()
		for i := range 50 {
			require.NoError(t, w.Write(t.Context(), record(fmt.Sprint(i))))
		}
		require.Zero(t, time.Since(began))
		require.NoError(t, w.Close())
		require.Equal(t, 10*time.Second, time.Since(began))
		_, lost := w.Losses()
		require.EqualValues(t, 50, lost, "each one is counted")
	})
}

// D5: long records must not fill the memory while the webhook hangs, nor make a body of gigabytes.
func TestAUD_23_AHangingBackEndCostsABoundedAmountOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hangs: true}
		w, err := webhook.New(b.connection(), webhook.Options{})
		require.NoError(t, err)
		long := record(strings.Repeat("x", 4<<20))
		for range 50 {
			require.NoError(t, w.Write(t.Context(), long))
		}
		_, lost := w.Losses()
		require.EqualValues(t, 50-(128<<20)/len(long), lost)
		require.NoError(t, w.Close())
	})
}

func TestOptionsAreChecked(t *testing.T) {
	to := webhook.Connection{URL: "http://localhost"}
	for want, o := range map[string]webhook.Options{
		"invalid audit webhook mode x":                                             {Mode: "x"},
		"invalid audit batch webhook throttle burst -1, must be a positive number": {Batch: audit.Batch{ThrottleBurst: -1}},
		"invalid audit truncate webhook max event size":                            {Truncate: audit.Truncation{Enabled: true, MaxEventBytes: -1}},
		"initial backoff": {InitialBackoff: -1},
	} {
		_, err := webhook.New(to, o)
		require.ErrorContains(t, err, want)
	}
	_, err := webhook.New(webhook.Connection{}, webhook.Options{})
	require.ErrorContains(t, err, "no URL")
}

func TestAConnectionFileIsRead(t *testing.T) {
	var got, paths []string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, paths = append(got, r.Header.Get("Authorization")), append(paths, r.URL.Path)
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		}
	}))
	defer srv.Close()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("marked\n"), 0o600))
	write := func(cluster, user string) string {
		path := filepath.Join(dir, "connection.yaml")
		require.NoError(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: c\n"+
			"contexts: [{name: other, context: {}}, {name: c, context: {cluster: a, user: u}}]\n"+
			"clusters: [{name: a, cluster: {"+cluster+"}}]\nusers: [{name: u, user: {"+user+"}}]\n"), 0o600))
		return path
	}
	server := "server: '" + srv.URL + "'"
	inline := "certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca)
	for _, c := range []struct{ cluster, user, header string }{
		{server + ", certificate-authority: ca.pem", "tokenFile: token", "Bearer marked"},
		{server + ", " + inline, "token: abc", "Bearer abc"},
		{server + ", " + inline + ", tls-server-name: example.com", "username: a, password: b", "Basic " + base64.StdEncoding.EncodeToString([]byte("a:b"))},
		{server + ", insecure-skip-tls-verify: true", "", ""},
	} {
		to, err := webhook.ReadConnection(write(c.cluster, c.user))
		require.NoError(t, err)
		w, err := webhook.New(to, webhook.Options{Mode: audit.ModeBlockingStrict})
		require.NoError(t, err)
		got = nil
		require.NoError(t, w.Write(t.Context(), record("a")))
		require.Equal(t, []string{c.header}, got)
		require.NoError(t, w.Close())
	}
	to, err := webhook.ReadConnection(write(strings.Replace(server, srv.URL, srv.URL+"/elsewhere", 1)+", "+inline, ""))
	require.NoError(t, err)
	w, err := webhook.New(to, webhook.Options{Mode: audit.ModeBlockingStrict, InitialBackoff: time.Microsecond})
	require.NoError(t, err)
	paths = nil
	require.ErrorContains(t, w.Write(t.Context(), record("a")), "307")
	require.Equal(t, slices.Repeat([]string{"/elsewhere"}, 5), paths, "the redirect was not followed")

	_, err = webhook.ReadConnection(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
