package mixin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// Widget is the kind that the requests are for.
type Widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Size            int32 `json:"size,omitempty"`
}

// recorded is a database of series by their labels.
type recorded map[string]*promql.Series

func (r recorded) append(l labels.Labels, at time.Time, value float64) {
	s := r[l.String()]
	if s == nil {
		s = &promql.Series{Metric: l}
		r[l.String()] = s
	}
	s.Floats = append(s.Floats, promql.FPoint{T: at.UnixMilli(), F: value})
}

// scrape appends the samples of a text as Prometheus does for the job of an API server.
func (r recorded) scrape(t *testing.T, text []byte, at time.Time) {
	t.Helper()
	parser := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		parser.Labels(&l)
		_, _, value := parser.Series()
		target := map[string]string{"job": "kube-apiserver", "instance": "one", "cluster": "here"}
		maps.Copy(target, l.Map())
		r.append(labels.FromMap(target), at, value)
	}
}

// Querier makes r what the engine asks.
func (r recorded) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &selected{at: -1}
	series:
		for _, s := range r {
			for _, m := range matchers {
				if !m.Matches(s.Metric.Get(m.Name)) {
					continue series
				}
			}
			found.series = append(found.series, *s)
		}
		return found
	}}, nil
}

// selected are the series that a query has selected.
type selected struct {
	series []promql.Series
	at     int
}

func (s *selected) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *selected) At() storage.Series                { return promql.NewStorageSeries(s.series[s.at]) }
func (s *selected) Err() error                        { return nil }
func (s *selected) Warnings() annotations.Annotations { return nil }

// evaluate appends what a rule records, and returns it.
func (r recorded) evaluate(t *testing.T, engine *promql.Engine, one rule, at time.Time) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), r, nil, one.expr, at)
	require.NoError(t, err, one.expr)
	defer query.Close()
	out, err := query.Exec(t.Context()).Vector()
	require.NoError(t, err, one.expr)
	for _, sample := range out {
		l := labels.NewBuilder(sample.Metric).Set(model.MetricNameLabel, one.record)
		for name, value := range one.labels {
			l.Set(name, value)
		}
		r.append(l.Labels(), at, sample.F)
	}
	return out
}

// serve runs a server whose widgets called "broken" cannot be written, and whose group "broken" fails.
func serve(t *testing.T) *kindwright.Server {
	t.Helper()
	db := memory.New()
	srv, err := kindwright.New(db,
		kindwright.Serve(registry.Kind[Widget]{Group: "example.com", Version: "v1", Plural: "widgets"}, kinds.ControlPlane()),
		kindwright.Authenticate(authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "admin", Groups: []string{"system:masters"}}, true, nil
		})),
		kindwright.Admit(admission.Plugin{Name: "broken", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.Name == "broken" {
				return errors.New("the disk of the plugin is full")
			}
			return nil
		})}),
		kindwright.HTTP{Fallback: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() {
		cancel()
		srv.Wait()
		require.NoError(t, db.Close())
	})
	return srv
}

// load sends requests of all sorts, each with the answer that it must have.
func load(t *testing.T, url string, round int) {
	t.Helper()
	const widgets = "/apis/example.com/v1/namespaces/default/widgets"
	one := fmt.Sprintf("%s/w%d", widgets, round)
	for _, r := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", widgets, fmt.Sprintf(`{"metadata":{"name":"w%d"}}`, round), 201},
		{"POST", widgets, fmt.Sprintf(`{"metadata":{"name":"w%d"}}`, round), 409},
		{"POST", widgets, `{"metadata":{"name":"broken"}}`, 500},
		{"GET", one, "", 200},
		{"GET", widgets + "/none", "", 404},
		{"GET", widgets, "", 200},
		{"GET", "/apis/example.com/v1/widgets", "", 200},
		{"GET", "/apis/broken/v1/widgets", "", 502},
		{"PUT", one, fmt.Sprintf(`{"metadata":{"name":"w%d"},"size":2}`, round), 200},
		{"PATCH", one, `{"size":3}`, 200},
		{"DELETE", one, "", 200},
		{"GET", "/version", "", 200},
	} {
		answer, _ := send(t, r.method, url+r.path, r.body, "")
		require.Equal(t, r.want, answer.StatusCode, "%s %s", r.method, r.path)
	}
	first, _ := send(t, "GET", url+"/openapi/v2", "", "")
	again, _ := send(t, "GET", url+"/openapi/v2", "", first.Header.Get("Etag"))
	require.Equal(t, 304, again.StatusCode)
}

func send(t *testing.T, method, url, body, known string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if known != "" {
		r.Header.Set("If-None-Match", known)
	}
	answer, err := new(http.Client).Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, text
}

// TestRecordingRulesAnswer scrapes a server under load, in moments that are written down as half a minute
// apart, and evaluates the rules as Prometheus does. A rule without a result is a dashboard without a
// line, or an alert that cannot fire.
func TestRecordingRulesAnswer(t *testing.T) {
	const scrapes, between = 24, 30 * time.Second
	web, database := httptest.NewServer(serve(t)), recorded{}
	defer web.Close()
	url := web.URL
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for round := range scrapes {
		load(t, url, round)
		_, text := send(t, "GET", url+"/metrics", "", "")
		now = now.Add(between)
		database.scrape(t, text, now)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute})
	defer func() { require.NoError(t, engine.Close()) }()
	for _, one := range rules() {
		out := database.evaluate(t, engine, one, now)
		require.NotEmpty(t, out, "%s %v:\n%s", one.record, one.labels, one.expr)
		for _, sample := range out {
			require.Falsef(t, math.IsNaN(sample.F) || math.IsInf(sample.F, 0), "%s %v is %v", one.record, one.labels, sample)
			switch {
			case strings.Contains(one.record, "burnrate"), strings.Contains(one.record, "availability"):
				// One request of each sort in a few is answered with a failure of the server.
				require.Truef(t, sample.F > 0 && sample.F < 1, "%s %v is %v", one.record, one.labels, sample)
			}
		}
	}
}
