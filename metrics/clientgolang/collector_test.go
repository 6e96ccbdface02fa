package clientgolang

import (
	"bytes"
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	ours "github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/metrics"
)

// populated returns a registry with a sample in every family of a server.
func populated() *ours.Registry {
	r := new(ours.Registry)
	requests := apiserver.NewRequests(r)
	served := requests.Serve(apiserver.Resource{Group: "example.com", Version: "v1", Resource: "widgets"})
	for verb := range apiserver.Verbs {
		w := served.Begin(apiserver.Call{Verb: verb, Scope: apiserver.ResourceScope}, true, false)
		w.Event(2000)
		w.InitialList(time.Second)
		w.End(apiserver.Outcome{Code: 429, Duration: time.Second, Sent: 5000, Received: 100_000, Aborted: true})
	}
	requests.HandshakeErrors.Add(1)
	access := apiserver.NewAccess(r)
	access.Authentication(apiserver.Authenticated, "somebody", time.Microsecond, time.Millisecond)
	access.Authorization(apiserver.Allowed, time.Millisecond)
	const name = "a \\ \"b\"\nc"
	admission := apiserver.NewAdmission(r, name)
	admission[""].Observe(apiserver.Admit, apiserver.Create, false, time.Second)
	admission[name].Observe(apiserver.Validate, apiserver.Update, true, time.Second)
	apiserver.NewHealth(r).Observe("ping", "livez", true)
	store := apiserver.NewStorage(r, func() (int64, bool) { return 4096, true }, "get")
	store["get"].Took.Observe(0.001)
	store["get"].Failed.Add(1)
	apiserver.CollectStored(r, func() iter.Seq[apiserver.Stored] {
		return slices.Values([]apiserver.Stored{{Group: "example.com", Resource: "widgets", Objects: 2, Revision: 12}})
	})
	apiserver.CollectGarbage(r, func() apiserver.Garbage { return apiserver.Garbage{Reads: 1} })
	apiserver.CollectMigrations(r, func() iter.Seq[apiserver.Migration] {
		return slices.Values([]apiserver.Migration{{Resource: "widgets", Done: 1}})
	})
	apiserver.CollectBuild(r, apiserver.Build{GitVersion: "v1.36.0"})
	return r
}

// runtime adds the families whose values differ from one scrape to the next.
func runtime(r *ours.Registry) *ours.Registry {
	ours.CollectRuntime(r)
	ours.CollectProcess(r, os.DirFS("/proc"))
	return r
}

func text(t *testing.T, r *ours.Registry) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, ours.Write(&b, r.Families()))
	return b.Bytes()
}

func parse(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	return families
}

// TestTextFormAndCollectorAgree reads the text as Prometheus does, and compares it with what the library
// is given.
func TestTextFormAndCollectorAgree(t *testing.T) {
	r := populated()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(r))
	gathered, err := registry.Gather()
	require.NoError(t, err)
	parsed := parse(t, text(t, r))
	require.Len(t, gathered, len(parsed))
	require.Greater(t, len(parsed), 40)
	for _, g := range gathered {
		// The text form says +Inf where the library says nothing: the count.
		p := parsed[g.GetName()]
		for _, m := range p.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				h.Bucket = slices.DeleteFunc(h.Bucket, func(b *dto.Bucket) bool { return math.IsInf(b.GetUpperBound(), 1) })
			}
			sortLabels(m)
		}
		slices.SortFunc(p.Metric, func(a, b *dto.Metric) int { return strings.Compare(labels(a), labels(b)) })
		slices.SortFunc(g.Metric, func(a, b *dto.Metric) int { return strings.Compare(labels(a), labels(b)) })
		require.Len(t, p.GetMetric(), len(g.GetMetric()))
		for i, m := range g.GetMetric() {
			sortLabels(m)
			require.True(t, proto.Equal(p.GetMetric()[i], m), "%s:\n%v\n%v", g.GetName(), p.GetMetric()[i], m)
		}
		require.Equal(t, p.GetHelp(), g.GetHelp())
		require.Equal(t, p.GetType(), g.GetType())
	}
}

func sortLabels(m *dto.Metric) {
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
}

func labels(m *dto.Metric) string {
	var all []string
	for _, l := range m.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(all)
	return strings.Join(all, "\x00")
}

// knownProblems are what the linter says about names of Kubernetes' servers. Dashboards ask for these names,
// so they stay.
var knownProblems = []string{
	`authenticated_user_requests: counter metrics should have "_total" suffix`,
	`authentication_attempts: counter metrics should have "_total" suffix`,
	`apiserver_admission_step_admission_duration_seconds_summary: metric name should not include type 'summary'`,
}

func TestTheLinterFindsNothingNew(t *testing.T) {
	problems, err := promlint.New(bytes.NewReader(text(t, runtime(populated())))).Lint()
	require.NoError(t, err)
	var found []string
	for _, p := range problems {
		found = append(found, p.Metric+": "+p.Text)
	}
	require.ElementsMatch(t, knownProblems, found)
}

func TestTheRuntimeHasTheLibrarysNames(t *testing.T) {
	theirs := prometheus.NewRegistry()
	theirs.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := theirs.Gather()
	require.NoError(t, err)
	known := map[string]*dto.MetricFamily{}
	for _, f := range families {
		known[f.GetName()] = f
	}
	for f := range runtime(new(ours.Registry)).Families() {
		their := known[f.Name]
		require.NotNil(t, their, f.Name)
		require.Equal(t, strings.ToLower(their.GetType().String()), string(f.Type), f.Name)
		require.Len(t, their.GetMetric()[0].GetLabel(), len(f.Labels), f.Name)
		delete(known, f.Name)
	}
	// Bytes of all interfaces of the host are not the server's, and a limit of address space is rare.
	left := slices.Sorted(maps.Keys(known))
	require.Equal(t, []string{"process_network_receive_bytes_total", "process_network_transmit_bytes_total", "process_virtual_memory_max_bytes"}, left)
}

func TestBesideTheLibrarysOwnCollectors(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), New(runtime(populated())))
	_, err := registry.Gather()
	require.Error(t, err, "go_goroutines occurs twice")

	registry = prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), New(runtime(populated()), WithoutRuntime()))
	_, err = registry.Gather()
	require.NoError(t, err)
}

func TestTwoServersNeedALabel(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(New(populated(), Labels(prometheus.Labels{"server": "a"})), New(populated(), Labels(prometheus.Labels{"server": "b"})))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.Contains(t, labels(f.GetMetric()[0]), "server=", f.GetName())
	}
}

// source yields families that are made by hand.
type source []metrics.Family

func (s source) Families() iter.Seq[metrics.Family] { return slices.Values(s) }

func TestWhatTheLibraryRefusesIsAnErrorOfTheScrape(t *testing.T) {
	for name, f := range map[string]metrics.Family{
		"type":   {Name: "a", Type: "untyped", Samples: make([]metrics.Sample, 1)},
		"labels": {Name: "a", Type: metrics.Gauge, Labels: []string{"x"}, Samples: make([]metrics.Sample, 1)},
	} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(New(source{f}))
		_, err := registry.Gather()
		require.ErrorContains(t, err, "a: ", name)
	}
}
