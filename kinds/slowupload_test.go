package kinds_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/storage/memory"
)

// upload is a request whose body has begun.
type upload struct {
	to   *io.PipeWriter
	done chan *http.Response // nil if there is no answer
}

// network serves a host over the network, where reads of a body can be interrupted.
func network(t *testing.T, h *host) (url string, c *http.Client) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL, srv.Client()
}

func begin(t *testing.T, url string, c *http.Client, user, name string) *upload {
	t.Helper()
	read, write := io.Pipe()
	t.Cleanup(func() { _ = write.CloseWithError(context.Canceled) })
	r := newRequest(t.Context(), "POST", "/api/v1/namespaces", "", "X-User", user, "X-Groups", authn.GroupAuthenticated)
	out, err := http.NewRequestWithContext(t.Context(), r.Method, url+r.URL.Path, read)
	require.NoError(t, err)
	out.Header = r.Header
	out.Header.Set("Content-Type", "application/json")
	u := &upload{to: write, done: make(chan *http.Response, 1)}
	go func() {
		answer, err := c.Do(out)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		u.done <- answer
	}()
	_, err = fmt.Fprintf(write, `{"metadata":{"name":%q`, name)
	require.NoError(t, err)
	return u
}

// end sends the rest of the body and returns the code of the answer.
func (u *upload) end(t *testing.T) int {
	t.Helper()
	_, err := io.WriteString(u.to, "}}")
	require.NoError(t, err)
	require.NoError(t, u.to.Close())
	answer := <-u.done
	require.NotNil(t, answer)
	return answer.StatusCode
}

// waits waits until as many requests of a user as there are have come, and none of them has a seat. The
// user has a schema of the same name.
func (h *host) waits(level, user string, n int) {
	h.t.Helper()
	labels := fmt.Sprintf(`{priority_level=%q,flow_schema=%q} `, level, user)
	require.Eventually(h.t, func() bool {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, newRequest(h.t.Context(), "GET", "/metrics", ""))
		has := func(family string, n int) bool {
			return strings.Contains(w.Body.String(), fmt.Sprintf("\n%s%s%d\n", family, labels, n))
		}
		return has("apiserver_flowcontrol_dispatched_requests_total", n) && has("apiserver_flowcontrol_current_executing_requests", 0)
	}, time.Minute, time.Millisecond)
}

// narrow makes a level with few seats for some users.
func (h *host) narrow(users ...string) {
	h.t.Helper()
	h.level("one", `{"nominalConcurrencyShares":1,"borrowingLimitPercent":0,"limitResponse":{"type":"Reject"}}`)
	for _, u := range users {
		h.schema(u, "one", u, "ByUser")
	}
}

// APF-02: uploads that never end keep nobody from being served, not even their own user, whose level has
// three seats. They get a seat when they have ended.
func TestAPF_02_SlowUploadsTakeNoSeats(t *testing.T) {
	h := sharing(t, memory.New(), 600, kindwright.Authorize(authz.AlwaysAllow()))
	h.narrow("ann", "bob")
	url, c := network(t, h)
	var all []*upload
	for i := range 50 {
		all = append(all, begin(t, url, c, "ann", fmt.Sprintf("slow-%d", i)))
		h.waits("one", "ann", i+1)
	}
	require.Equal(t, 200, h.send("ann").Code)
	require.Equal(t, 200, h.send("bob").Code)
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"quick"}}`, "X-User", "bob", "X-Groups", authn.GroupAuthenticated)
	for _, u := range all {
		require.Equal(t, 201, u.end(t))
	}
}

// An upload that has ended is not served without a seat.
func TestAPF_03_AnUploadWaitsForASeatAgain(t *testing.T) {
	door := newDoorman("slow")
	h := sharing(t, memory.New(), 600, kindwright.Authorize(door))
	h.narrow("ann", "slow")
	url, c := network(t, h)
	first := begin(t, url, c, "ann", "first")
	h.waits("one", "ann", 1)
	second := begin(t, url, c, "ann", "second")
	h.waits("one", "ann", 2)
	var all sync.WaitGroup
	for full := false; !full; {
		code := make(chan int, 1)
		all.Go(func() { code <- h.send("slow").Code })
		select {
		case <-door.in: // one of the uploads, or one that has a seat now
		case got := <-code:
			full = got == 429
		}
	}
	require.Equal(t, 429, first.end(t))
	door.open("slow")
	all.Wait()
	require.Equal(t, 201, second.end(t))
}

// What waits without a seat is counted, with 64 KiB each: half of all room is the most that one user has.
func TestS1_SlowUploadsStayWithinTheMemoryForBodies(t *testing.T) {
	const room = 8 * 64 << 10
	h := sharing(t, memory.New(), 600, kindwright.Authorize(authz.AlwaysAllow()), kindwright.Limits{BodyBytes: room})
	h.narrow("ann", "bob")
	url, c := network(t, h)
	var ann []*upload
	for i := range 4 {
		ann = append(ann, begin(t, url, c, "ann", fmt.Sprintf("ann-%d", i)))
		h.waits("one", "ann", i+1)
	}
	for range 6 {
		answer := <-begin(t, url, c, "ann", "more").done
		require.NotNil(t, answer)
		require.Equal(t, 429, answer.StatusCode)
		require.Equal(t, "1", answer.Header.Get("Retry-After"))
	}
	bob := begin(t, url, c, "bob", "bob")
	h.waits("one", "bob", 1)
	require.Equal(t, 201, bob.end(t))
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"large","annotations":{"a":"`+strings.Repeat("x", 32<<10)+`"}}}`,
		"X-User", "ann", "X-Groups", authn.GroupAuthenticated)
	for _, u := range ann {
		require.Equal(t, 201, u.end(t))
	}
	again := begin(t, url, c, "ann", "again")
	h.waits("one", "ann", 4+6+1+4+1)
	require.Equal(t, 201, again.end(t), "what has ended is given back")
}
