package kindwright_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/webhook"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/tracing"
)

// follower follows all requests and keeps what it is told.
type follower struct {
	mu    sync.Mutex
	spans []*followed
	panic string // the method that panics
}

// followed is a request, and what a span was told of it.
type followed struct {
	of      *follower
	request tracing.Request
	parts   []string
	calls   []int
	answer  *tracing.Answer
}

// followerKey is the key of the value that a follower adds to contexts.
type followerKey struct{}

func (f *follower) Begin(ctx context.Context, r tracing.Request) (context.Context, tracing.Span) {
	f.fail("Begin")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &followed{of: f, request: r}
	f.spans = append(f.spans, s)
	return context.WithValue(ctx, followerKey{}, s), s
}

// fail panics in one of the methods.
func (f *follower) fail(method string) {
	if f.panic == method {
		panic("a tracer that panics")
	}
}

// followed returns the spans whose names contain a text.
func (f *follower) followed(name string) (out []*followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.spans {
		if strings.Contains(s.request.Name, name) {
			out = append(out, s)
		}
	}
	return out
}

func (s *followed) Part(name string, start, end time.Time) {
	s.of.fail("Part")
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if end.Before(start) || start.Before(s.request.Start) {
		name = "impossible " + name
	}
	s.parts = append(s.parts, name)
}

func (s *followed) Call(r *http.Request) tracing.Call {
	s.of.fail("Call")
	r.Header.Set("Traceparent", "of "+s.request.AuditID)
	return outgoing{s}
}

func (s *followed) End(a tracing.Answer) {
	s.of.fail("End")
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.answer = &a
}

// ended returns the answer, and the parts and the calls before it.
func (s *followed) ended() (a *tracing.Answer, parts []string, calls []int) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.answer, slices.Clone(s.parts), slices.Clone(s.calls)
}

// outgoing is a call of a followed request.
type outgoing struct{ span *followed }

func (o outgoing) End(code int, _ error) {
	o.span.of.fail("End of a call")
	o.span.of.mu.Lock()
	defer o.span.of.mu.Unlock()
	o.span.calls = append(o.span.calls, code)
}

// Every request whose sender is known is followed, with its parts, the calls to webhooks and the answer.
func TestTRACE_05_RequestsOfKnownSendersAreFollowed(t *testing.T) {
	var told []string
	backend := roundTrip(func(r *http.Request) (*http.Response, error) {
		told = append(told, r.Header.Get("Traceparent"))
		text := `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
	})
	hook, err := webhook.New(webhook.Connection{URL: "https://authorizer.example.dev/", Client: &http.Client{Transport: backend}}, webhook.Options{Version: "v1"})
	require.NoError(t, err)
	f := &follower{}
	traced := gadgets()
	traced.Plural, traced.Names.Kind = "gears", "Gear"
	var of []*followed
	traced.Rules.Validate = func(ctx context.Context, _ *gadget, _ *status.Fields) {
		span, _ := ctx.Value(followerKey{}).(*followed)
		of = append(of, span)
	}
	h := run(t, kindwright.TraceTo(f), kindwright.Serve(traced), kindwright.Authorize(hook), kindwright.Access{NoAnonymous: true})

	const path = "/apis/example.dev/v1/namespaces/default/gears"
	code, _ := h.do("POST", path, `{"metadata":{"name":"x"}}`, "X-User", "alice", "X-Groups", "ops")
	require.Equal(t, 201, code)
	created := f.one(t, "POST /apis/example.dev/v1/namespaces/{:namespace}/gears")
	require.Equal(t, []*followed{created}, of, "a rule of the kind finds what the tracer added")
	answer, parts, calls := created.wait(t)
	require.Equal(t, 201, answer.Code)
	require.Positive(t, answer.Bytes)
	require.False(t, answer.Aborted)
	require.Equal(t, []string{"authentication", "authorization", "storage", "response-write"}, parts)
	require.Equal(t, []int{200}, calls)
	require.Equal(t, []string{"of " + created.request.AuditID}, told)
	require.Empty(t, created.request.HTTP.Header["Authorization"])

	_, _ = h.do("PATCH", path+"/x/status", `{}`, "Content-Type", "application/merge-patch+json")
	require.Len(t, f.followed("PATCH /apis/example.dev/v1/namespaces/{:namespace}/gears/{:name}/status"), 1)
	_ = h.request("GET", "/version", "")
	require.Equal(t, "GET", f.followed("")[2].request.Name)

	before := len(f.followed(""))
	code, _ = h.do("GET", path, "", "X-User", "")
	require.Equal(t, 401, code)
	require.Len(t, f.followed(""), before, "a sender who is not known has no span")
}

// one returns the only span of a name.
func (f *follower) one(t *testing.T, name string) *followed {
	t.Helper()
	all := f.followed(name)
	require.Len(t, all, 1)
	return all[0]
}

// wait waits for the end of a request, which its client sees before.
func (s *followed) wait(t *testing.T) (tracing.Answer, []string, []int) {
	t.Helper()
	require.Eventually(t, func() bool { a, _, _ := s.ended(); return a != nil }, 10*time.Second, time.Millisecond)
	a, parts, calls := s.ended()
	return *a, parts, calls
}

// Those who watch over servers decide what is followed, and nobody who acts as one of them.
func TestTRACE_04_WhoIsTrusted(t *testing.T) {
	for name, row := range map[string]struct {
		headers []string
		want    bool
	}{
		"a member of system:masters":    {nil, true},
		"a member of system:monitoring": {[]string{"X-User", "watcher", "X-Groups", "system:monitoring"}, true},
		"anybody else":                  {[]string{"X-User", "alice", "X-Groups", "system:authenticated"}, false},
		"one who acts as them": {
			[]string{"X-User", "alice", "X-Groups", "ops", "Impersonate-User", "bob", "Impersonate-Group", "system:monitoring"}, false,
		},
		"an administrator who acts as somebody": {[]string{"Impersonate-User", "bob"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follower{}
			h := run(t, kindwright.TraceTo(f), kindwright.Authorize(authz.AlwaysAllow()))
			code, _ := h.do("GET", gadgetPath, "", row.headers...)
			require.Equal(t, 200, code)
			require.Equal(t, row.want, f.one(t, "GET").request.Trusted)
		})
	}
}

// A watch has a span from its beginning to its end, and a part for neither of its events.
func TestTRACE_05_AWatchIsOneSpan(t *testing.T) {
	f := &follower{}
	h := run(t, kindwright.TraceTo(f))
	code, _ := h.do("POST", gadgetPath, `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
	res := h.request("GET", gadgetPath+"?watch=true&timeoutSeconds=1", "")
	_, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	answer, parts, _ := f.one(t, "GET").wait(t)
	require.Equal(t, 200, answer.Code)
	require.Subset(t, []string{"authentication", "authorization"}, parts)
}

// A tracer that panics costs requests nothing, and the log says so.
func TestTRACE_05_ATracerThatPanics(t *testing.T) {
	for _, method := range []string{"Begin", "Part", "Call", "End of a call", "End"} {
		t.Run(method, func(t *testing.T) {
			var mu sync.Mutex
			var lines []string
			log := funcr.New(func(_, line string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
			}, funcr.Options{})
			backend := roundTrip(func(*http.Request) (*http.Response, error) {
				text := `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
			})
			hook, err := webhook.New(webhook.Connection{URL: "https://authorizer.example.dev/", Client: &http.Client{Transport: backend}}, webhook.Options{Version: "v1"})
			require.NoError(t, err)
			h := run(t, kindwright.TraceTo(&follower{panic: method}), kindwright.LogTo(log), kindwright.Authorize(hook))
			code, _ := h.do("POST", gadgetPath, `{"metadata":{"name":"x"}}`, "X-User", "alice", "X-Groups", "ops")
			require.Equal(t, 201, code)
			require.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "a tracer that panics") })
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// The span begins before the record of the request, so that a request whose record cannot be stored has one.
func TestTRACE_05_TheSpanBeginsBeforeTheRecord(t *testing.T) {
	f := &follower{}
	full := &memo{t: t, fail: func(*audit.Event) error { return errors.New("the disk is full") }}
	h := run(t, kindwright.TraceTo(f), kindwright.Audit(everything(), full))
	code, _ := h.do("GET", gadgetPath, "")
	require.Equal(t, 500, code)
	answer, _, _ := f.one(t, "GET").wait(t)
	require.Equal(t, 500, answer.Code)
}

func TestTRACE_05_ANilTracerIsRefused(t *testing.T) {
	_, err := kindwright.New(memory.New(), kindwright.TraceTo(nil))
	require.ErrorContains(t, err, "TraceTo: the tracer is nil")
}
