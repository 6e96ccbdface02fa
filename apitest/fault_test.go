package apitest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// request sends one request with a body of JSON, or none, and returns what there is of the answer.
func send(c *http.Client, method, url, body string) (code int, header http.Header, answer string, err error) {
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(data), err
}

func create(srv *apitest.Server, name string) error {
	_, err := client.For(srv.Client(), Widgets).Create(context.Background(), widget(name))
	return err
}

func TestAFaultAnswersWithTheErrorThatAServerWouldSend(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 1)
	one := srv.URL + widgetsPath + "/w-00000"
	for _, c := range []struct {
		verb, method, url string
		effect            apitest.Effect
		code              int
		reason            meta.Reason
		retryAfter        string
	}{
		{"create", http.MethodPost, srv.URL + widgetsPath, apitest.Answer(409), 409, meta.ReasonAlreadyExists, ""},
		{"update", http.MethodPut, one, apitest.Answer(409), 409, meta.ReasonConflict, ""},
		{"patch", http.MethodPatch, one, apitest.Answer(422), 422, meta.ReasonInternalError, ""},
		{"get", http.MethodGet, one, apitest.Answer(404), 404, meta.ReasonNotFound, ""},
		{"list", http.MethodGet, srv.URL + widgetsPath, apitest.Answer(410), 410, meta.ReasonExpired, ""},
		{"watch", http.MethodGet, srv.URL + widgetsPath + "?watch=1", apitest.RetryAfter(429, 7), 429, meta.ReasonTooManyRequests, "7"},
		{"delete", http.MethodDelete, one, apitest.Answer(500), 500, meta.ReasonInternalError, ""},
		{"deletecollection", http.MethodDelete, srv.URL + widgetsPath, apitest.RetryAfter(503, 1), 503, meta.ReasonServiceUnavailable, "1"},
		{"get,list", http.MethodGet, srv.URL + widgetsPath, apitest.Answer(504), 504, meta.ReasonTimeout, ""},
		{"get", http.MethodGet, one, apitest.Answer(403), 403, meta.ReasonForbidden, ""},
		{"get", http.MethodGet, one, apitest.Answer(401), 401, meta.ReasonUnauthorized, ""},
		{"get", http.MethodGet, one, apitest.Answer(400), 400, meta.ReasonBadRequest, ""},
		{"get", http.MethodGet, one, apitest.Refuse(status.Gone("over")), 410, meta.ReasonGone, ""},
	} {
		f := srv.Fail(apitest.Fault{Verb: c.verb, Times: 1, Effect: c.effect, MustFire: true})
		code, header, answer, err := send(srv.Client(), c.method, c.url, "{}")
		require.NoError(t, err)
		require.Equal(t, c.code, code, answer)
		require.Contains(t, answer, `"reason":"`+string(c.reason)+`"`)
		require.Equal(t, c.retryAfter, header.Get("Retry-After"))
		require.Equal(t, 1, f.Fired(), f)
	}
	require.Len(t, list(t, srv), 1, "nothing was done")
}

func TestAFaultHitsTheRequestsItNamesAndNoOthers(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 2)
	one, two := srv.URL+widgetsPath+"/w-00000", srv.URL+widgetsPath+"/w-00001"
	for name, c := range map[string]struct {
		fault apitest.Fault
		hit   []string
	}{
		"verb":         {apitest.Fault{Verb: "get"}, []string{"one", "two", "other group"}},
		"verbs":        {apitest.Fault{Verb: "list,get"}, []string{"one", "two", "list", "other group"}},
		"resource":     {apitest.Fault{Resource: "widgets"}, []string{"one", "two", "list"}},
		"with group":   {apitest.Fault{Resource: "widgets.shop.example.com"}, []string{"one", "two", "list"}},
		"another one":  {apitest.Fault{Resource: "widgets.example.com"}, nil},
		"kind":         {apitest.Fault{Resource: "Widget"}, []string{"one", "two", "list"}},
		"core":         {apitest.Fault{Resource: "Namespace"}, []string{"other group"}},
		"subresource":  {apitest.Fault{Resource: "widgets/status"}, []string{"status"}},
		"subresources": {apitest.Fault{Resource: "widgets/*"}, []string{"status"}},
		"name":         {apitest.Fault{Name: "w-00001"}, []string{"two"}},
		"namespace":    {apitest.Fault{Namespace: "default", Verb: "list"}, []string{"list"}},
		"another":      {apitest.Fault{Namespace: "kube-system"}, nil},
		"user":         {apitest.Fault{User: "apitest", Name: "w-00000"}, []string{"one", "status"}},
		"other user":   {apitest.Fault{User: "ann"}, nil},
		"agent":        {apitest.Fault{Agent: "Go-http", Name: "w-00001"}, []string{"two"}},
		"other agent":  {apitest.Fault{Agent: "curl"}, nil},
		"what fits":    {apitest.Fault{Resource: "widgets", Effect: apitest.BreakWatch(0)}, nil},
		"path":         {apitest.Fault{Path: "/readyz"}, []string{"health"}},
		"discovery":    {apitest.Fault{Path: "/apis"}, []string{"one", "two", "list", "status", "discovery"}},
		"when":         {apitest.Fault{When: func(r *http.Request) bool { return r.URL.RawQuery == "limit=1" }}, []string{"list"}},
		"all":          {apitest.Fault{}, []string{"one", "two", "list", "status", "other group", "discovery", "health"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fault.Effect.String() == "" {
				c.fault.Effect = apitest.Answer(418)
			}
			f := srv.Fail(c.fault)
			var hit []string
			for _, r := range []struct{ name, method, url string }{
				{"one", http.MethodGet, one},
				{"two", http.MethodGet, two},
				{"list", http.MethodGet, srv.URL + widgetsPath + "?limit=1"},
				{"status", http.MethodPut, one + "/status"},
				{"other group", http.MethodGet, srv.URL + "/api/v1/namespaces/default"},
				{"discovery", http.MethodGet, srv.URL + "/apis"},
				{"health", http.MethodGet, srv.URL + "/readyz"},
			} {
				code, _, _, err := send(srv.Client(), r.method, r.url, "")
				require.NoError(t, err)
				if code == 418 {
					hit = append(hit, r.name)
				}
			}
			require.Equal(t, c.hit, hit, "%s", f)
			require.Equal(t, len(hit), f.Fired())
			f.Stop()
			f.Stop()
			code, _, _, err := send(srv.Client(), http.MethodGet, one, "")
			require.NoError(t, err)
			require.Equal(t, 200, code)
		})
	}
}

func TestFaultsCount(t *testing.T) {
	srv := apitest.New(t, Widgets)
	first := srv.Fail(apitest.Fault{Verb: "create", Skip: 1, Times: 2, Effect: apitest.Answer(500)})
	second := srv.Fail(apitest.Fault{Verb: "create", Skip: 1, Times: 1, Effect: apitest.Answer(503)})
	var codes []int
	for range 6 {
		code, _, _, err := send(srv.Client(), http.MethodPost, srv.URL+widgetsPath, `{"metadata":{"generateName":"a-"}}`)
		require.NoError(t, err)
		codes = append(codes, code)
	}
	require.Equal(t, []int{201, 500, 500, 503, 201, 201}, codes, "the second fault sees what the first lets pass")
	require.Equal(t, 2, first.Fired())
	require.Equal(t, 1, second.Fired())
	require.Equal(t, "create: answered 500; fired 2 times", first.String())
}

func TestAFaultThatMustFireAndDoesNotFailsTheTest(t *testing.T) {
	problems := within(t, func(s *scope) {
		srv := apitest.New(s, Widgets)
		srv.Fail(apitest.Fault{Verb: "create", Times: 2, Effect: apitest.Answer(500), MustFire: true})
		srv.Fail(apitest.Fault{Verb: "list", Effect: apitest.Answer(500), MustFire: true})
		srv.Fail(apitest.Fault{Verb: "get", Effect: apitest.Answer(500)})
		srv.Fail(apitest.Fault{Verb: "create", Effect: apitest.Delay(1), MustFire: true})
		_ = create(srv, "a")
		_ = create(srv, "b")
		_ = create(srv, "c")
	})
	require.Equal(t, "apitest: a fault that must fire did not, or not often enough: list: answered 500; fired 0 times", problems)
	problems = within(t, func(s *scope) { apitest.New(s, Widgets).Fail(apitest.Fault{}) })
	require.Contains(t, problems, "the fault has no Effect")
}

// A fault that can never fire would let a useless test pass.
func TestImpossibleFaultsAreRejected(t *testing.T) {
	for want, fault := range map[string]apitest.Fault{
		`there is no verb "udpate"`:            {Verb: "get,udpate", Effect: apitest.Answer(500)},
		`there is no verb " list"`:             {Verb: "get, list", Effect: apitest.Answer(500)},
		"must not be negative":                 {Times: -1, Effect: apitest.Answer(500)},
		"the time must not be negative":        {Effect: apitest.Delay(-1)},
		`"answered -1ns later": the time must`: {Effect: apitest.DelayAnswer(-1)},
		"200 is not the code of a refusal":     {Effect: apitest.Answer(200)},
		"9999 is not the code of a refusal":    {Effect: apitest.RetryAfter(9999, 1)},
		"0 is not the code of a refusal":       {Verb: "watch", Effect: apitest.EndWatch(1, 0)},
		"Refuse needs an error":                {Effect: apitest.Refuse(nil)},
		"does not apply to the verb get,list":  {Verb: "get,list", Effect: apitest.BreakWatch(1)},
		"does not apply to the verb update":    {Verb: "update", Effect: apitest.Stale()},
	} {
		require.Contains(t, within(t, func(s *scope) { apitest.New(s, Widgets).Fail(fault) }), want)
	}
}

func TestAnAnswerThatIsLostComesAfterTheWrite(t *testing.T) {
	srv := apitest.New(t, Widgets)
	srv.Fail(apitest.Fault{Verb: "create", Times: 1, Effect: apitest.LoseAnswer(), MustFire: true})
	require.ErrorIs(t, create(srv, "a"), io.EOF)
	require.Len(t, list(t, srv), 1)
	require.True(t, status.IsAlreadyExists(create(srv, "a")), "which is what a controller meets when it tries again")
	srv.Fail(apitest.Fault{Verb: "create", Times: 1, Effect: apitest.Break(), MustFire: true})
	require.ErrorIs(t, create(srv, "b"), io.EOF)
	require.Len(t, list(t, srv), 1, "nothing was done")
}

func TestSlowAnswersTakeVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		slow := srv.Fail(apitest.Fault{Verb: "create", Times: 1, Effect: apitest.Delay(20 * time.Second)})
		began := time.Now()
		created := make(chan error)
		go func() { created <- create(srv, "a") }()
		time.Sleep(10 * time.Second)
		require.Empty(t, list(t, srv), "nothing is done before")
		require.NoError(t, <-created)
		require.Equal(t, 20*time.Second, time.Since(began))

		srv.Fail(apitest.Fault{Verb: "create", Times: 1, Effect: apitest.DelayAnswer(20 * time.Second)})
		began = time.Now()
		go func() { created <- create(srv, "b") }()
		time.Sleep(10 * time.Second)
		require.Len(t, list(t, srv), 2, "it is done, and not answered")
		require.NoError(t, <-created)
		require.Equal(t, 20*time.Second, time.Since(began))
		require.Equal(t, 1, slow.Fired())

		srv.Fail(apitest.Fault{Verb: "create", Times: 1, Effect: apitest.Delay(2 * time.Minute)})
		began = time.Now()
		require.True(t, status.IsTimeout(create(srv, "c")), "the server has its own patience")
		require.Equal(t, 34*time.Second, time.Since(began))

		hang := srv.Fail(apitest.Fault{Verb: "create", Effect: apitest.Hang()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began = time.Now()
		_, err := client.For(srv.Client(), Widgets).Create(ctx, widget("d"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(began))
		go func() {
			time.Sleep(time.Minute)
			hang.Stop()
		}()
		require.ErrorIs(t, create(srv, "e"), io.EOF)
		require.NoError(t, create(srv, "e"))
	})
}

func TestAnOutageEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		srv.Fail(apitest.Fault{For: time.Minute, Effect: apitest.RetryAfter(503, 1)})
		for range 60 {
			code, _, _, err := send(srv.Client(), http.MethodGet, srv.URL+"/readyz", "")
			require.NoError(t, err)
			require.Equal(t, 503, code)
			time.Sleep(time.Second)
		}
		code, _, _, err := send(srv.Client(), http.MethodGet, srv.URL+"/readyz", "")
		require.NoError(t, err)
		require.Equal(t, 200, code)
	})
}

// watched opens a watch from a version and returns its lines as they come, and how it ended.
func watched(t *testing.T, srv *apitest.Server, query string) (lines func() []string, end func() error) {
	res, err := srv.Client().Get(srv.URL + widgetsPath + "?watch=1&" + query)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	var mu sync.Mutex
	var text strings.Builder
	done := make(chan error, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := res.Body.Read(buf)
			mu.Lock()
			text.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				done <- err
				return
			}
		}
	}()
	t.Cleanup(func() { _ = res.Body.Close() })
	lines = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	}
	return lines, func() error {
		synctest.Wait()
		select {
		case err := <-done:
			return err
		default:
			return nil
		}
	}
}

func TestWatchesFailAfterSomeEvents(t *testing.T) {
	for name, c := range map[string]struct {
		effect apitest.Effect
		check  func(t *testing.T, lines []string, end error)
	}{
		"broken at the start": {apitest.BreakWatch(0), func(t *testing.T, lines []string, end error) {
			require.Equal(t, []string{""}, lines)
			require.ErrorIs(t, end, io.ErrUnexpectedEOF)
		}},
		"broken after two": {apitest.BreakWatch(2), func(t *testing.T, lines []string, end error) {
			require.Len(t, lines, 2)
			require.Contains(t, lines[1], "w-00001")
			require.ErrorIs(t, end, io.ErrUnexpectedEOF)
		}},
		"cut after two": {apitest.CutWatch(2), func(t *testing.T, lines []string, end error) {
			require.Len(t, lines, 3)
			require.True(t, strings.HasPrefix(lines[2], `{"type":"ADDED"`))
			require.False(t, strings.HasSuffix(lines[2], "}}"), lines[2])
			require.ErrorIs(t, end, io.ErrUnexpectedEOF)
		}},
		"ended at the start": {apitest.EndWatch(0, 410), func(t *testing.T, lines []string, end error) {
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], `{"type":"ERROR","object":{`)
			require.Contains(t, lines[0], `"code":410`)
			require.ErrorIs(t, end, io.EOF)
			require.NotErrorIs(t, end, io.ErrUnexpectedEOF)
		}},
		"ended after three": {apitest.EndWatch(3, 500), func(t *testing.T, lines []string, end error) {
			require.Len(t, lines, 4)
			require.Contains(t, lines[3], `"code":500`)
			require.ErrorIs(t, end, io.EOF)
		}},
		"silent after one": {apitest.SilenceWatch(1), func(t *testing.T, lines []string, end error) {
			require.Len(t, lines, 1)
			require.NoError(t, end)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := apitest.New(t, Widgets)
				srv.Fail(apitest.Fault{Verb: "watch", Resource: "widgets", Times: 1, Effect: c.effect, MustFire: true})
				lines, end := watched(t, srv, "")
				fill(t, srv, 5)
				synctest.Wait()
				c.check(t, lines(), end())
				_, end = watched(t, srv, "")
				require.NoError(t, end(), "the next one is well")
			})
		})
	}
}

func TestASilentWatchGoesOnWithoutAnyLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		f := srv.Fail(apitest.Fault{Verb: "watch", Effect: apitest.SilenceWatch(1)})
		lines, end := watched(t, srv, "allowWatchBookmarks=true&resourceVersion=0&timeoutSeconds=100000")
		fill(t, srv, 3)
		time.Sleep(5 * time.Hour)
		require.Len(t, lines(), 2, "the bookmark after the initial events, and one event; no bookmarks either")
		require.NoError(t, end())
		f.Stop()
		synctest.Wait()
		require.Len(t, lines(), 5)
		time.Sleep(5 * time.Minute)
		require.Contains(t, lines()[5], "BOOKMARK")
	})
}

// Events that the server writes in one piece are still counted separately.
func TestASilentWatchHasSentWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		fill(t, srv, 5)
		srv.Fail(apitest.Fault{Verb: "watch", Effect: apitest.SilenceWatch(3)})
		lines, end := watched(t, srv, "")
		synctest.Wait()
		require.Len(t, lines(), 3)
		require.NoError(t, end())
	})
}

func TestASlowWatchIsLateAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		srv.Fail(apitest.Fault{Verb: "watch", Effect: apitest.SlowWatch(time.Minute)})
		lines, end := watched(t, srv, "")
		fill(t, srv, 1)
		time.Sleep(59 * time.Second)
		require.Equal(t, []string{""}, lines())
		c := client.For(srv.Client(), Widgets)
		for i := range 9 {
			_, err := c.Create(t.Context(), widget("later-"+string(rune('0'+i))))
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, lines(), 10)
		require.NoError(t, end())
		seen := map[string]bool{}
		for _, line := range lines() {
			require.Contains(t, line, `"ADDED"`)
			require.False(t, seen[line])
			seen[line] = true
		}
	})
}

func TestStaleReadsShowThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		fill(t, srv, 2)
		before := list(t, srv)
		f := srv.Fail(apitest.Fault{Resource: "widgets", Effect: apitest.Stale()})
		c := client.For(srv.Client(), Widgets)
		require.NoError(t, create(srv, "new"))
		require.NoError(t, c.Delete(t.Context(), widget("w-00000").Key()))
		require.Equal(t, before, list(t, srv))
		_, err := c.Get(t.Context(), widget("w-00000").Key())
		require.NoError(t, err)
		_, err = c.Get(t.Context(), widget("new").Key())
		require.True(t, status.IsNotFound(err))
		require.True(t, status.IsAlreadyExists(create(srv, "new")), "writes see the truth")
		lines, end := watched(t, srv, "")
		time.Sleep(time.Minute)
		require.Len(t, lines(), 2)
		require.NoError(t, end())
		f.Stop()
		require.Len(t, list(t, srv), 2)
		_, err = c.Get(t.Context(), widget("new").Key())
		require.NoError(t, err)
	})
}

func TestFaultsAreMetOverConnectionsToo(t *testing.T) {
	srv := apitest.New(t, Widgets)
	e := srv.ListenTLS()
	c := client.For(dial(t, e.CA, e.Cert, e.Key), Widgets, client.At(e.URL))
	srv.Fail(apitest.Fault{Verb: "create", Times: 1, Effect: apitest.LoseAnswer(), MustFire: true})
	_, err := c.Create(t.Context(), widget("a"))
	require.Error(t, err)
	require.Len(t, list(t, srv), 1)
	srv.Fail(apitest.Fault{Verb: "list", Times: 1, Effect: apitest.RetryAfter(429, 1), MustFire: true})
	code, header, _, err := send(dial(t, e.CA, e.Cert, e.Key), http.MethodGet, e.URL+widgetsPath, "")
	require.NoError(t, err)
	require.Equal(t, 429, code)
	require.Equal(t, "1", header.Get("Retry-After"))
	srv.Fail(apitest.Fault{Verb: "watch", Times: 1, Effect: apitest.BreakWatch(1), MustFire: true})
	var seen []string
	for event, err := range c.Watch(t.Context(), client.In("default")) {
		require.NoError(t, err, "a client goes on where the watch was broken off")
		if event.Object != nil {
			seen = append(seen, string(event.Type)+" "+event.Object.Name)
		}
		if len(seen) == 1 && event.Type == client.Synced {
			require.NoError(t, create(srv, "b"))
		}
		if len(seen) == 2 {
			require.NoError(t, create(srv, "c"))
		}
		if len(seen) == 3 {
			break
		}
	}
	require.Equal(t, []string{"ADDED a", "ADDED b", "ADDED c"}, seen)
}
