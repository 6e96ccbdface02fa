package kindwright_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// everything records all stages of all requests with their bodies.
func everything() audit.Policy {
	return audit.Policy{Rules: []audit.Rule{{Level: audit.LevelRequestResponse}}}
}

// memo is a sink that keeps the records in memory, after a look at each line.
type memo struct {
	t    testing.TB
	fail func(*audit.Event) error // nil: never

	mu     sync.Mutex
	events []*audit.Event
}

func (m *memo) Write(_ context.Context, line []byte) error {
	e, err := audit.ParseEvent(line)
	if err != nil {
		m.t.Errorf("%v: %s", err, line)
		return err
	}
	if strings.ContainsAny(string(line), "\n\r") {
		m.t.Errorf("a record has several lines: %s", line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(e); err != nil {
			return err
		}
	}
	m.events = append(m.events, e)
	return nil
}

func (m *memo) Close() error { return nil }

// set says which records a memo refuses.
func (m *memo) set(fail func(*audit.Event) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

// of returns the records of one request once it has the last of the stages.
func (m *memo) of(id string, last audit.Stage) []*audit.Event {
	m.t.Helper()
	var out []*audit.Event
	require.Eventually(m.t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		out = nil
		for _, e := range m.events {
			if e.AuditID == id {
				out = append(out, e)
			}
		}
		return len(out) > 0 && out[len(out)-1].Stage == last
	}, time.Minute, time.Millisecond)
	return out
}

// stagesOf lists the stages of records.
func stagesOf(events []*audit.Event) (out []audit.Stage) {
	for _, e := range events {
		out = append(out, e.Stage)
	}
	return out
}

var (
	twoStages   = []audit.Stage{audit.StageRequestReceived, audit.StageResponseComplete}
	threeStages = []audit.Stage{audit.StageRequestReceived, audit.StageResponseStarted, audit.StageResponseComplete}
)

func TestAUD_01_02_03_04_05_06_07_09_10_11_12_15_16_ACreateHasTwoRecords(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m))
	res := h.request("POST", gadgetPath+"?fieldManager=a%20b", `{"metadata":{"name":"a"},"data":{"x":"1"}}`,
		"X-Forwarded-For", "10.0.0.1, what, 10.0.0.2", "X-Real-Ip", "10.0.0.3", "User-Agent", "me/1", "Authorization", "Bearer marked-secret")
	require.Equal(t, 201, res.StatusCode)
	events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
	require.Equal(t, twoStages, stagesOf(events))
	for _, e := range events {
		require.Equal(t, "audit.k8s.io/v1", e.APIVersion)
		require.Equal(t, "Event", e.Kind)
		require.Equal(t, audit.LevelRequestResponse, e.Level)
		require.Equal(t, gadgetPath+"?fieldManager=a%20b", e.RequestURI)
		require.Equal(t, "create", e.Verb)
		require.Equal(t, "admin", e.User.Username)
		require.Contains(t, e.User.Groups, "system:masters")
		require.Nil(t, e.ImpersonatedUser)
		require.Equal(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "127.0.0.1"}, e.SourceIPs)
		require.Equal(t, "me/1", e.UserAgent)
		require.False(t, e.StageTimestamp.Time.Before(e.RequestReceivedTimestamp.Time))
		require.NotContains(t, string(e.AppendJSON(nil)), "marked-secret")
	}
	received, complete := events[0], events[1]
	require.Nil(t, received.ResponseStatus)
	require.Empty(t, received.RequestObject, "the body has not been read")
	require.Equal(t, &audit.ObjectReference{Resource: "gadgets", Namespace: "default", APIGroup: "example.dev", APIVersion: "v1"}, received.ObjectRef)
	require.Equal(t, &audit.ObjectReference{Resource: "gadgets", Namespace: "default", Name: "a", APIGroup: "example.dev", APIVersion: "v1"}, complete.ObjectRef)
	require.Equal(t, &meta.Status{Code: 201}, complete.ResponseStatus)
	require.Equal(t, "allow", complete.Annotations["authorization.k8s.io/decision"], "AUD-32")
	require.Contains(t, complete.Annotations, "authorization.k8s.io/reason")
}

// AUD-32: the record of a slow request says what took so long, and that of a quick one does not.
func TestAUD_32_WhereASlowRequestSpentItsTime(t *testing.T) {
	const prefix = "apiserver.latency.k8s.io/"
	m := &memo{t: t}
	slow := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "create" || a.Verb == "watch" || strings.HasPrefix(a.Verb, "impersonate") {
			time.Sleep(501 * time.Millisecond)
		}
		return authz.Allow, "", nil
	})
	h := run(t, kindwright.Audit(everything(), m), kindwright.Authorize(slow))
	times := func(res *http.Response) []string {
		events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
		var names []string
		for _, e := range events {
			for name, text := range e.Annotations {
				if part, ok := strings.CutPrefix(name, prefix); ok {
					require.Equal(t, audit.StageResponseComplete, e.Stage)
					names = append(names, part)
					took, err := time.ParseDuration(text)
					require.NoError(t, err)
					require.Positive(t, took)
				}
			}
		}
		slices.Sort(names)
		return names
	}
	require.Equal(t, []string{"authentication", "authorization", "etcd", "total"}, times(h.request("POST", gadgetPath, `{"metadata":{"name":"a"}}`, "X-User", "alice", "X-Groups", "")))
	require.Equal(t, []string{"authentication", "authorization", "impersonation", "response-write", "total"}, times(h.request("GET", gadgetPath, "", "X-User", "alice", "X-Groups", "", "Impersonate-User", "bob")))
	require.Empty(t, times(h.request("GET", gadgetPath, "")))
	require.Empty(t, times(h.request("GET", gadgetPath+"?watch=1&limit=x", "", "X-User", "alice", "X-Groups", "")), "a watch is not slow")
}

func TestAUD_13_14_BodiesByLevel(t *testing.T) {
	for _, level := range []audit.Level{audit.LevelMetadata, audit.LevelRequest, audit.LevelRequestResponse} {
		t.Run(string(level), func(t *testing.T) {
			m := &memo{t: t}
			h := run(t, kindwright.Audit(audit.Policy{OmitManagedFields: true, Rules: []audit.Rule{{Level: level}}}, m))
			last := func(res *http.Response) *audit.Event {
				events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
				return events[len(events)-1]
			}
			body := "{\n\"metadata\":{\"name\":\"a\",\"managedFields\":[]},\"data\":{\"x\":\"1\"}}"
			created := last(h.request("POST", gadgetPath, body))
			yaml := last(h.request("PUT", gadgetPath+"/a", "metadata: {name: a}\ndata: {x: '2'}", "Content-Type", "application/yaml"))
			patched := last(h.request("PATCH", gadgetPath+"/a", `{"data":{"x":"3"}}`, "Content-Type", "application/merge-patch+json"))
			listed := last(h.request("GET", gadgetPath, "", "Accept-Encoding", "gzip"))
			got := last(h.request("GET", gadgetPath+"/a", "", "Accept-Encoding", "gzip"))
			rows := last(h.request("GET", gadgetPath, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"))
			deleted := last(h.request("DELETE", gadgetPath+"/a", `{"propagationPolicy":"Background"}`))
			health := last(h.request("GET", "/healthz", ""))

			all := []*audit.Event{created, yaml, patched, listed, got, rows, deleted, health}
			for _, e := range all {
				require.Equal(t, level, e.Level)
				require.NotContains(t, string(e.ResponseObject), "managedFields")
				if level == audit.LevelMetadata {
					require.Empty(t, e.RequestObject)
				}
				if level != audit.LevelRequestResponse {
					require.Empty(t, e.ResponseObject)
				}
			}
			require.Nil(t, health.ObjectRef, "AUD-11")
			require.Empty(t, health.ResponseObject)
			require.Empty(t, listed.ObjectRef.Name)
			require.Equal(t, meta.StatusSuccess, deleted.ResponseStatus.Status, "AUD-12")
			require.EqualValues(t, 200, deleted.ResponseStatus.Code)
			require.Equal(t, "a", deleted.ResponseStatus.Details.Name)
			if level == audit.LevelMetadata {
				return
			}
			require.JSONEq(t, `{"metadata":{"name":"a"},"data":{"x":"1"}}`, string(created.RequestObject))
			require.JSONEq(t, `{"metadata":{"name":"a"},"data":{"x":"2"}}`, string(yaml.RequestObject))
			require.JSONEq(t, `{"data":{"x":"3"}}`, string(patched.RequestObject))
			require.JSONEq(t, `{"propagationPolicy":"Background"}`, string(deleted.RequestObject))
			require.Empty(t, got.RequestObject)
			if level == audit.LevelRequest {
				return
			}
			require.Contains(t, string(created.ResponseObject), `"resourceVersion"`)
			require.Contains(t, string(yaml.ResponseObject), `"x":"2"`)
			require.Contains(t, string(patched.ResponseObject), `"x":"3"`)
			require.Contains(t, string(listed.ResponseObject), `"kind":"GadgetList"`)
			require.Contains(t, string(listed.ResponseObject), `"x":"3"`)
			require.Contains(t, string(got.ResponseObject), `"x":"3"`)
			require.Contains(t, string(rows.ResponseObject), `"kind":"Table"`)
			require.Contains(t, string(deleted.ResponseObject), `"kind":"Status"`)
		})
	}
}

// Whoever writes the status of an object says which one they mean, as in a write of the object itself.
func TestAUD_11_AWriteOfASubresourceNamesItsObject(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m),
		kindwright.Serve(registry.Kind[knob]{Group: "example.dev", Version: "v1", Plural: "knobs", Names: registry.Names{Kind: "Knob"}}))
	const path = "/apis/example.dev/v1/namespaces/default/knobs"
	h.request("POST", path, `{"metadata":{"name":"a"}}`)
	res := h.request("PUT", path+"/a/status", `{"metadata":{"name":"a","uid":"another","resourceVersion":"1"}}`)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
	require.Equal(t, &audit.ObjectReference{
		APIGroup: "example.dev", APIVersion: "v1", Resource: "knobs", Subresource: "status", Namespace: "default", Name: "a",
		UID: "another", ResourceVersion: "1",
	}, events[len(events)-1].ObjectRef)
}

// The answer to an action is often a Status that says that it is done, as that of an eviction or a binding. The
// record says so whatever its level is.
func TestAUD_12_AStatusThatAnswersAnActionIsRecorded(t *testing.T) {
	m := &memo{t: t}
	action := func(name string, out *meta.Status) registry.Endpoint {
		return registry.Action[knob, knob, meta.Status]{Name: name, Kind: meta.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Knob"}, Run: func(context.Context, *registry.Call[knob], *knob) (*meta.Status, error) { return out, nil }}
	}
	kind := registry.Kind[knob]{Group: "example.dev", Version: "v1", Plural: "knobs", Names: registry.Names{Kind: "Knob"}, Subresources: []registry.Endpoint{
		action("press", nil), action("turn", &meta.Status{Status: meta.StatusSuccess, Message: "turned", Details: &meta.StatusDetails{Name: "a", Kind: "knobs"}}),
	}}
	h := run(t, kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}, m), kindwright.Serve(kind))
	const path = "/apis/example.dev/v1/namespaces/default/knobs"
	h.request("POST", path, `{"metadata":{"name":"a"}}`)
	for name, want := range map[string]meta.Status{
		"press": {Status: meta.StatusSuccess, Code: 201},
		"turn":  {Status: meta.StatusSuccess, Code: 201, Message: "turned", Details: &meta.StatusDetails{Name: "a", Kind: "knobs"}},
	} {
		res := h.request("POST", path+"/a/"+name, `{"metadata":{"name":"a"}}`)
		require.Equal(t, http.StatusCreated, res.StatusCode)
		events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
		require.Equal(t, want, *events[len(events)-1].ResponseStatus, name)
	}
}

func TestAUD_08_BothUsersAreRecorded(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m))
	res := h.request("GET", gadgetPath, "", "Impersonate-User", "bob", "Impersonate-Group", "ops")
	require.Equal(t, 403, res.StatusCode)
	e := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)[1]
	require.Equal(t, "admin", e.User.Username)
	require.Equal(t, "bob", e.ImpersonatedUser.Username)
	require.Contains(t, e.ImpersonatedUser.Groups, "ops")
}

func TestAUD_36_RequestsThatTheServerRejectsAreRecorded(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m), kindwright.Access{NoAnonymous: true}, kindwright.Admit(admission.Plugin{
		Name: "refuses", Rules: []admission.Rule{{Groups: []string{"example.dev"}}}, Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error {
			panic("a broken plugin")
		}),
	}))
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		stages                   []audit.Stage
		user                     string
		message                  string
	}{
		{"unparsed", "GET", "/apis/%zz", "", nil, 400, twoStages, "admin", "path"},
		{"unparsed slash", "DELETE", gadgetPath + "/a%2Fb", "", nil, 400, twoStages, "admin", "encoded slash"},
		{"unparsed blanks", "GET", "/apis//v1", "", nil, 404, twoStages, "admin", "could not find"},
		{"unparsed method", "FROB", "/apis/%zz", "", nil, 405, twoStages, "admin", ""},
		{"unparsed of nobody", "GET", "/apis/%zz", "", []string{"X-User", ""}, 401, twoStages[1:], "", "Unauthorized"},
		{"query", "GET", gadgetPath + "?labelSelector=a%20b", "", nil, 400, twoStages, "admin", "unable to parse"},
		{"semicolon", "GET", gadgetPath + "?a;b", "", nil, 400, twoStages, "admin", "semicolon"},
		{"query of nobody", "GET", gadgetPath + "?limit=x", "", []string{"X-User", ""}, 401, twoStages[1:], "", "Unauthorized"},
		{"forbidden watch", "GET", gadgetPath + "?watch=1", "", []string{"X-Groups", ""}, 403, threeStages, "admin", "is forbidden"},
		{"query of a watch", "GET", gadgetPath + "?watch=1&resourceVersion=x", "", nil, 400, twoStages, "admin", "resource version"},
		{"method", "OPTIONS", gadgetPath, "", nil, 405, twoStages, "admin", ""},
		{"unauthenticated", "GET", gadgetPath, "", []string{"X-User", ""}, 401, twoStages[1:], "", "Unauthorized"},
		{"unauthenticated write", "POST", gadgetPath, "{}", []string{"X-User", ""}, 401, twoStages[1:], "", "Unauthorized"},
		{"forbidden", "GET", gadgetPath, "", []string{"X-Groups", ""}, 403, twoStages, "admin", "gadgets.example.dev is forbidden"},
		{"absent", "GET", gadgetPath + "/none", "", nil, 404, twoStages, "admin", `gadgets.example.dev "none" not found`},
		{"panic", "POST", gadgetPath, `{"metadata":{"name":"p"}}`, nil, 500, nil, "admin", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := "id-" + strings.ReplaceAll(c.name, " ", "-")
			r := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
			r.URL.Path, r.URL.RawPath, r.RequestURI = "/", "", c.path
			if u, err := r.URL.Parse(c.path); err == nil {
				r.URL = u
			} else {
				r.URL.Path, r.URL.RawPath = "/apis/%zz", "/apis/%zz"
			}
			r.Header.Set("X-User", "admin")
			r.Header.Set("X-Groups", "system:masters")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Audit-Id", id)
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.code, w.Code, w.Body.String())
			require.Equal(t, id, w.Header().Get("Audit-Id"), "AUD-33")
			m.mu.Lock()
			latest := m.events[len(m.events)-1]
			m.mu.Unlock()
			events := m.of(id, latest.Stage)
			if c.stages != nil {
				require.Equal(t, c.stages, stagesOf(events))
			}
			last := events[len(events)-1]
			if len(events) == len(threeStages) {
				require.Equal(t, last.ResponseStatus, events[1].ResponseStatus, "the refusal is known when it begins")
				require.Equal(t, string(last.ResponseObject), string(events[1].ResponseObject))
			}
			require.Equal(t, c.path, last.RequestURI)
			require.Equal(t, c.user, last.User.Username)
			require.EqualValues(t, c.code, last.ResponseStatus.Code)
			require.Equal(t, meta.StatusFailure, last.ResponseStatus.Status)
			require.Contains(t, last.ResponseStatus.Message, c.message)
			require.Empty(t, last.ResponseStatus.TypeMeta, "kube-apiserver writes none")
			if c.code == 403 {
				require.Equal(t, "forbid", last.Annotations["authorization.k8s.io/decision"])
			}
		})
	}
}

func TestAUD_30_APanicHasAStageOfItsOwn(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m), kindwright.Before("authorize", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Late") != "" {
				w.WriteHeader(http.StatusOK)
			}
			if r.Header.Get("X-Panic") != "" {
				panic("marked-secret")
			}
			next.ServeHTTP(w, r)
		})
	}))
	for i, method := range []string{"GET", "POST", "GET", "POST"} {
		r := request(method, gadgetPath, "{}")
		r.Header.Set("X-Panic", "1")
		id := fmt.Sprint("p", i)
		r.Header.Set("Audit-Id", id)
		if i < 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, 500, w.Code)
		} else {
			r.Header.Set("X-Late", "1")
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(httptest.NewRecorder(), r) })
		}
		events := m.of(id, audit.StagePanic)
		last := events[len(events)-1]
		require.EqualValues(t, 500, last.ResponseStatus.Code)
		require.Equal(t, meta.ReasonInternalError, last.ResponseStatus.Reason)
		require.NotContains(t, string(last.AppendJSON(nil)), "marked-secret")
		if i < 3 {
			require.Equal(t, []audit.Stage{audit.StageRequestReceived, audit.StagePanic}, stagesOf(events))
		}
	}
}

func TestAUD_30_AWatchHasThreeStages(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+gadgetPath+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", nil)
	require.NoError(t, err)
	req.Header.Set("X-User", "admin")
	req.Header.Set("X-Groups", "system:masters")
	res, err := h.transport().RoundTrip(req)
	require.NoError(t, err)
	id := res.Header.Get("Audit-Id")
	require.Equal(t, []audit.Stage{audit.StageRequestReceived, audit.StageResponseStarted}, stagesOf(m.of(id, audit.StageResponseStarted)))
	_, err = bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err)
	cancel()
	_ = res.Body.Close()
	events := m.of(id, audit.StageResponseComplete)
	require.Equal(t, []audit.Stage{audit.StageRequestReceived, audit.StageResponseStarted, audit.StageResponseComplete}, stagesOf(events))
	for _, e := range events {
		require.Equal(t, "watch", e.Verb, "AUD-06")
	}
	require.EqualValues(t, 200, events[1].ResponseStatus.Code)
}

func TestAUD_21_WithoutAPolicyOrASinkNothingIsRecorded(t *testing.T) {
	require.NotContains(t, run(t).Chain(), "audit")
	require.NotContains(t, run(t, kindwright.Audit(everything())).Chain(), "audit")
	m := &memo{t: t}
	h := run(t, kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelNone}}}, m))
	require.Contains(t, h.Chain(), "audit")
	require.Equal(t, 200, h.request("GET", gadgetPath, "").StatusCode)
	require.Equal(t, 201, h.request("POST", gadgetPath, `{"metadata":{"name":"a"}}`).StatusCode)
	require.Empty(t, m.events)
}

func TestAUD_35_ALongUserAgentIsCut(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m))
	res := h.request("GET", "/healthz", "", "User-Agent", strings.Repeat("u", 2000))
	e := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)[0]
	require.Equal(t, strings.Repeat("u", 1024)+"...TRUNCATED", e.UserAgent)
}

// A sink that fails prevents the request at its first stage. What has been carried out is answered as
// it ended, and its record is written as soon as the sink works again.
func TestAUD_20_D4_NoWriteIsAcknowledgedWithoutItsRecord(t *testing.T) {
	var failing audit.Stage
	m := &memo{t: t, fail: func(e *audit.Event) error {
		if e.Stage == failing {
			return errors.New("the disk is full")
		}
		return nil
	}}
	h := run(t, kindwright.Audit(everything(), m))
	set := func(s audit.Stage) { m.mu.Lock(); defer m.mu.Unlock(); failing = s }

	set(audit.StageRequestReceived)
	for _, method := range []string{"POST", "GET"} {
		code, got := h.do(method, gadgetPath, `{"metadata":{"name":"a"}}`)
		require.Equal(t, 500, code)
		require.Contains(t, field(got, "message"), "failed to store audit event")
	}
	set("")
	require.Equal(t, 404, h.request("GET", gadgetPath+"/a", "").StatusCode, "nothing was done")

	set(audit.StageResponseComplete)
	res := h.request("POST", gadgetPath, `{"metadata":{"name":"b"}}`)
	require.Equal(t, 201, res.StatusCode, "it was made")
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, h.request("GET", gadgetPath+"/b", "").StatusCode)
	set("")
	events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
	require.Equal(t, twoStages, stagesOf(events))
	scrape, err := io.ReadAll(h.request("GET", "/metrics", "").Body)
	require.NoError(t, err)
	require.Contains(t, string(scrape), "apiserver_audit_requests_rejected_total 2")
	require.Contains(t, string(scrape), `apiserver_audit_level_total{level="RequestResponse"} `)
}

// A policy that leaves RequestReceived out has it recorded while the sink owes a record, so that
// nothing is carried out without one.
func TestAUD_20_D5_NothingIsDoneWhileASinkIsOwedARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the disk is full")
		m := &memo{t: t}
		policy := audit.Policy{OmitStages: []audit.Stage{audit.StageRequestReceived}, Rules: []audit.Rule{
			{Level: audit.LevelNone, Resources: []audit.Resources{{Group: "example.dev", Resources: []string{"places"}}}}, {Level: audit.LevelMetadata},
		}}
		db := memory.New()
		h, err := kindwright.New(db, kindwright.Serve(gadgets(), places(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Audit(policy, m))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, h.Start(ctx))
		defer func() {
			cancel()
			h.Wait()
			require.NoError(t, db.Close())
		}()
		post := func(name string) *http.Response {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request("POST", gadgetPath, `{"metadata":{"name":"`+name+`"}}`))
			return w.Result()
		}
		there := func(name string) bool {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request("GET", gadgetPath+"/"+name, ""))
			return w.Code == 200
		}
		for round := range 20 {
			name := func(s string) string { return fmt.Sprintf("%s-%d", s, round) }
			require.Equal(t, 201, post(name("before")).StatusCode)
			m.set(func(*audit.Event) error { return broken })
			made := post(name("made"))
			require.Equal(t, 201, made.StatusCode, "what is stored is not answered as failed")
			for range 3 {
				require.Equal(t, 500, post(name("refused")).StatusCode)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request("GET", "/apis/example.dev/v1/places", ""))
			require.Equal(t, 200, w.Code, "what is not recorded needs no sink")
			m.set(nil)
			if round%2 == 0 {
				time.Sleep(2 * repayEvery)
				require.Equal(t, []audit.Stage{audit.StageResponseComplete}, stagesOf(m.of(made.Header.Get("Audit-Id"), audit.StageResponseComplete)), "nobody has to ask for something")
			}
			after := post(name("after"))
			require.Equal(t, 201, after.StatusCode)
			require.Equal(t, []audit.Stage{audit.StageResponseComplete}, stagesOf(m.of(made.Header.Get("Audit-Id"), audit.StageResponseComplete)))
			require.Equal(t, []bool{true, false, true}, []bool{there(name("made")), there(name("refused")), there(name("after"))})
			last := post(name("last"))
			require.Equal(t, []audit.Stage{audit.StageResponseComplete}, stagesOf(m.of(last.Header.Get("Audit-Id"), audit.StageResponseComplete)), "as the policy says")
		}
	})
}

// One record that a sink never takes does not stop the others forever.
func TestAUD_20_D5_ARecordThatNobodyTakesIsGivenUp(t *testing.T) {
	m := &memo{t: t, fail: func(e *audit.Event) error {
		if e.ObjectRef != nil && e.ObjectRef.Name == "poison" && e.Stage == audit.StageResponseComplete {
			return errors.New("too large")
		}
		return nil
	}}
	h := run(t, kindwright.Audit(everything(), m))
	require.Equal(t, 201, h.request("POST", gadgetPath, `{"metadata":{"name":"poison"}}`).StatusCode)
	for i := range 20 {
		require.Equal(t, 201, h.request("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, i)).StatusCode)
	}
	scrape, err := io.ReadAll(h.request("GET", "/metrics", "").Body)
	require.NoError(t, err)
	require.Contains(t, string(scrape), "apiserver_audit_requests_rejected_total 0")
}

// countedMemo is a memo that counts what it does not take, as the sinks of package audit do.
type countedMemo struct {
	memo

	lost atomic.Uint64
}

func (m *countedMemo) Write(ctx context.Context, line []byte) error {
	err := m.memo.Write(ctx, line)
	if err != nil {
		m.lost.Add(1)
	}
	return err
}

func (m *countedMemo) Losses() (sink string, lost uint64) { return "counted", m.lost.Load() }

// The records of writes that were answered before the server ended, and that their sink has not taken then,
// are counted as lost, each once, and the log says of which requests they were.
func TestAUD_20_D5_WhatIsOwedAtTheEndIsCounted(t *testing.T) {
	for name, mends := range map[string]bool{"a sink that stays broken": false, "a sink that works again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &countedMemo{memo: memo{t: t}}
				var lines struct {
					sync.Mutex
					of []string
				}
				db := memory.New()
				h, err := kindwright.New(db, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Audit(everything(), m),
					kindwright.LogTo(funcr.New(func(_, line string) {
						lines.Lock()
						defer lines.Unlock()
						if strings.Contains(line, "audit records are lost") {
							lines.of = append(lines.of, line)
						}
					}, funcr.Options{})))
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				require.NoError(t, h.Start(ctx))
				lost := func() (n float64) {
					for f := range h.Families() {
						if f.Name == "apiserver_audit_error_total" {
							for _, s := range f.Samples {
								n += s.Value
							}
						}
					}
					return n
				}
				m.set(func(e *audit.Event) error {
					if e.Stage == audit.StageResponseComplete {
						return errors.New("the disk is full")
					}
					return nil
				})
				var ids []string
				for i := range 3 {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, request("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, i)))
					require.Equal(t, 201, w.Code)
					ids = append(ids, w.Header().Get("Audit-Id"))
				}
				require.Zero(t, lost(), "they may still be stored")
				if mends {
					m.set(nil)
				}
				cancel()
				h.Wait()
				require.NoError(t, db.Close())
				if mends {
					require.Zero(t, lost())
					require.Len(t, m.events, 6)
					require.Empty(t, lines.of)
					return
				}
				require.EqualValues(t, 3, lost())
				require.Len(t, lines.of, 1)
				require.Contains(t, lines.of[0], `"records"=3`)
				for _, id := range ids {
					require.Contains(t, lines.of[0], id)
				}
			})
		})
	}
}

// repayEvery is how often the server tries to write what it owes to a sink.
const repayEvery = time.Second

func TestASinkThatPanicsIsASinkThatFails(t *testing.T) {
	m := &memo{t: t, fail: func(*audit.Event) error { panic("a broken sink") }}
	h := run(t, kindwright.Audit(everything(), m))
	require.Equal(t, 500, h.request("GET", gadgetPath, "").StatusCode)
}

// What a plugin annotates after the record was made changes nothing, and races with nothing.
func TestAUD_32_AnnotationsAreSealedWithTheRecord(t *testing.T) {
	m := &memo{t: t}
	release, done := make(chan struct{}), make(chan struct{})
	h := run(t, kindwright.Audit(everything(), m), kindwright.Admit(admission.Plugin{
		Name: "annotates", Rules: []admission.Rule{{Groups: []string{"example.dev"}}}, Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			if err := r.Annotate(ctx, "example.dev/early", "1"); err != nil {
				return err
			}
			go func() {
				defer close(done)
				<-release
				_ = r.Annotate(ctx, "example.dev/late", "1")
			}()
			return nil
		}),
	}))
	res := h.request("POST", gadgetPath, `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, res.StatusCode)
	close(release)
	<-done
	e := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)[1]
	require.Equal(t, "1", e.Annotations["example.dev/early"])
	require.NotContains(t, e.Annotations, "example.dev/late")
}

func TestAUD_01_GroupDomainsAreTheServers(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m), kindwright.Kubernetes{GroupDomain: "example.org"}, kindwright.Authorize(authz.AlwaysAllow()))
	res := h.request("GET", gadgetPath, "")
	e := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)[1]
	require.Equal(t, "audit.example.org/v1", e.APIVersion)
	require.Equal(t, "allow", e.Annotations["authorization.example.org/decision"])
}

func TestOptionsOfAuditAreChecked(t *testing.T) {
	m := &memo{t: t}
	other := everything()
	other.APIVersion = "audit.example.org/v1"
	for want, opts := range map[string][]kindwright.Option{
		"rules: Required value":     {kindwright.Audit(audit.Policy{}, m)},
		"Audit: sink 0 is nil":      {kindwright.Audit(everything(), nil)},
		"there is a policy already": {kindwright.Audit(everything(), m), kindwright.Audit(everything(), m)},
		`must be "audit.k8s.io/v1"`: {kindwright.Audit(other, m)},
	} {
		_, err := kindwright.New(memory.New(), opts...)
		require.ErrorContains(t, err, want)
	}
}
