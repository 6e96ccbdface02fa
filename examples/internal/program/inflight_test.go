package program

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hanging allows everything, and does not answer about objects whose names begin with "held" before the
// release is called. waiting has those.
func hanging(t *testing.T) (url string, waiting chan string, release func()) {
	t.Helper()
	released, waiting := make(chan struct{}), make(chan string, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil && strings.Contains(string(text), `"name":"held`) {
			waiting <- string(text)
			<-released
		}
		_, _ = fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, waiting, sync.OnceFunc(func() { close(released) })
}

// Requests in flight that read and that write are counted apart. What is above a limit is told to come again.
func TestAPF_01_TheFlagsOfRequestsInFlight(t *testing.T) {
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\n")
	ask := func(c *client, method, name string) *answer {
		body := []byte(nil)
		if method == "PUT" {
			body = []byte(widget(name))
		}
		return c.ask(method, widgetsPath+"/"+name+"?dryRun=All", body)
	}
	for _, c := range []struct {
		method, flag, value string
		held                int
	}{
		{"GET", "max-requests-inflight", "2", 1},
		{"GET", "max-requests-inflight", "0", 201},
		{"PUT", "max-mutating-requests-inflight", "2", 1},
		{"PUT", "max-mutating-requests-inflight", "0", 101},
	} {
		t.Run(c.flag+"="+c.value, func(t *testing.T) {
			url, waiting, release := hanging(t)
			s := serveIn(t, t.TempDir(), "--storage=memory", "--token-auth-file="+tokens, "--authorization-mode=Webhook", "--authorization-webhook-version=v1",
				"--authorization-webhook-config-file="+connectionTo(t, url), "--"+c.flag+"="+c.value)
			t.Cleanup(release) // before the server ends
			carol := anonymous(t, s.kubeconfig).with("user-token")
			free := func(a *answer) bool { return a.code == http.StatusNotFound || a.code == http.StatusCreated }
			require.True(t, free(ask(carol, c.method, "a")))
			for i := range c.held {
				go ask(carol, c.method, fmt.Sprintf("held-%d", i))
			}
			for range c.held {
				select {
				case <-waiting:
				case <-time.After(time.Minute):
					require.FailNow(t, "a request is not in flight")
				}
			}
			a := ask(carol, c.method, "b")
			other := map[string]string{"GET": "PUT", "PUT": "GET"}[c.method]
			require.True(t, free(ask(carol, other, "b")), "the other sort has a limit of its own")
			if c.value == "0" { // by default one user may have 200 reads and 100 writes
				require.True(t, free(a), "%d: %s", a.code, a.body)
				return
			}
			require.Equal(t, http.StatusTooManyRequests, a.code)
			require.Equal(t, "1", a.header.Get("Retry-After"))
		})
	}
}
