package kinds_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	flowPath   = "/apis/flowcontrol.apiserver.k8s.io/v1/"
	schemaPath = flowPath + "flowschemas"
	levelPath  = flowPath + "prioritylevelconfigurations"
)

// sharing starts a server that shares its capacity, with some seats.
func sharing(t *testing.T, b storage.Backend, seats int, opts ...kindwright.Option) *host {
	t.Helper()
	base := []kindwright.Option{
		kindwright.Serve(kinds.FlowControl()), kindwright.Fairness(flowcontrol.New("")),
		kindwright.Limits{Reads: seats - 1, Writes: 1},
	}
	return serve(t, b, nil, append(base, opts...)...)
}

// APF-06: mandatory objects are kept whatever happens, suggested ones while their annotation says so.
func TestAPF_06_ObjectsAreKept(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := sharing(t, b, 600)
		for path, names := range map[string][]string{
			schemaPath: {
				"catch-all", "exempt", "global-default", "kube-controller-manager", "kube-scheduler", "kube-system-service-accounts",
				"probes", "service-accounts", "system-leader-election", "system-node-high", "system-nodes",
			},
			levelPath: {"catch-all", "exempt", "global-default", "leader-election", "node-high", "system", "workload-high", "workload-low"},
		} {
			for _, name := range names {
				code, got := h.do("GET", path+"/"+name, "")
				require.Equal(t, 200, code, name)
				require.Equal(t, "true", at(got, "metadata", "annotations", flowcontrol.AnnotationAutoUpdate), name)
			}
		}
		for _, path := range []string{schemaPath + "/exempt", levelPath + "/workload-low"} {
			_, before := h.do("GET", path, "")
			code, _ := h.do("DELETE", path, "")
			require.Equal(t, 200, code)
			require.Eventually(t, func() bool {
				code, now := h.do("GET", path, "")
				return code == 200 && at(now, "metadata", "uid") != at(before, "metadata", "uid")
			}, 10*time.Second, time.Millisecond, path)
		}

		change := `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":%q}},"spec":{"limited":{"nominalConcurrencyShares":7}}}`
		patch := []string{"Content-Type", "application/merge-patch+json"}
		code, _ := h.do("PATCH", levelPath+"/workload-low", fmt.Sprintf(change, "false"), patch...)
		require.Equal(t, 200, code)
		code, _ = h.do("PATCH", levelPath+"/workload-high", fmt.Sprintf(change, "true"), patch...)
		require.Equal(t, 200, code)
		require.Eventually(t, func() bool {
			_, now := h.do("GET", levelPath+"/workload-high", "")
			return at(now, "spec", "limited", "nominalConcurrencyShares") == 40.0
		}, 10*time.Second, time.Millisecond, "it is put right")
		_, now := h.do("GET", levelPath+"/workload-low", "")
		require.InDelta(t, 7, at(now, "spec", "limited", "nominalConcurrencyShares"), 0, "its administrator keeps it")

		code, refused := h.do("PATCH", levelPath+"/catch-all", fmt.Sprintf(change, "true"), patch...)
		require.Equal(t, 422, code)
		require.Contains(t, refused["message"], "spec of 'catch-all' must equal the fixed value")
		code, _ = h.do("PATCH", levelPath+"/exempt", `{"spec":{"exempt":{"nominalConcurrencyShares":5}}}`, patch...)
		require.Equal(t, 200, code, "what it lends is its administrator's")
	})
}

// APF-04: a schema says whether its level exists.
func TestAPF_04_Dangling(t *testing.T) {
	h := sharing(t, memory.New(), 600)
	dangling := func(status, reason string) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, s := h.do("GET", schemaPath+"/mine", "")
			list, _ := at(s, "status", "conditions").([]any)
			return len(list) == 1 && at(list[0], "type") == "Dangling" && at(list[0], "status") == status && at(list[0], "reason") == reason
		}, 20*time.Second, time.Millisecond, status)
	}
	code, _ := h.do("POST", schemaPath, `{"metadata":{"name":"mine"},"spec":{"priorityLevelConfiguration":{"name":"mine"}}}`)
	require.Equal(t, 201, code)
	dangling("True", "NotFound")
}

// doorman lets everything pass, but keeps requests of some users waiting.
type doorman struct {
	mu   sync.Mutex
	shut map[string]chan struct{}
	in   chan string // the users whose requests have come
}

func newDoorman(users ...string) *doorman {
	d := &doorman{shut: map[string]chan struct{}{}, in: make(chan string, 1000)}
	for _, u := range users {
		d.shut[u] = make(chan struct{})
	}
	return d
}

func (*doorman) Name() string { return "doorman" }

func (d *doorman) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	d.mu.Lock()
	shut := d.shut[a.User.Name]
	d.mu.Unlock()
	d.in <- a.User.Name
	if shut != nil {
		select {
		case <-shut:
		case <-ctx.Done():
		}
	}
	return authz.Allow, "", nil
}

func (d *doorman) open(user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.shut[user])
	delete(d.shut, user)
}

// level and schema make a level, and a schema for one user.
func (h *host) level(name, limited string) {
	h.t.Helper()
	code, answer := h.do("POST", levelPath, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"Limited","limited":%s}}`, name, limited))
	require.Equal(h.t, 201, code, answer)
}

func (h *host) schema(name, level, user, by string) {
	h.t.Helper()
	code, answer := h.do("POST", schemaPath, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"priorityLevelConfiguration":{"name":%q},"matchingPrecedence":50,
		"distinguisherMethod":{"type":%q},"rules":[{"subjects":[{"kind":"User","user":{"name":%q}}],
		"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}]}]}}`, name, level, by, user))
	require.Equal(h.t, 201, code, answer)
}

func (h *host) send(user string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(h.t.Context(), "GET", "/api/v1/namespaces", "", "X-User", user, "X-Groups", authn.GroupAuthenticated))
	return w
}

// APF-03, APF-05, APF-07: two levels. One is full, and the other does not notice. Objects have their
// effect when their write is answered.
func TestAPF_03_05_07_TwoLevels(t *testing.T) {
	door := newDoorman("slow")
	h := sharing(t, memory.New(), 600, kindwright.Authorize(door))
	h.level("narrow", `{"nominalConcurrencyShares":1,"borrowingLimitPercent":0,"limitResponse":{"type":"Reject"}}`)
	h.level("wide", `{"nominalConcurrencyShares":100,"limitResponse":{"type":"Queue","queuing":{"queues":64,"handSize":6,"queueLengthLimit":50}}}`)
	h.schema("slow", "narrow", "slow", "ByUser")
	h.schema("fast", "wide", "fast", "ByUser")

	var slow sync.WaitGroup
	seated := 0
	for range 20 { // until the level is full
		done := make(chan int, 1)
		slow.Go(func() { done <- h.send("slow").Code })
		select {
		case <-door.in:
			seated++
			continue
		case code := <-done:
			require.Equal(t, 429, code)
		}
		break
	}
	require.Equal(t, 2, seated, "one share of 346, of 600 seats")
	refused := h.send("slow")
	require.Equal(t, 429, refused.Code)
	require.Equal(t, "1", refused.Header().Get("Retry-After"))
	require.Contains(t, refused.Body.String(), "concurrency-limit")

	_, schema := h.do("GET", schemaPath+"/fast", "")
	_, level := h.do("GET", levelPath+"/wide", "")
	for range 50 {
		w := h.send("fast")
		<-door.in
		require.Equal(t, 200, w.Code)
		require.Equal(t, at(schema, "metadata", "uid"), w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid"))
		require.Equal(t, at(level, "metadata", "uid"), w.Header().Get("X-Kubernetes-Pf-Prioritylevel-Uid"))
	}

	code, _ := h.do("PATCH", schemaPath+"/slow", `{"spec":{"priorityLevelConfiguration":{"name":"wide"}}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 200, code)
	slow.Go(func() { h.send("slow") })
	require.Equal(t, "slow", <-door.in, "another level has room")
	door.open("slow")
	slow.Wait()
	require.Equal(t, 200, h.send("slow").Code)
}

// APF-08: a request waits for a quarter of its time, and is then told to come again.
func TestAPF_08_Waiting(t *testing.T) {
	door := newDoorman("slow")
	h := sharing(t, memory.New(), 600, kindwright.Authorize(door), kindwright.HTTP{RequestTimeout: 400 * time.Millisecond})
	h.level("one", `{"nominalConcurrencyShares":1,"borrowingLimitPercent":0,"limitResponse":{"type":"Queue","queuing":{"queues":1,"handSize":1,"queueLengthLimit":1}}}`)
	h.schema("slow", "one", "slow", "ByUser")
	h.schema("next", "one", "next", "ByUser")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { h.send("slow") })
		<-door.in
	}
	w := h.send("next")
	require.Equal(t, 429, w.Code)
	require.Contains(t, w.Body.String(), "time-out")
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	door.open("slow")
	all.Wait()
	require.Equal(t, 200, h.send("next").Code)
}

// APF-02: watches count until they have begun, and no longer.
func TestAPF_02_WatchesTakeNoSeats(t *testing.T) {
	h := sharing(t, memory.New(), 600, kindwright.Authorize(authz.AlwaysAllow()))
	h.level("one", `{"nominalConcurrencyShares":1,"borrowingLimitPercent":0,"limitResponse":{"type":"Reject"}}`)
	h.schema("ann", "one", "ann", "ByUser")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 20 {
		w := &beginning{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{})}
		all.Go(func() {
			h.ServeHTTP(w, newRequest(ctx, "GET", "/api/v1/namespaces?watch=1", "", "X-User", "ann", "X-Groups", authn.GroupAuthenticated))
			w.Flush()
		})
		<-w.begun
		require.Equal(t, 200, w.Code)
	}
	require.Equal(t, 200, h.send("ann").Code)
	stop()
	all.Wait()
}

// APF-02: so do connections that have changed their protocol, such as watches over WebSockets and commands.
func TestAPF_02_ConnectionsTakeNoSeats(t *testing.T) {
	h := sharing(t, memory.New(), 600, kindwright.Authorize(authz.AlwaysAllow()), kindwright.Watches{WebSockets: true})
	h.level("one", `{"nominalConcurrencyShares":1,"borrowingLimitPercent":0,"limitResponse":{"type":"Reject"}}`)
	h.schema("ann", "one", "ann", "ByUser")
	open := httptest.NewServer(h)
	t.Cleanup(open.Close)
	for range 20 {
		conn, err := net.Dial("tcp", open.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		r := newRequest(t.Context(), "GET", "/api/v1/namespaces?watch=1", "", "X-User", "ann", "X-Groups", authn.GroupAuthenticated,
			"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		r.Host = open.Listener.Addr().String()
		require.NoError(t, r.Write(conn))
		res, err := http.ReadResponse(bufio.NewReader(conn), r)
		require.NoError(t, err)
		require.Equal(t, 101, res.StatusCode)
		_ = res.Body.Close()
	}
	require.Equal(t, 200, h.send("ann").Code)
}

// Pipe is a kind to which clients connect.
type Pipe struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

// APF-02: and so do those that wait for somebody else before they answer. kube-apiserver does not look at
// them at all, other than at watches.
func TestAPF_02_ConnectionsThatAreNotAnsweredTakeNoSeats(t *testing.T) {
	const connections = 5
	there, end := make(chan struct{}, connections), make(chan struct{})
	h := sharing(t, memory.New(), 600, kindwright.Authorize(authz.AlwaysAllow()), kindwright.Serve(registry.Kind[Pipe]{
		Group: "pipes.example.dev", Version: "v1", Plural: "pipes", Scope: registry.ClusterScoped,
		Subresources: []registry.Endpoint{connect.Endpoint[Pipe, struct{}]{
			Name: "proxy", Serve: func(http.ResponseWriter, *http.Request, *registry.Call[Pipe], *struct{}) error {
				there <- struct{}{}
				<-end
				return nil
			},
		}},
	}))
	h.level("one", `{"nominalConcurrencyShares":1,"borrowingLimitPercent":0,"limitResponse":{"type":"Reject"}}`)
	h.schema("ann", "one", "ann", "ByUser")
	const pipes = "/apis/pipes.example.dev/v1/pipes"
	h.must(201, "POST", pipes, `{"metadata":{"name":"a"}}`)
	require.Equal(t, 200, h.send("ann").Code)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(end)
	for range connections {
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, newRequest(t.Context(), "GET", pipes+"/a/proxy", "", "X-User", "ann", "X-Groups", authn.GroupAuthenticated))
			if w.Code == http.StatusTooManyRequests {
				there <- struct{}{} // or the test hangs
			}
		})
	}
	for range connections {
		<-there
	}
	require.Equal(t, 200, h.send("ann").Code)
}

// beginning tells when an answer begins.
type beginning struct {
	*httptest.ResponseRecorder
	begun chan struct{}
	once  sync.Once
}

func (b *beginning) Flush() { b.once.Do(func() { close(b.begun) }) }

func (b *beginning) Write(p []byte) (int, error) { return len(p), nil }

// Health is asked while everything else is full, and members of system:masters never wait.
func TestAPF_06_HealthAndMasters(t *testing.T) {
	door := newDoorman("slow")
	h := sharing(t, memory.New(), 2, kindwright.Authorize(door), kindwright.HTTP{RequestTimeout: 2 * time.Second})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { h.send("slow") })
	}
	<-door.in
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil))
	require.Equal(t, 200, w.Code)
	code, _ := h.do("GET", "/api/v1/namespaces", "")
	require.Equal(t, 200, code)
	door.open("slow")
	all.Wait()
}

// The state can be looked at.
func TestAPF_Dumps(t *testing.T) {
	h := sharing(t, memory.New(), 600)
	for path, want := range map[string]string{
		"dump_priority_levels": "workload-low,", "dump_queues": "PriorityLevelName, Index,", "dump_requests": "kube-scheduler,",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, newRequest(t.Context(), "GET", "/debug/api_priority_and_fairness/"+path, ""))
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), want)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "GET", "/metrics", ""))
	require.Contains(t, w.Body.String(), `apiserver_flowcontrol_current_limit_seats{priority_level="workload-low"} 56`)
	require.Contains(t, w.Body.String(), `apiserver_flowcontrol_dispatched_requests_total{priority_level="exempt",flow_schema="exempt"}`)
}
