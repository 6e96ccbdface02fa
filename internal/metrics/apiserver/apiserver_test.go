package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/metrics"
)

// lines returns the series whose names begin with prefix.
func lines(t testing.TB, r *metrics.Registry, prefix string) []string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, metrics.Write(&b, r.Families()))
	var out []string
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

var widgets = Resource{Group: "example.com", Version: "v1", Resource: "widgets"}

func TestLabelsOfACall(t *testing.T) {
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Target{Method: "GET", Resource: true}, "GET resource"},
		{Target{Method: "HEAD", Resource: true}, "GET resource"},
		{Target{Method: "GET", Resource: true, Collection: true}, "LIST cluster"},
		{Target{Method: "HEAD", Resource: true, Collection: true, Namespace: "a"}, "LIST namespace"},
		{Target{Method: "GET", Resource: true, Collection: true, Watch: true}, "WATCH cluster"},
		{Target{Method: "GET", Resource: true, Watch: true}, "WATCH resource"},
		{Target{Method: "POST", Resource: true, Collection: true, Namespace: "a"}, "POST resource"},
		{Target{Method: "PUT", Resource: true, Namespace: "a", DryRun: []string{"All", "All"}}, "PUT resource All"},
		{Target{Method: "PATCH", Resource: true, DryRun: []string{"All", "some"}}, "PATCH resource invalid"},
		{Target{Method: "PATCH", Resource: true, Apply: true}, "APPLY resource"},
		{Target{Method: "DELETE", Resource: true}, "DELETE resource"},
		{Target{Method: "DELETE", Resource: true, Collection: true, Namespace: "a"}, "DELETE namespace"},
		{Target{Method: "GET", Resource: true, Connect: true}, "CONNECT resource"},
		{Target{Method: "GET"}, "GET "},
		{Target{Method: "CONNECT"}, "CONNECT "},
		{Target{Method: "BREW", Resource: true}, "other resource"},
	} {
		call := c.target.Call()
		got := verbNames[call.Verb] + " " + scopeNames[call.Scope]
		if call.DryRun != NoDryRun {
			got += " " + dryRunNames[call.DryRun]
		}
		require.Equal(t, c.want, got, "%+v", c.target)
	}
}

func TestCodesOutsideOfTheTableAreFolded(t *testing.T) {
	for code, want := range map[int]string{
		0: "0", 200: "200", 404: "404", 422: "422", 299: "2xx", 399: "3xx", 451: "4xx", 599: "5xx", 504: "504",
		-1: "other", 1: "other", 199: "other", 600: "other", 1 << 40: "other",
	} {
		require.Equal(t, want, codeName(codeIndex(code)), code)
	}
}

func TestARequestIsCountedInEachOfItsFamilies(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	s := q.Serve(widgets)
	s.Observe(Call{Verb: Get, Scope: ResourceScope}, Outcome{Code: 200, Duration: 60 * time.Millisecond, Waited: 20 * time.Millisecond, Sent: 5000})
	s.Observe(Call{Verb: Put, Scope: ResourceScope, DryRun: DryRunAll}, Outcome{Code: 409, Duration: time.Second, Received: 60_000})
	s.Observe(Call{Verb: Delete, Scope: NamespaceScope}, Outcome{Code: 200, Received: 10})
	const rest = `group="example.com",version="v1",resource="widgets",subresource=""`
	require.Equal(t, []string{
		`apiserver_request_total{verb="DELETE",dry_run="",` + rest + `,scope="namespace",component="apiserver",code="200"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",` + rest + `,scope="resource",component="apiserver",code="200"} 1`,
		`apiserver_request_total{verb="PUT",dry_run="All",` + rest + `,scope="resource",component="apiserver",code="409"} 1`,
	}, lines(t, &r, "apiserver_request_total"))
	require.Contains(t, lines(t, &r, "apiserver_request_duration_seconds"), `apiserver_request_duration_seconds_sum{verb="GET",dry_run="",`+rest+`,scope="resource",component="apiserver"} 0.06`)
	require.Equal(t, []string{
		`apiserver_request_sli_duration_seconds_sum{verb="DELETE",` + rest + `,scope="namespace",component="apiserver"} 0`,
		`apiserver_request_sli_duration_seconds_sum{verb="GET",` + rest + `,scope="resource",component="apiserver"} 0.04`,
	}, lines(t, &r, "apiserver_request_sli_duration_seconds_sum"), "a dry run is no sign of service")
	require.Equal(t, []string{`apiserver_response_sizes_sum{verb="GET",` + rest + `,scope="resource",component="apiserver"} 5000`}, lines(t, &r, "apiserver_response_sizes_sum"))
	require.Equal(t, []string{
		`apiserver_request_body_size_bytes_sum{group="example.com",resource="widgets",verb="delete_collection"} 10`,
		`apiserver_request_body_size_bytes_sum{group="example.com",resource="widgets",verb="update"} 60000`,
	}, lines(t, &r, "apiserver_request_body_size_bytes_sum"))
}

func TestEachWriteHasABodyOfItsOwnSort(t *testing.T) {
	var r metrics.Registry
	s := NewRequests(&r).Serve(widgets)
	for verb := range Verbs {
		s.Observe(Call{Verb: verb, Scope: ResourceScope}, Outcome{Code: 200, Received: 1})
	}
	require.Equal(t, []string{
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="create"} 1`,
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="delete"} 1`,
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="patch"} 2`,
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="update"} 1`,
	}, lines(t, &r, "apiserver_request_body_size_bytes_count"))
}

func TestPathsAndUnknownResources(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	q.Serve(Resource{Subresource: "/healthz"}).Observe(Call{Verb: Get}, Outcome{Code: 200})
	q.Unserved().Observe(Call{Verb: Post, Scope: ResourceScope}, Outcome{Code: 404, Received: 5})
	require.Equal(t, []string{
		`apiserver_request_total{verb="GET",dry_run="",group="",version="",resource="",subresource="/healthz",scope="",component="",code="200"} 1`,
		`apiserver_request_total{verb="POST",dry_run="",group="",version="",resource="",subresource="",scope="resource",component="apiserver",code="404"} 1`,
	}, lines(t, &r, "apiserver_request_total"))
	require.Empty(t, lines(t, &r, "apiserver_request_body_size_bytes"))
}

func TestWatchesAndEndings(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	s, c := q.Serve(widgets), Call{Verb: Watch, Scope: ClusterScope, DryRun: DryRunAll}
	open := s.LongRunning(c)
	open.Add(1)
	require.Same(t, open, s.LongRunning(Call{Verb: Watch, Scope: ClusterScope}))
	s.Event(2000)
	s.Event(100)
	s.InitialList(c, 70*time.Millisecond)
	for _, code := range []int{429, 503, 503, 418} {
		s.Terminated(c, code)
	}
	s.Aborted(c)
	q.Inflight(true).Add(2)
	q.Inflight(false).Add(1)
	q.HandshakeErrors().Inc()
	const kind = `group="example.com",version="v1",resource="widgets"`
	for _, want := range []string{
		`apiserver_longrunning_requests{verb="WATCH",` + kind + `,subresource="",scope="cluster",component="apiserver"} 1`,
		`apiserver_watch_events_total{` + kind + `} 2`,
		`apiserver_watch_events_sizes_sum{` + kind + `} 2100`,
		`apiserver_watch_list_duration_seconds_bucket{` + kind + `,scope="cluster",le="0.1"} 1`,
		`apiserver_request_terminations_total{verb="WATCH",` + kind + `,subresource="",scope="cluster",component="apiserver",code="429"} 1`,
		`apiserver_request_terminations_total{verb="WATCH",` + kind + `,subresource="",scope="cluster",component="apiserver",code="503"} 2`,
		`apiserver_request_terminations_total{verb="WATCH",` + kind + `,subresource="",scope="cluster",component="apiserver",code="other"} 1`,
		`apiserver_request_aborts_total{verb="WATCH",` + kind + `,subresource="",scope="cluster"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 2`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		"apiserver_tls_handshake_errors_total 1",
	} {
		require.Contains(t, lines(t, &r, ""), want)
	}
}

// use makes a series of every sort.
func use(s *Served) {
	c := Call{Verb: Post, Scope: ResourceScope}
	s.Observe(c, Outcome{Code: 201, Received: 5})
	s.Observe(Call{Verb: List, Scope: ClusterScope}, Outcome{Code: 200})
	s.LongRunning(c).Add(1)
	s.Terminated(c, 429)
	s.Aborted(c)
	s.Event(1)
	s.InitialList(c, 0)
}

func TestAKindThatGoesLeavesNoSeries(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	before := lines(t, &r, "")
	s := q.Serve(widgets)
	use(s)
	require.NotEqual(t, before, lines(t, &r, ""))
	s.Release()
	require.Equal(t, before, lines(t, &r, ""))

	use(s) // requests that are still under way
	s.Observe(Call{Verb: Get, Scope: ResourceScope}, Outcome{Code: 200})
	require.Equal(t, before, lines(t, &r, ""))
	require.Empty(t, q.shared[widgets])
}

func TestAReplacedKindGoesOnCounting(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	old := q.Serve(widgets)
	use(old)
	replacement := q.Serve(widgets)
	old.Release()
	use(replacement)
	require.Contains(t, lines(t, &r, "apiserver_watch_events_total"), `apiserver_watch_events_total{group="example.com",version="v1",resource="widgets"} 2`)
}

func TestVersionsAndSubresourcesShareTheSeriesOfTheirResource(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	before := lines(t, &r, "")
	v2, status := widgets, widgets
	v2.Version, status.Subresource = "v2", "status"
	served := []*Served{q.Serve(widgets), q.Serve(v2), q.Serve(status)}
	for _, s := range served {
		use(s)
	}
	served[0].Release()
	require.Contains(t, lines(t, &r, ""), `apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="create"} 3`)
	require.Contains(t, lines(t, &r, ""), `apiserver_watch_events_total{group="example.com",version="v1",resource="widgets"} 2`)
	served[2].Release()
	require.NotContains(t, strings.Join(lines(t, &r, ""), "\n"), `version="v1"`)
	served[1].Release()
	require.Equal(t, before, lines(t, &r, ""))
}

// TestClientsCannotMakeSeries: however the requests look, what is served bounds the series.
func TestClientsCannotMakeSeries(t *testing.T) {
	const most = int(Verbs) * int(Scopes) * int(DryRuns) * codeCount
	var r metrics.Registry
	q := NewRequests(&r)
	access := NewAccess(&r)
	handles := []*Served{q.Serve(widgets), q.Unserved()}
	random := rand.New(rand.NewPCG(1, 2))
	observe := func() {
		target := Target{
			Method: []string{"GET", "PUT", "PATCH", "DELETE", "POST", fmt.Sprint(random.Uint32())}[random.IntN(6)], Resource: random.IntN(5) > 0,
			Collection: random.IntN(2) == 0, Namespace: []string{"", fmt.Sprint(random.Uint32())}[random.IntN(2)], Watch: random.IntN(2) == 0,
			Apply: random.IntN(2) == 0, DryRun: [][]string{nil, {"All"}, {fmt.Sprint(random.Uint32())}}[random.IntN(3)],
		}
		s, call := handles[random.IntN(len(handles))], target.Call()
		s.Observe(call, Outcome{Code: random.IntN(2000) - 500, Duration: time.Duration(random.Int64N(1e10)), Sent: random.Int64N(1e6), Received: random.Int64N(1e6)})
		s.Terminated(call, random.IntN(1000))
		s.LongRunning(Call{Verb: Verb(random.Uint32()), Scope: Scope(random.Uint32()), DryRun: DryRun(random.Uint32())}).Add(1)
		access.Authentication(Authentication(random.Uint32()), fmt.Sprint(random.Uint32()), 0)
	}
	for i := range most * len(handles) {
		s, n := handles[i%len(handles)], i/len(handles)
		call := Call{Verb: Verb(n % int(Verbs)), Scope: Scope(n / int(Verbs) % int(Scopes)), DryRun: DryRun(n / int(Verbs) / int(Scopes) % int(DryRuns))}
		code := append(codes[:], 1, 299, 399, 499, 599)[n/(most/codeCount)]
		s.Observe(call, Outcome{Code: code, Received: 1})
		s.Terminated(call, code)
		s.LongRunning(call)
	}
	all := lines(t, &r, "")
	require.Len(t, lines(t, &r, "apiserver_request_total"), len(handles)*most)
	for range 100_000 {
		observe()
	}
	require.Len(t, lines(t, &r, ""), len(all))
}

func TestKindsComeAndGoWhileRequestsRun(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	before := lines(t, &r, "")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 500 {
				s := q.Serve(widgets)
				var requests sync.WaitGroup
				requests.Go(func() { use(s) })
				s.Release()
				requests.Wait()
			}
		})
	}
	group.Go(func() {
		for range 50 {
			lines(t, &r, "")
		}
	})
	group.Wait()
	require.Equal(t, before, lines(t, &r, ""))
	require.Len(t, q.served, 1)
}

func TestAccess(t *testing.T) {
	var r metrics.Registry
	a := NewAccess(&r)
	for _, user := range []string{"admin", "me@example.com", "you", "kubelet", ""} {
		a.Authentication(Authenticated, user, time.Millisecond)
	}
	a.Authentication(Unauthenticated, "ghost", 0)
	a.Authentication(200, "ghost", 0)
	a.Authorization(Allowed, time.Millisecond)
	a.Authorization(Denied, 0)
	a.Authorization(200, 0)
	require.Equal(t, []string{
		`authenticated_user_requests{username="admin"} 1`, `authenticated_user_requests{username="client"} 0`, `authenticated_user_requests{username="email_id"} 1`,
		`authenticated_user_requests{username="kube_proxy"} 0`, `authenticated_user_requests{username="kubelet"} 1`, `authenticated_user_requests{username="other"} 2`,
		`authenticated_user_requests{username="system:serviceaccount:kube-system:default"} 0`,
	}, lines(t, &r, "authenticated_user_requests"))
	require.Equal(t, []string{
		`authentication_attempts{result="error"} 1`, `authentication_attempts{result="failure"} 1`, `authentication_attempts{result="success"} 5`,
	}, lines(t, &r, "authentication_attempts"))
	require.Equal(t, []string{
		`authorization_attempts_total{result="allowed"} 1`, `authorization_attempts_total{result="denied"} 1`,
		`authorization_attempts_total{result="error"} 1`, `authorization_attempts_total{result="no-opinion"} 0`,
	}, lines(t, &r, "authorization_attempts_total"))
	require.Contains(t, lines(t, &r, "authorization_duration_seconds"), `authorization_duration_seconds_bucket{result="allowed",le="0.001"} 1`)
}

func TestAdmission(t *testing.T) {
	var r metrics.Registry
	a := NewAdmission(&r)
	a.Steps().Observe(Admit, Create, false, 10*time.Millisecond)
	plugin := a.Plugin("quota")
	plugin.Observe(Validate, Deletion, true, 0)
	plugin.Observe(200, 200, false, 0)
	require.Contains(t, lines(t, &r, ""), `apiserver_admission_step_admission_duration_seconds_bucket{type="admit",operation="CREATE",rejected="false",le="0.025"} 1`)
	require.Equal(t, []string{
		`apiserver_admission_controller_admission_duration_seconds_count{name="quota",type="validate",operation="CONNECT",rejected="false"} 1`,
		`apiserver_admission_controller_admission_duration_seconds_count{name="quota",type="validate",operation="DELETE",rejected="true"} 1`,
	}, lines(t, &r, "apiserver_admission_controller_admission_duration_seconds_count"))
}

func TestHealthFiltersStorageAndBuild(t *testing.T) {
	var r metrics.Registry
	check := NewHealth(&r).Check("storage", "readyz")
	check.Observe(true)
	check.Observe(false)
	NewFilters(&r).Filter("audit").Observe(0.002)
	size, known := int64(4096), true
	get := NewStorage(&r, func() (int64, bool) { return size, known }).Operation("get")
	get.Observe(time.Millisecond, nil)
	get.Observe(time.Millisecond, errors.New("disk"))
	CollectBuild(&r, Build{Major: "1", Minor: "36", GitVersion: "v1.36.0"})
	all := lines(t, &r, "")
	for _, want := range []string{
		`kubernetes_healthcheck{name="storage",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="storage",type="readyz",status="error"} 1`,
		`kubernetes_healthchecks_total{name="storage",type="readyz",status="success"} 1`,
		`apiserver_request_filter_duration_seconds_bucket{filter="audit",le="0.003"} 1`,
		`apiserver_storage_size_bytes{storage_cluster_id="store-0"} 4096`,
		`kindwright_storage_operation_duration_seconds_count{operation="get"} 2`,
		`kindwright_storage_operation_errors_total{operation="get"} 1`,
	} {
		require.Contains(t, all, want)
	}
	require.Len(t, lines(t, &r, `kubernetes_build_info{major="1",minor="36",git_version="v1.36.0",`), 1)
	known = false
	require.Empty(t, lines(t, &r, "apiserver_storage_size_bytes"))
}

func TestStatesAreReadWhenScraped(t *testing.T) {
	var r metrics.Registry
	state := []Stored{
		{Group: "example.com", Resource: "widgets", Objects: 3, Revision: 3_000_000_000_000_042, Received: 9, Watchers: 2, Changes: 5, LogBytes: 700},
		{Resource: "events", Objects: 1},
	}
	CollectStored(&r, func() iter.Seq[Stored] { return slices.Values(state) })
	CollectGarbage(&r, func() Garbage {
		return Garbage{Reads: 1, Deletes: 2, Stripped: 3, Released: 4, Retries: 5, Unserved: 6, References: 7, Waiting: 8}
	})
	CollectMigrations(&r, func() iter.Seq[Migration] {
		return slices.Values([]Migration{{Group: "example.com", Resource: "widgets", Done: 1, Left: 2, Kept: 3}})
	})
	require.Equal(t, []string{
		`apiserver_resource_objects{group="",resource="events"} 1`, `apiserver_resource_objects{group="example.com",resource="widgets"} 3`,
		`apiserver_storage_objects{resource="events"} 1`, `apiserver_storage_objects{resource="widgets.example.com"} 3`,
		`apiserver_watch_cache_events_dispatched_total{group="",resource="events"} 0`, `apiserver_watch_cache_events_dispatched_total{group="example.com",resource="widgets"} 9`,
		`apiserver_watch_cache_events_received_total{group="",resource="events"} 0`, `apiserver_watch_cache_events_received_total{group="example.com",resource="widgets"} 9`,
		`apiserver_watch_cache_resource_version{group="",resource="events"} 0`, `apiserver_watch_cache_resource_version{group="example.com",resource="widgets"} 42`,
	}, lines(t, &r, "apiserver_"))
	require.Equal(t, []string{
		"kindwright_gc_deletes_total 2", "kindwright_gc_orphaned_total 3", "kindwright_gc_queue_length 8", "kindwright_gc_reads_total 1",
		"kindwright_gc_references 7", "kindwright_gc_released_total 4", "kindwright_gc_retries_total 5", "kindwright_gc_unserved_total 6",
	}, lines(t, &r, "kindwright_gc_"))
	require.Equal(t, []string{
		`kindwright_migration_objects{group="example.com",resource="widgets",state="done"} 1`,
		`kindwright_migration_objects{group="example.com",resource="widgets",state="kept"} 3`,
		`kindwright_migration_objects{group="example.com",resource="widgets",state="left"} 2`,
	}, lines(t, &r, "kindwright_migration_"))
	state = state[:1]
	require.Len(t, lines(t, &r, "kindwright_watch_"), 3, "a kind that is gone has no series")
}

// TestCountingAllocatesNothing: what runs for each request or event.
func TestCountingAllocatesNothing(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	s, access, phases := q.Serve(widgets), NewAccess(&r), NewAdmission(&r).Plugin("quota")
	target := Target{Method: "PATCH", Resource: true, Namespace: "default", DryRun: []string{"All"}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c := target.Call()
		q.Inflight(true).Add(1)
		s.LongRunning(c).Add(1)
		s.Observe(c, Outcome{Code: 200, Duration: time.Millisecond, Sent: 100, Received: 100})
		s.Event(100)
		s.Terminated(c, 429)
		s.Aborted(c)
		s.InitialList(c, 1)
		access.Authentication(Authenticated, "somebody", 1)
		access.Authorization(Allowed, 1)
		phases.Observe(Admit, Update, true, 1)
	}))
}

func BenchmarkRequest(b *testing.B) {
	var r metrics.Registry
	q := NewRequests(&r)
	s := q.Serve(widgets)
	for name, target := range map[string]Target{
		"get":    {Method: "GET", Resource: true, Namespace: "default"},
		"list":   {Method: "GET", Resource: true, Collection: true},
		"update": {Method: "PUT", Resource: true, Namespace: "default"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := target.Call()
				inflight := q.Inflight(c.Verb == Put)
				inflight.Add(1)
				s.Observe(c, Outcome{Code: 200, Duration: 300 * time.Microsecond, Sent: 2000, Received: 2000})
				inflight.Add(-1)
			}
		})
	}
}
