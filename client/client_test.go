package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func TestCREATE_02_Answers200And201And202AreTheObject(t *testing.T) {
	for _, code := range []int{200, 201, 202} {
		s, c := play(t, reply{code: code, body: object("a", "7")})
		w, err := c.Create(t.Context(), named("a"))
		require.NoError(t, err)
		require.Equal(t, "7", w.ResourceVersion)
		s.require("POST " + widgetPath)
		require.JSONEq(t, `{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"namespace":"default","name":"a"},"spec":{}}`, s.body(0))
	}
}

func TestGET_01_VersionsAreOpaque(t *testing.T) {
	// Versions that are not numbers and would sort in the wrong order.
	s, c := play(t,
		reply{body: list("zz", "", object("a", "9"), object("b", "10"))},
		reply{body: event("MODIFIED", object("a", "01")) + event("MODIFIED", object("a", "-5"))},
		reply{body: event("BOOKMARK", object("", "°"))},
		reply{body: "…"},
	)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var told []string
	for e, err := range c.Watch(ctx, client.In("default")) {
		require.NoError(t, err)
		told = append(told, string(e.Type)+" "+e.Version)
		if e.Version == "°" {
			break
		}
	}
	require.Equal(t, []string{"RESET ", "ADDED ", "ADDED ", "SYNCED zz", "MODIFIED 01", "MODIFIED -5", "BOOKMARK °"}, told)
	s.require(
		"GET "+widgetPath+"?limit=500",
		"GET "+widgetPath+"?allowWatchBookmarks=true&resourceVersion=zz&watch=true",
		"GET "+widgetPath+"?allowWatchBookmarks=true&resourceVersion=-5&watch=true",
	)
}

func TestGET_01_AVersionGoesBackAsItCame(t *testing.T) {
	s, c := play(t, reply{body: object("a", "x/°\u00e9")}, reply{body: object("a", "y")}, reply{body: object("a", "y")})
	w, err := c.Get(t.Context(), key("a"), client.NotOlderThan("0x7"))
	require.NoError(t, err)
	w.Spec.Size = 3
	_, err = c.Update(t.Context(), w)
	require.NoError(t, err)
	require.Contains(t, s.body(1), `"resourceVersion":"x/°é"`)
	_, err = c.Get(t.Context(), key("a"), client.AnyState())
	require.NoError(t, err)
	s.require("GET "+widgetPath+"/a?resourceVersion=0x7", "PUT "+widgetPath+"/a", "GET "+widgetPath+"/a?resourceVersion=0")
}

func TestErrorsOfTheServerAreStatusErrors(t *testing.T) {
	for code, is := range map[int]func(error) bool{
		400: status.IsBadRequest, 401: status.IsUnauthorized, 403: status.IsForbidden, 404: status.IsNotFound,
		405: status.IsMethodNotAllowed, 406: status.IsNotAcceptable, 409: status.IsConflict, 410: status.IsExpired,
		413: status.IsTooLarge, 415: status.IsUnsupportedMediaType, 422: status.IsInvalid, 429: status.IsTooManyRequests,
		500: status.IsInternal, 503: status.IsServiceUnavailable, 504: status.IsTimeout,
	} {
		_, c := play(t, reply{code: code, body: "<html>a proxy</html>"})
		_, err := c.Get(t.Context(), key("a"))
		require.True(t, is(err), "%d: %v", code, err)
		require.Equal(t, code, status.CodeOf(err))
		require.ErrorContains(t, err, "<html>a proxy</html>", "what was answered instead of a Status")
	}
	_, c := play(t, refuse(409, meta.ReasonAlreadyExists, `"details":{"name":"a","kind":"widgets"}`), reply{code: 409}, refuse(418, ""))
	_, err := c.Create(t.Context(), named("a"))
	require.True(t, status.IsAlreadyExists(err))
	require.EqualError(t, err, "it did not work")
	require.Equal(t, "a", status.From(err).Status().Details.Name)
	_, err = c.Create(t.Context(), named("a"))
	require.True(t, status.IsAlreadyExists(err), "a bare 409 to a POST")
	_, err = c.Get(t.Context(), key("a"))
	require.Equal(t, 418, status.CodeOf(err))
}

func TestErrorsOfTheConnectionAreNone(t *testing.T) {
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("the cable is cut") }}
	c := client.For(&http.Client{Transport: tr}, widgets())
	_, err := c.Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "the cable is cut")
	var e *status.Error
	require.NotErrorAs(t, err, &e)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Get(ctx, key("a"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestAClientThatWasNotToldWhereTheServerIsSaysSo(t *testing.T) {
	tr := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		require.NoError(t, err)
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}}
	c := client.For(&http.Client{Transport: tr}, widgets())
	_, err := c.Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "the server has no address, set one with At")
	_, err = follow(t.Context(), c, meta.Added)
	require.ErrorContains(t, err, "the server has no address, set one with At", "and does not wait for it")
}

func TestERR_12_TheClientWaitsAsLongAsTheServerAsks(t *testing.T) {
	for name, busy := range map[string]reply{
		"by header":  {code: 429, header: map[string]string{"Retry-After": "7"}, body: failure(429, meta.ReasonTooManyRequests)},
		"by details": refuse(503, meta.ReasonServiceUnavailable, `"details":{"retryAfterSeconds":7}`),
		"by a proxy": {code: 503, header: map[string]string{"Retry-After": "7"}, body: "later"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := play(t, busy, busy, reply{code: 201, body: object("a", "1")})
				began := time.Now()
				_, err := c.Create(t.Context(), named("a"))
				require.NoError(t, err)
				require.Equal(t, 14*time.Second, time.Since(began))
				require.Len(t, s.asked, 3)
				require.Equal(t, s.body(0), s.body(2), "the body is sent again whole")
			})
		})
	}
	t.Run("by date", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			at := time.Now().Add(90 * time.Second)
			_, c := play(t, reply{code: 503, header: map[string]string{"Retry-After": at.UTC().Format(http.TimeFormat)}}, reply{body: object("a", "1")})
			_, err := c.Get(t.Context(), key("a"))
			require.NoError(t, err)
			require.WithinDuration(t, at, time.Now(), time.Second)
		})
	})
	t.Run("a version of the future, ERR-11", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			future := refuse(504, meta.ReasonTimeout, `"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge"}]}`)
			_, c := play(t, future, future, reply{body: object("a", "99")})
			w, err := c.Get(t.Context(), key("a"), client.NotOlderThan("99"))
			require.NoError(t, err)
			require.Equal(t, "99", w.ResourceVersion)
		})
	})
}

func TestThePatienceOfTheClientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := refuse(429, meta.ReasonTooManyRequests, `"details":{"retryAfterSeconds":1}`)
		var answers []reply
		for range 20 {
			answers = append(answers, busy)
		}
		s, c := play(t, answers...)
		_, err := c.Get(t.Context(), key("a"))
		require.True(t, status.IsTooManyRequests(err))
		require.Len(t, s.asked, 10)

		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_, err = c.Get(ctx, key("a"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, s.asked, 13)
	})
}

func TestTheClientWaitsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		year := refuse(503, meta.ReasonServiceUnavailable, `"details":{"retryAfterSeconds":31536000}`)
		s := &script{t: t, answers: []reply{
			year,
			{code: 429, header: map[string]string{"Retry-After": "31536000"}},
			{body: object("a", "1")},
			{body: event("ERROR", failure(429, meta.ReasonTooManyRequests, `"details":{"retryAfterSeconds":31536000}`))},
			{body: event("DELETED", object("a", "6"))},
		}}
		c := serve(t, s, client.WithMaxWait(time.Minute))
		began := time.Now()
		_, err := c.Get(t.Context(), key("a"))
		require.NoError(t, err)
		require.Equal(t, 2*time.Minute, time.Since(began))
		began = time.Now()
		_, err = follow(t.Context(), c, meta.Deleted, client.After("5"))
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(began))
	})
	_, err := serve(t, http.NotFoundHandler(), client.WithMaxWait(0)).Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "WithMaxWait: 0s is not positive")
}

func TestAWriteThatMayHaveHappenedIsNotRepeated(t *testing.T) {
	for _, code := range []int{500, 502, 504} {
		s, c := play(t, reply{code: code, header: map[string]string{"Retry-After": "1"}}, reply{body: object("a", "1")})
		_, err := c.Create(t.Context(), named("a"))
		require.Equal(t, code, status.CodeOf(err))
		require.Len(t, s.asked, 1)
	}
}

func TestAnIncompleteKeyNeverBecomesACollection(t *testing.T) {
	s, c := play(t)
	for _, k := range []meta.Key{{}, {Namespace: "default"}, {Name: "a"}, key("."), key(".."), key("a/b"), key("a%2fb"), {Namespace: "a/b", Name: "c"}} {
		require.Error(t, c.Delete(t.Context(), k), "%q", k)
		_, err := c.Get(t.Context(), k)
		require.Error(t, err)
		_, err = c.Patch(t.Context(), k, client.MergePatch(map[string]any{}))
		require.Error(t, err)
		_, err = c.Update(t.Context(), &widget{ObjectMeta: meta.Named(k.Namespace, k.Name)})
		require.Error(t, err)
	}
	_, err := c.Create(t.Context(), &widget{})
	require.ErrorContains(t, err, "namespace is missing")
	s.require()
}

func TestClusterScopedKindsHaveNoNamespace(t *testing.T) {
	s, _ := play(t, reply{body: object("a", "1")}, reply{body: object("a", "1")})
	tr := client.InProcess(s)
	defer tr.Close()
	c := client.For(&http.Client{Transport: tr}, client.Resource[widget]{Version: "v1", Plural: "nodes", ClusterScoped: true})
	_, err := c.Get(t.Context(), meta.Key{Name: "a"})
	require.NoError(t, err)
	_, err = c.Create(t.Context(), &widget{ObjectMeta: meta.Named("", "a")})
	require.NoError(t, err)
	s.require("GET /api/v1/nodes/a", "POST /api/v1/nodes")
	require.Contains(t, s.body(1), `"kind":"widget","`, "named after the Go type")
	_, err = c.Get(t.Context(), key("a"))
	require.ErrorContains(t, err, `nodes are cluster-scoped, but the namespace is "default"`)
}

func TestOptionsOfWrites(t *testing.T) {
	s, c := play(t, reply{body: object("a", "1")}, reply{body: object("a", "2")}, reply{body: object("a", "3")})
	_, err := c.Create(t.Context(), named("a"), client.DryRun(), client.FieldManager("me"), client.FieldValidation(meta.FieldValidationStrict))
	require.NoError(t, err)
	w := named("a")
	w.Status.Phase = "Ready"
	_, err = c.UpdateStatus(t.Context(), w, client.DryRun())
	require.NoError(t, err)
	_, err = c.Patch(t.Context(), key("a"), client.MergePatch(meta.RawJSON(`{"spec":{"size":null}}`)), client.Subresource("status"))
	require.NoError(t, err)
	s.require(
		"POST "+widgetPath+"?dryRun=All&fieldManager=me&fieldValidation=Strict",
		"PUT "+widgetPath+"/a/status?dryRun=All",
		"PATCH "+widgetPath+"/a/status",
	)
	require.JSONEq(t, `{"spec":{"size":null}}`, s.body(2))
}

func TestOptionsOfDeletes(t *testing.T) {
	s, c := play(t, reply{body: "{}"}, reply{body: "{}"}, reply{body: "{}"})
	require.NoError(t, c.Delete(t.Context(), key("a")))
	require.NoError(t, c.Delete(t.Context(), key("a"), client.IfUID("u"), client.IfVersion("7"), client.Propagate(meta.DeletePropagationForeground), client.GracePeriod(3)))
	labels, err := meta.ParseSelector("a in (b,c)")
	require.NoError(t, err)
	require.NoError(t, c.DeleteCollection(t.Context(), client.Selection{Namespace: "default", Labels: labels}, client.DryRun()))
	s.require("DELETE "+widgetPath+"/a", "DELETE "+widgetPath+"/a", "DELETE "+widgetPath+"?labelSelector=a+in+%28b%2Cc%29")
	require.Empty(t, s.body(0))
	require.JSONEq(t, `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":3,"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Foreground"}`, s.body(1))
	require.JSONEq(t, `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, s.body(2))
}

func TestPatchesOfEachKind(t *testing.T) {
	var types []string
	s, _ := play(t, reply{body: object("a", "1")}, reply{body: object("a", "1")}, reply{body: object("a", "1")})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		types = append(types, r.Header.Get("Content-Type"))
		s.ServeHTTP(w, r)
	}))
	_, err := c.Patch(t.Context(), key("a"), client.JSONPatch(
		client.Test("/spec/size", 1), client.Add("/spec/x", nil), client.Replace("/spec/size", 2), client.Remove("/spec/y"),
		client.Move("/a", "/b"), client.Copy("", "/c")))
	require.NoError(t, err)
	_, err = c.Patch(t.Context(), key("a"), client.Apply("me", map[string]any{"spec": map[string]any{"size": 3}}))
	require.NoError(t, err)
	_, err = c.Patch(t.Context(), key("a"), client.ForceApply("me", named("a")))
	require.NoError(t, err)
	s.require("PATCH "+widgetPath+"/a", "PATCH "+widgetPath+"/a?fieldManager=me", "PATCH "+widgetPath+"/a?fieldManager=me&force=true")
	require.Equal(t, []string{"application/json-patch+json", "application/apply-patch+yaml", "application/apply-patch+yaml"}, types)
	require.JSONEq(t, `[{"op":"test","path":"/spec/size","value":1},{"op":"add","path":"/spec/x","value":null},{"op":"replace","path":"/spec/size","value":2},
		{"op":"remove","path":"/spec/y"},{"op":"move","from":"/a","path":"/b"},{"op":"copy","from":"","path":"/c"}]`, s.body(0))
	require.JSONEq(t, `{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"name":"a"},"spec":{"size":3}}`, s.body(1))
	_, err = c.Patch(t.Context(), key("a"), client.Apply("me", []int{1}))
	require.ErrorContains(t, err, "[]int")
	_, err = c.Patch(t.Context(), key("a"), client.MergePatch(func() {}))
	require.ErrorContains(t, err, `patch widgets.example.dev "default/a"`)
}

func TestAnswersAreReadWithinABound(t *testing.T) {
	long := object("a", "1", `"more":"`+strings.Repeat("x", 2000)+`"`)
	s := &script{t: t, answers: []reply{{body: long}, {body: list("1", "", long)}, {body: list("1", "")}, {body: event("ADDED", long)}, {code: 500, body: strings.Repeat("y", 3<<20)}}}
	c := serve(t, s, client.WithMaxAnswer(1000))
	_, err := c.Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "cannot read the response to GET "+widgetPath+"/a: it is longer than 1000 bytes, see WithMaxAnswer")
	_, err = c.List(t.Context(), client.In("default"))
	require.ErrorContains(t, err, "longer than 1000 bytes")
	var ended error
	for _, err := range c.Watch(t.Context(), client.In("default")) {
		ended = err
	}
	require.ErrorContains(t, ended, "cannot read an event: it is longer than 1000 bytes", "and the watch does not come back for it")
	_, err = c.Get(t.Context(), key("a"))
	require.Equal(t, 500, status.CodeOf(err))
	require.Less(t, len(err.Error()), 1000)
}

// endless is a body that never ends and counts the bytes read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func (e *endless) Close() error { return nil }

type answering func() *http.Response

func (f answering) RoundTrip(*http.Request) (*http.Response, error) { return f(), nil }

func TestFailuresAreReadWithinABound(t *testing.T) {
	body := &endless{}
	c := client.For(&http.Client{Transport: answering(func() *http.Response { return &http.Response{StatusCode: 500, Body: body} })}, widgets())
	_, err := c.Get(t.Context(), key("a"))
	require.True(t, status.IsInternal(err))
	require.LessOrEqual(t, body.read, 2<<20)
}

func TestWhatMakesNoSenseIsAnError(t *testing.T) {
	for _, body := range []string{"", "[", "[]", `"x"`, `{"metadata":{"name":7}}`, `{"spec":{"size":"big"}}`, `{"spec":{"size":1,"size":2}}`} {
		_, c := play(t, reply{body: body}, reply{body: body})
		_, err := c.Get(t.Context(), key("a"))
		require.Error(t, err, body)
		_, err = c.Modify(t.Context(), key("a"), func(*widget) error { return nil })
		require.Error(t, err, body)
	}
	for _, body := range []string{"", "[]", `{"items":{}}`, `{"items":[7]}`} {
		_, c := play(t, reply{body: body})
		_, err := c.List(t.Context(), client.In("default"))
		require.Error(t, err, body)
	}
}

func TestAnAnswerThatMakesNoSenseSaysWhoseItIs(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	defer host.Close()
	c := client.For(host.Client(), widgets(), client.At("http://ann:apple@"+host.Listener.Addr().String()+"/shop"))
	for _, ask := range []func() error{
		func() error { _, err := c.Get(t.Context(), key("a")); return err },
		func() error { _, err := c.List(t.Context(), client.In("default")); return err },
	} {
		err := ask()
		require.ErrorContains(t, err, host.Listener.Addr().String()+"/shop sent something other than ")
		require.NotContains(t, err.Error(), "apple")
	}
}

func TestForReportsWhatIsWrong(t *testing.T) {
	h := &http.Client{}
	for want, c := range map[string]*client.Client[widget]{
		"the http.Client is nil":       client.For(nil, widgets()),
		`the plural name ""`:           client.For(h, client.Resource[widget]{Version: "v1"}),
		`the group "no group"`:         client.For(h, client.Resource[widget]{Group: "no group", Version: "v1", Plural: "x"}),
		`"ftp://x" is not the URL`:     client.For(h, widgets(), client.At("ftp://x")),
		`WithMaxAnswer: 0`:             client.For(h, widgets(), client.WithMaxAnswer(0)),
		`WithPageSize: -1 is negative`: client.For(h, widgets(), client.WithPageSize(-1)),
		`WithMemory: -1 is negative`:   client.For(h, widgets(), client.WithMemory(-1), nil),
		"has a control character":      client.For(h, widgets(), client.WithUserAgent("a\nb")),
		`missing protocol scheme`:      client.For(h, widgets(), client.At(":")),
	} {
		_, err := c.Get(t.Context(), key("a"))
		require.ErrorContains(t, err, want)
		_, err = c.Create(t.Context(), named("a"))
		require.ErrorContains(t, err, want)
		_, err = c.List(t.Context(), client.Selection{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, c.DeleteCollection(t.Context(), client.In("x")), want)
		for _, err := range c.Watch(t.Context(), client.Selection{}) {
			require.ErrorContains(t, err, want)
		}
	}
	s, c := play(t)
	for _, opt := range []client.ReadOption{client.NotOlderThan(""), client.Exactly("0"), client.Exactly(""), client.PageSize(-1)} {
		_, err := c.List(t.Context(), client.In("default"), opt)
		require.Error(t, err)
	}
	_, err := c.Get(t.Context(), key("a"), client.Exactly("7"))
	require.ErrorContains(t, err, "Exactly is for lists")
	for _, err := range c.Watch(t.Context(), client.In("default"), client.After("")) {
		require.ErrorContains(t, err, "After")
	}
	_, err = c.Update(t.Context(), nil)
	require.ErrorContains(t, err, "is nil")
	_, err = c.Modify(t.Context(), key("a"), nil)
	require.ErrorContains(t, err, "change is nil")
	_, err = c.Patch(t.Context(), key("a"), client.Patch{})
	require.ErrorContains(t, err, "the patch is empty")
	s.require()
}

func TestAtKeepsThePathOfTheServer(t *testing.T) {
	s := &script{t: t, answers: []reply{{body: object("a", "1")}}}
	c := serve(t, s, client.At("http://host.invalid/shop/"), client.WithUserAgent("me/1.0"))
	_, err := c.Get(t.Context(), key("a"))
	require.NoError(t, err)
	s.require("GET /shop" + widgetPath + "/a")
}
