package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// told formats an event as one line.
func told(e client.Event[widget]) string {
	line := string(e.Type)
	if e.Object != nil {
		line += " " + e.Object.Name
	}
	if e.Version != "" {
		line += " @" + e.Version
	}
	return line
}

// follow collects events until one of the type comes, or an error.
func follow(ctx context.Context, c *client.Client[widget], until meta.EventType, opts ...client.WatchOption) (lines []string, err error) {
	for e, err := range c.Watch(ctx, client.In("default"), opts...) {
		if err != nil {
			return lines, err
		}
		if lines = append(lines, told(e)); e.Type == until {
			break
		}
	}
	return lines, nil
}

func watchFrom(version string) string {
	return "GET " + widgetPath + "?allowWatchBookmarks=true&resourceVersion=" + version + "&watch=true"
}

func TestWATCH_09_AWatchListsAndGoesOnFromThere(t *testing.T) {
	s, c := play(t,
		reply{body: list("5", "", object("a", "1"))},
		reply{body: event("ADDED", object("b", "6")) + event("DELETED", object("a", "7"))},
	)
	lines, err := follow(t.Context(), c, meta.Deleted)
	require.NoError(t, err)
	require.Equal(t, []string{"RESET", "ADDED a", "SYNCED @5", "ADDED b @6", "DELETED a @7"}, lines)
	s.require("GET "+widgetPath+"?limit=500", watchFrom("5"))
}

func TestWATCH_12_ABrokenStreamIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := play(t,
			reply{body: event("ADDED", object("a", "6")) + event("BOOKMARK", object("", "9"))},
			reply{body: event("MODIFIED", object("a", "10")) + `{"type":"MODIFIED","object":{"metadata"`}, // cut in the middle
			reply{body: ""}, reply{code: 502, body: "a proxy"}, refuse(500, meta.ReasonInternalError),
			reply{body: event("ERROR", failure(500, meta.ReasonInternalError))},
			reply{body: event("ERROR", failure(504, meta.ReasonTimeout))},
			reply{body: "\n\n" + event("MODIFIED", object("a", "11")) + event("NEWTYPE", object("a", "12")) + event("DELETED", object("a", "13"))},
		)
		lines, err := follow(t.Context(), c, meta.Deleted, client.After("5"))
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED a @6", "BOOKMARK @9", "MODIFIED a @10", "MODIFIED a @11", "DELETED a @13"}, lines, "nothing twice, nothing left out")
		s.require(watchFrom("5"), watchFrom("9"), watchFrom("10"), watchFrom("10"), watchFrom("10"), watchFrom("10"), watchFrom("10"), watchFrom("10"))
	})
}

func TestWATCH_18_After410TheWatchListsAnew(t *testing.T) {
	for name, gone := range map[string]reply{
		"ERR-09, in the stream": {body: event("ERROR", failure(410, meta.ReasonExpired))},
		"as a code":             refuse(410, meta.ReasonExpired),
		"Gone":                  refuse(410, meta.ReasonGone),
		"from a proxy":          {code: 410, body: "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := play(t,
					reply{body: event("ADDED", object("a", "6"))}, gone,
					reply{body: list("50", "", object("b", "40"))},
					reply{body: event("DELETED", object("b", "51"))},
				)
				lines, err := follow(t.Context(), c, meta.Deleted, client.After("5"))
				require.NoError(t, err)
				require.Equal(t, []string{"ADDED a @6", "RESET", "ADDED b", "SYNCED @50", "DELETED b @51"}, lines)
				s.require(watchFrom("5"), watchFrom("6"), "GET "+widgetPath+"?limit=500", watchFrom("50"))
			})
		})
	}
}

func TestWATCH_18_ByCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.Config{Options: []kindwright.Option{kindwright.Watches{History: time.Minute}}}.New(t, widgets())
		c := client.For(srv.Client(), widgets())
		old, err := c.Create(t.Context(), named("a"))
		require.NoError(t, err)
		for i := range 5 {
			_, err := c.Create(t.Context(), named(fmt.Sprint("b", i)))
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		require.NoError(t, c.Delete(t.Context(), key("a")))
		lines, err := follow(t.Context(), c, client.Synced, client.After(old.ResourceVersion))
		require.NoError(t, err)
		require.Equal(t, "RESET ADDED b0 ADDED b1 ADDED b2 ADDED b3 ADDED b4", strings.Join(lines[:6], " "))
	})
}

func TestAListThatBeginsAnewResetsAgain(t *testing.T) {
	s := &script{t: t, answers: []reply{
		{body: list("5", "t", object("a", "1"))}, refuse(410, meta.ReasonExpired), {body: list("9", "", object("b", "8"))},
	}}
	c := serve(t, s, client.WithPageSize(1))
	lines, err := follow(t.Context(), c, client.Synced)
	require.NoError(t, err)
	require.Equal(t, []string{"RESET", "ADDED a", "RESET", "ADDED b", "SYNCED @9"}, lines)
}

func TestERR_12_AWatchWaitsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := play(t,
			refuse(429, meta.ReasonTooManyRequests, `"details":{"retryAfterSeconds":30}`), // as a server does during shutdown
			reply{body: event("ERROR", failure(503, meta.ReasonServiceUnavailable, `"details":{"retryAfterSeconds":600}`))},
			reply{body: event("DELETED", object("a", "6"))},
		)
		began := time.Now()
		_, err := follow(t.Context(), c, meta.Deleted, client.After("5"))
		require.NoError(t, err)
		require.Equal(t, 630*time.Second, time.Since(began))
		s.require(watchFrom("5"), watchFrom("5"), watchFrom("5"))
	})
}

func TestERR_11_AVersionOfTheFutureIsWaitedForAndThenGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		future := reply{body: event("ERROR", failure(504, meta.ReasonTimeout, `"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge"}]}`))}
		s, c := play(t, future, future, reply{body: event("ADDED", object("a", "6"))}, future, future, future, reply{body: list("1", "")})
		lines, err := follow(t.Context(), c, client.Synced, client.After("5"))
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED a @6", "RESET", "SYNCED @1"}, lines)
		require.Empty(t, s.answers)
	})
}

func TestAWatchEndsWhereWaitingDoesNotHelp(t *testing.T) {
	for code, is := range map[int]func(error) bool{400: status.IsBadRequest, 401: status.IsUnauthorized, 403: status.IsForbidden, 404: status.IsNotFound, 406: status.IsNotAcceptable} {
		_, c := play(t, reply{code: code})
		_, err := follow(t.Context(), c, meta.Added)
		require.True(t, is(err), "%d to the list: %v", code, err)
		_, c = play(t, reply{code: code})
		_, err = follow(t.Context(), c, meta.Added, client.After("5"))
		require.True(t, is(err), "%d to the watch: %v", code, err)
		_, c = play(t, reply{body: event("ERROR", fmt.Sprintf(`{"kind":"Status","code":%d,"reason":%q}`, code, status.ReasonOf(err)))})
		_, err = follow(t.Context(), c, meta.Added, client.After("5"))
		require.True(t, is(err), "%d in the stream: %v", code, err)
	}
	for _, body := range []string{
		"nonsense\n", "[]\n", event("ADDED", "[]"), event("ADDED", "null"), event("ADDED", `{"metadata":{"name":"a"}}`), event("ADDED", `{"spec":{"size":"x"}}`),
		event("BOOKMARK", "7"), event("BOOKMARK", "{}"), event("ERROR", "7"), event("ERROR", "[]"),
	} {
		_, c := play(t, reply{body: body})
		_, err := follow(t.Context(), c, "", client.After("5"))
		require.Error(t, err)
		require.ErrorContains(t, err, "widgets.example.dev", body)
	}
	_, c := play(t, reply{body: list("", "")})
	_, err := follow(t.Context(), c, "")
	require.ErrorContains(t, err, "it has no version")
}

func TestAWatchSaysWhyItsContextEnded(t *testing.T) {
	why := errors.New("enough")
	_, c := play(t, reply{body: list("5", "")}, reply{body: "…"})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for e, err := range c.Watch(ctx, client.In("default")) {
		if err != nil {
			require.ErrorIs(t, err, why)
			break
		}
		if e.Type == client.Synced {
			time.AfterFunc(time.Millisecond, func() { cancel(why) })
		}
	}
	_, err := follow(ctx, c, "")
	require.ErrorIs(t, err, why)
}

func TestAWatchEndsWithItsInProcessServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, widgets())
		c := client.For(srv.Client(), widgets())
		for e, err := range c.Watch(t.Context(), client.In("default")) {
			if err != nil {
				require.ErrorIs(t, err, client.ErrTransportClosed)
				return
			}
			if e.Type == client.Synced {
				time.AfterFunc(time.Hour, srv.Close)
			}
		}
	})
}

func TestLeavingAWatchReleasesTheStream(t *testing.T) {
	ended := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(event("ADDED", object("a", "6"))))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	_, err := follow(t.Context(), c, meta.Added, client.After("5"))
	require.NoError(t, err)
	<-ended
}

func TestAWatchIsPatientWithAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		began := time.Now()
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked = append(asked, time.Since(began))
			if time.Since(began) < 12*time.Hour {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(event("DELETED", object("a", "6"))))
		}))
		lines, err := follow(t.Context(), c, meta.Deleted, client.After("5"))
		require.NoError(t, err)
		require.Equal(t, []string{"DELETED a @6"}, lines)
		for i := range asked[1:] {
			require.LessOrEqual(t, asked[i+1]-asked[i], 40*time.Second, "it is back soon after the server is")
		}
		require.Less(t, len(asked), 12*3600/20, "and no burden until then")
		require.Less(t, asked[1], 200*time.Millisecond, "the first attempt comes at once")
	})
}

// Something between client and server may end every stream, or answer it with 500.
func TestAWatchWhoseStreamsBringNothingListsAgain(t *testing.T) {
	for name, mute := range map[string]reply{"ends at once": {body: ""}, "500": refuse(500, meta.ReasonInternalError)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				s := &script{t: t, answers: []reply{
					{body: list("5", "")},
					mute, mute, mute,
					{body: list("9", "", object("a", "6"))},
					mute,
					{body: list("9", "", object("a", "6"))},
					{body: event("DELETED", object("a", "12"))},
					mute,
					{body: event("ADDED", object("b", "13"))},
				}}
				c := serve(t, s, client.WithLogger(funcr.New(func(_, line string) { log.WriteString(line + "\n") }, funcr.Options{})))
				var lines []string
				began := time.Now()
				for e, err := range c.Watch(t.Context(), client.In("default")) {
					require.NoError(t, err)
					if lines = append(lines, told(e)); lines[len(lines)-1] == "ADDED b @13" {
						break
					}
				}
				require.Equal(t, []string{
					"RESET", "SYNCED @5", "RESET", "ADDED a", "SYNCED @9", "RESET", "ADDED a", "SYNCED @9", "DELETED a @12", "ADDED b @13",
				}, lines)
				require.Greater(t, time.Since(began), time.Second, "each attempt waits longer")
				require.Contains(t, log.String(), "watches bring no events")
			})
		})
	}
}

func TestWaitingAndStartingOverAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &script{t: t, answers: []reply{
			refuse(429, meta.ReasonTooManyRequests, `"details":{"retryAfterSeconds":3}`),
			{body: event("ERROR", failure(410, meta.ReasonExpired))},
			{body: list("5", "t")},
			refuse(410, meta.ReasonExpired),
			{body: list("9", "")},
		}}
		c := serve(t, s, client.WithLogger(funcr.New(func(_, line string) { log.WriteString(line + "\n") }, funcr.Options{Verbosity: 1})))
		_, err := follow(t.Context(), c, client.Synced, client.After("5"))
		require.NoError(t, err)
		require.Contains(t, log.String(), `"the server asks to retry later" "method"="GET"`)
		require.Contains(t, log.String(), `"a watch was interrupted" "resource"="widgets.example.dev" "reason"="it did not work"`)
		require.Contains(t, log.String(), `"a list starts over"`)
	})
}

// mirror is a controller's view: it follows a watch and keeps the state.
type mirror struct {
	known  map[string]*widget
	synced bool
	resets int
}

func (m *mirror) follow(ctx context.Context, c *client.Client[widget]) error {
	m.known = map[string]*widget{}
	for e, err := range c.Watch(ctx, client.Selection{}) {
		switch {
		case err != nil:
			return err
		case e.Type == client.Reset:
			clear(m.known)
			m.synced = false
			m.resets++
		case e.Type == client.Synced:
			m.synced = true
		case e.Type == meta.Added || e.Type == meta.Modified:
			m.known[e.Object.Key().String()] = e.Object
		case e.Type == meta.Deleted:
			delete(m.known, e.Object.Key().String())
		}
	}
	return errors.New("a watch ended without an error")
}

// TestAnInformerLikeLoopStaysTrueForADay has a client follow a server that is busy, idle, restarted
// on the same store and forgetful, over streams that break and a reader that stops, for a virtual
// day. At every rest the two agree.
func TestAnInformerLikeLoopStaysTrueForADay(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				store := memory.New()
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				start := func() *apitest.Server {
					return apitest.Config{Backend: store, Options: []kindwright.Option{kindwright.Watches{History: 10 * time.Minute}}}.New(t, widgets())
				}
				var srv atomic.Pointer[apitest.Server]
				srv.Store(start())
				// The client stays the same while servers come and go behind it, and the line to
				// them is cut.
				line := newLine()
				front := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { line.relay(w, r, srv.Load()) }))
				c := client.For(&http.Client{Transport: front}, widgets(), client.WithPageSize(3))
				ctx, stop := context.WithCancel(t.Context())
				m, done := &mirror{}, make(chan error, 1)
				go func() { done <- m.follow(ctx, c) }()

				direct := func() *client.Client[widget] { return client.For(srv.Load().Client(), widgets()) }
				for hour := range 24 {
					if random.IntN(3) == 0 {
						line.cut()
					}
					for range random.IntN(40) {
						change(t, direct(), random)
						time.Sleep(time.Duration(random.Int64N(int64(3 * time.Minute))))
					}
					line.mend()
					if random.IntN(3) == 0 {
						srv.Load().Close()
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Minute))))
						srv.Store(start())
					}
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					require.True(t, m.synced)
					require.Equal(t, state(t, direct()), versions(m.known), "hour %d", hour)
				}
				stop()
				require.ErrorIs(t, <-done, context.Canceled)
				require.Greater(t, m.resets, 1, "the history tests nothing: no change was ever lost")
				front.Close()
			})
		})
	}
}

// line leads requests to a server, until it is cut.
type line struct {
	whole atomic.Pointer[context.Context]
	cut   context.CancelFunc
}

func newLine() *line {
	l := &line{}
	l.mend()
	return l
}

func (l *line) mend() {
	if ctx := l.whole.Load(); ctx != nil && (*ctx).Err() == nil {
		return
	}
	ctx, cut := context.WithCancel(context.Background())
	l.cut = cut
	l.whole.Store(&ctx)
}

func (l *line) relay(w http.ResponseWriter, r *http.Request, srv *apitest.Server) {
	whole := *l.whole.Load()
	if whole.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(whole, cancel)()
	r = r.Clone(ctx)
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", "in-process.invalid", ""
	res, err := srv.Transport().RoundTrip(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	buf := make([]byte, 4096)
	for {
		n, err := res.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		w.(http.Flusher).Flush()
		switch {
		case err == io.EOF:
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}

// change does one thing to one of a few objects.
func change(t *testing.T, c *client.Client[widget], random *rand.Rand) {
	t.Helper()
	name := fmt.Sprint("w", random.IntN(8))
	var err error
	switch random.IntN(3) {
	case 0:
		_, err = c.Create(t.Context(), named(name))
	case 1:
		_, err = c.Modify(t.Context(), key(name), func(w *widget) error { w.Spec.Size++; return nil })
	case 2:
		err = c.Delete(t.Context(), key(name))
	}
	if !status.IsNotFound(err) && !status.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

func state(t *testing.T, c *client.Client[widget]) []string {
	t.Helper()
	l, err := c.List(t.Context(), client.Selection{})
	require.NoError(t, err)
	known := map[string]*widget{}
	for _, w := range l.Items {
		known[w.Key().String()] = w
	}
	return versions(known)
}

func versions(known map[string]*widget) []string {
	out := []string{}
	for k, w := range known {
		out = append(out, fmt.Sprintf("%s=%d@%s", k, w.Spec.Size, w.ResourceVersion))
	}
	slices.Sort(out)
	return out
}

func TestASlowReaderMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, widgets())
		var watches atomic.Int32
		c := client.For(&http.Client{Transport: counting{srv.Transport(), &watches}}, widgets())
		begin, err := c.List(t.Context(), client.Selection{})
		require.NoError(t, err)
		const n = 2000 // with notes of 1 KiB, far more than a stream holds
		go func() {
			for i := range n {
				w := named(fmt.Sprintf("w%04d", i))
				w.Annotations = map[string]string{"note": strings.Repeat("x", 1024)}
				if _, err := c.Create(t.Context(), w); err != nil {
					t.Error(err)
				}
			}
		}()
		next := 0
		for e, err := range c.Watch(t.Context(), client.Selection{}, client.After(begin.Version)) {
			require.NoError(t, err)
			if e.Type != meta.Added {
				continue
			}
			require.Equal(t, fmt.Sprintf("w%04d", next), e.Object.Name)
			if next++; next == n {
				break
			}
			if next%100 == 0 {
				time.Sleep(20 * time.Second) // longer than the server waits for a reader
			}
		}
		require.Greater(t, watches.Load(), int32(2), "the test tests nothing: the server never gave up on the reader")
	})
}

// counting counts the watches that pass.
type counting struct {
	http.RoundTripper
	watches *atomic.Int32
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("watch") {
		c.watches.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}
