package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
)

// everybody may do everything, so that users without privilege meet the limits.
var everybody = kindwright.Authorize(authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
	return authz.Allow, "", nil
}))

// stalled begins a request whose body is not complete, and returns a function that ends it.
func (s *server) stalled(method, path, user, body string) (end func()) {
	s.t.Helper()
	read, write := io.Pipe()
	s.t.Cleanup(func() { _ = write.Close() })
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://server"+path, read)
	require.NoError(s.t, err)
	r.Header.Set("X-User", user)
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := s.client.RoundTrip(r); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}()
	_, err = io.WriteString(write, body)
	require.NoError(s.t, err)
	return func() {
		_ = write.Close()
		<-done
	}
}

// refusedBusy asserts the answer above a limit.
func (a *answer) refusedBusy(text string) {
	a.t.Helper()
	a.refused(429, "TooManyRequests", text)
	require.Equal(a.t, "1", a.header.Get("Retry-After"))
}

func TestS1_RequestsInFlight(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		end := s.stalled("POST", widgetPath, "alice", strings.Repeat(" ", 64))
		synctest.Wait()
		const text = "too many requests are in flight"
		s.do("POST", widgetPath, widgetJSON("a", "", "red", 1), "X-User", "alice", "X-Groups", "").refusedBusy(text)
		s.get(widgetPath, "X-User", "alice", "X-Groups", "").is(200)
		s.do("POST", widgetPath, widgetJSON("a", "", "red", 1), "X-User", "bob", "X-Groups", "").is(201)
		end2 := s.stalled("POST", widgetPath, "bob", strings.Repeat(" ", 64))
		synctest.Wait()
		s.do("POST", widgetPath, widgetJSON("b", "", "red", 1), "X-User", "carol", "X-Groups", "").refusedBusy(text)
		s.do("POST", widgetPath, widgetJSON("b", "", "red", 1)).is(201) // system:masters
		require.Equal(t, 405, s.do("POST", "/healthz", "", "X-User", "carol", "X-Groups", "").code, "health paths have no limit")
		end()
		end2()
		s.do("POST", widgetPath, widgetJSON("c", "", "red", 1), "X-User", "alice", "X-Groups", "").is(201)
	}, everybody, kindwright.Limits{Writes: 2, WritesPerUser: 1})
}

// As many requests as kube-apiserver serves at once are served at once; what is above that is told to come
// again. Reads and writes have limits of their own.
func TestAPF_01_TheDefaultLimits(t *testing.T) {
	var release chan struct{}
	blocking := kindwright.Authorize(authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if strings.HasPrefix(a.User.Name, "slow") {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return authz.Allow, "", nil
	}))
	onEach(t, func(_ *testing.T, s *server) {
		release = make(chan struct{})
		var all sync.WaitGroup
		begin := func(n int, method, path, body string) {
			for i := range n {
				user := fmt.Sprintf("slow%d", i%4) // one user may have half of a limit
				all.Go(func() { s.do(method, path, body, "X-User", user, "X-Groups", "") })
			}
			synctest.Wait()
		}
		const text = "too many requests are in flight"
		write := func(user string) *answer {
			return s.do("POST", widgetPath+"?dryRun=All", widgetJSON("a", "", "red", 1), "X-User", user, "X-Groups", "")
		}
		read := func(user string) *answer { return s.get(widgetPath, "X-User", user, "X-Groups", "") }
		begin(199, "POST", widgetPath+"?dryRun=All", widgetJSON("a", "", "red", 1))
		write("ann").is(201)
		begin(1, "POST", widgetPath+"?dryRun=All", widgetJSON("a", "", "red", 1))
		write("ann").refusedBusy(text)
		read("ann").is(200)
		begin(399, "GET", widgetPath, "")
		read("ann").is(200)
		begin(1, "GET", widgetPath, "")
		read("ann").refusedBusy(text)
		write("ann").refusedBusy(text)
		close(release)
		all.Wait()
		read("ann").is(200)
		write("ann").is(201)
	}, blocking)
}

func TestS6_W6_WatchesPerUser(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		watch := func(user string) *http.Response {
			return s.send("GET", widgetPath+"?watch=1", "", "X-User", user, "X-Groups", "")
		}
		first := watch("alice")
		second := watch("alice")
		defer second.Body.Close()
		require.Equal(t, 200, second.StatusCode)
		s.get(widgetPath+"?watch=1", "X-User", "alice", "X-Groups", "").refusedBusy("too many watches and connections")
		s.get(widgetPath, "X-User", "alice", "X-Groups", "").is(200)
		other := watch("bob")
		require.Equal(t, 200, other.StatusCode)
		_ = other.Body.Close()
		_ = first.Body.Close()
		synctest.Wait()
		third := watch("alice")
		require.Equal(t, 200, third.StatusCode)
		_ = third.Body.Close()
	}, everybody, kindwright.Limits{StreamsPerUser: 2})
}

// A body that stalls holds what has arrived of it, and nothing for the rest that it announces.
func TestS1_BodiesThatStall(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		large := strings.Repeat(" ", 400<<10)
		end := s.stalled("POST", widgetPath, "alice", large)
		synctest.Wait()
		s.do("POST", widgetPath, large+widgetJSON("a", "", "red", 1), "X-User", "alice", "X-Groups", "").refusedBusy("too much memory")
		s.do("POST", widgetPath, widgetJSON("a", "", "red", 1), "X-User", "alice", "X-Groups", "").is(201)
		s.do("POST", widgetPath, large+widgetJSON("b", "", "red", 1), "X-User", "bob", "X-Groups", "").is(201)
		end()
		s.do("POST", widgetPath, large+widgetJSON("c", "", "red", 1), "X-User", "alice", "X-Groups", "").is(201)
	}, everybody, kindwright.Limits{BodyBytes: 1400 << 10})
}

// later sends a request, and returns where its answer arrives.
func (s *server) later(method, path, user, body string) <-chan int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://server"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("X-User", user)
	r.Header.Set("Content-Type", "application/json")
	code := make(chan int, 1)
	go func() {
		answer, err := s.client.RoundTrip(r)
		if err != nil {
			code <- 0
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		code <- answer.StatusCode
	}()
	return code
}

// A body waits until there is memory to decode it, in the order of arrival, and no longer than its
// request may last. What has no body does not wait.
func TestS1_BodiesWaitToBeDecoded(t *testing.T) {
	const takes = 10 * time.Second
	slow := kindwright.Admit(admission.Plugin{Name: "slow", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Name == "slow" {
			time.Sleep(takes)
		}
		return nil
	})})
	onEach(t, func(t *testing.T, s *server) {
		began, half := time.Now(), strings.Repeat(" ", 60<<10)
		first := s.later("POST", widgetPath, "alice", half+widgetJSON("slow", "", "red", 1))
		synctest.Wait()
		second := s.later("POST", widgetPath, "bob", half+widgetJSON("b", "", "red", 1))
		synctest.Wait()
		small := s.later("POST", widgetPath, "carol", widgetJSON("c", "", "red", 1))
		synctest.Wait()
		require.Empty(t, second, "there is memory for one of this size")
		require.Empty(t, small, "there is memory for it, and it is not its turn")
		s.get(widgetPath, "X-User", "alice", "X-Groups", "").is(200)
		require.Zero(t, time.Since(began), "nothing to decode, nothing to wait for")

		s.do("POST", widgetPath+"?timeout=2s", widgetJSON("d", "", "red", 1), "X-User", "dave", "X-Groups", "").refusedBusy("wait to be decoded")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Empty(t, second)
		require.Equal(t, []int{201, 201, 201}, []int{<-first, <-second, <-small})
		require.Equal(t, takes, time.Since(began), "one that gave up holds nothing")
		s.do("POST", widgetPath, half+widgetJSON("e", "", "red", 1), "X-User", "dave", "X-Groups", "").is(201)
		require.Equal(t, takes, time.Since(began))
		s.get(widgetPath+"/d", "X-User", "dave", "X-Groups", "").is(404)
	}, everybody, slow, kindwright.Limits{DecodeBytes: 1 << 20})
}

// A few bytes that change a large object take what the object takes, and not what they are long: small
// changes of the largest objects, sent at once, would take gigabytes.
func TestS1_SmallChangesOfLargeObjectsWait(t *testing.T) {
	const takes = 10 * time.Second
	slow := kindwright.Admit(admission.Plugin{Name: "slow", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Name == "slow" && r.Operation == admission.Update {
			time.Sleep(takes)
		}
		return nil
	})})
	onEach(t, func(t *testing.T, s *server) {
		for _, name := range []string{"slow", "other"} {
			s.create(widgetPath, `{"metadata":{"name":"`+name+`","annotations":{"long":"`+strings.Repeat("x", 124<<10)+`"}},"spec":{"size":1}}`)
		}
		s.widget("small", "")
		began := time.Now()
		first := s.later("PUT", widgetPath+"/slow", "alice", widgetJSON("slow", "", "red", 2))
		synctest.Wait()
		s.do("PUT", widgetPath+"/small", widgetJSON("small", "", "red", 2), "X-User", "bob", "X-Groups", "").is(200)
		require.Zero(t, time.Since(began), "there is room for small ones")
		second := s.later("PUT", widgetPath+"/other", "bob", widgetJSON("other", "", "red", 2))
		synctest.Wait()
		require.Empty(t, second)
		require.Equal(t, []int{200, 200}, []int{<-first, <-second})
		require.Equal(t, takes, time.Since(began))
	}, everybody, slow, kindwright.Limits{DecodeBytes: 3 << 20})
}

func TestS13_H7_HeadersAndCookies(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		many := make([]string, 0, 2400)
		for i := range 1200 {
			many = append(many, fmt.Sprintf("X-%d", i), "a")
		}
		s.get(widgetPath, many...).refused(431, "BadRequest", "more than 1000 header fields")
		s.get(widgetPath, many[:1600]...).is(200)
		s.get(widgetPath, "Cookie", strings.Repeat("a=b; ", 300)).refused(431, "BadRequest", "200 cookies")
		s.get(widgetPath, "Cookie", strings.Repeat("a=b; ", 100)).is(200)
	})
}

// A client that sends its whole body before it reads sees the 413, and not the end of its connection.
func TestB4_TooLargeIsSeen(t *testing.T) {
	const size = 24 << 20
	onEach(t, func(t *testing.T, s *server) {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d", size), "Transfer-Encoding: chunked"} {
			s.sendsAll(framing, size)
		}
	})
}

func (s *server) sendsAll(framing string, size int) {
	t := s.t
	t.Helper()
	conn, err := s.client.DialContext(t.Context(), "tcp", "server")
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-User: admin\r\nX-Groups: system:masters\r\nContent-Type: application/json\r\n%s\r\n\r\n", widgetPath, framing)
	require.NoError(t, err)
	send(t, conn, size, strings.HasPrefix(framing, "Transfer"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 413, res.StatusCode)
	require.True(t, res.Close)
	require.NoError(t, conn.Close())
}

func TestB4_TooLargeIsSeenOverHTTP2(t *testing.T) {
	s := memoryServer(t)
	web := httptest.NewUnstartedServer(s.api)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", web.URL+widgetPath, io.LimitReader(spaces{}, 6<<20))
	require.NoError(t, err)
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	r.Header.Set("Content-Type", "application/json")
	res, err := web.Client().Do(r)
	require.NoError(t, err)
	require.Equal(t, 2, res.ProtoMajor)
	require.Equal(t, 413, res.StatusCode)
	require.NoError(t, res.Body.Close())
}

// send writes a body of blanks.
func send(t *testing.T, conn net.Conn, size int, chunked bool) {
	t.Helper()
	const piece = 64 << 10
	blanks := strings.Repeat(" ", piece)
	for range size / piece {
		var err error
		if chunked {
			_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", piece, blanks)
		} else {
			_, err = io.WriteString(conn, blanks)
		}
		require.NoError(t, err)
	}
	if chunked {
		_, err := io.WriteString(conn, "0\r\n\r\n")
		require.NoError(t, err)
	}
}

// spaces is an endless text of blanks.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
