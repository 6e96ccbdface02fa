package mixin

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// knownProblems are what the linter says about names of Kubernetes' servers. Dashboards ask for these
// names, so they stay.
var knownProblems = []string{
	`authenticated_user_requests: counter metrics should have "_total" suffix`,
	`authentication_attempts: counter metrics should have "_total" suffix`,
	`apiserver_admission_step_admission_duration_seconds_summary: metric name should not include type 'summary'`,
}

// TestRandomRequestsMakeNoSeries sends the same sorts of requests again and again, each time with other
// words. The first round makes all series that there are. The text is read as Prometheus and its linter
// read it.
func TestRandomRequestsMakeNoSeries(t *testing.T) {
	const rounds, each = 20, 5_000
	const mark = "zq"
	srv := serve(t)
	var before int
	for round := range rounds + 1 {
		rng := rand.New(rand.NewPCG(1, 1)) // the same choices in each round
		words := round * each * 100
		for range each {
			ask(t, srv, rng, func() string { words++; return fmt.Sprintf("%s%x", mark, words) })
		}
		if round == 0 {
			before = strings.Count(scrapeOf(t, srv), "\n")
		}
	}
	text := scrapeOf(t, srv)
	require.Equal(t, before, strings.Count(text, "\n"))
	require.NotContains(t, text, mark)

	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	for _, name := range []string{"apiserver_request_total", "apiserver_request_filter_duration_seconds", "apiserver_watch_list_duration_seconds", "go_goroutines"} {
		require.Contains(t, families, name)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	var found []string
	for _, p := range problems {
		found = append(found, p.Metric+": "+p.Text)
	}
	require.ElementsMatch(t, knownProblems, found)
}

// ask sends one request. Methods, paths, queries, headers and bodies are a client's to choose.
func ask(t *testing.T, srv http.Handler, rng *rand.Rand, word func() string) {
	t.Helper()
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	const widgets = "/apis/example.com/v1/namespaces/default/widgets"
	path := pick(
		"/"+word(), widgets, widgets+"/"+word(), widgets+"/"+word()+"/"+word(), widgets+"/"+word()+"/status",
		"/apis/example.com/v1/"+word(), "/apis/"+word()+"/v1/namespaces/"+word()+"/"+word(), "/api/v1/namespaces/"+word(),
		"/healthz/"+word(), "/readyz", "/livez", "/version", "/apis", "/openapi/v3/"+word(),
	) + pick("", "?"+word()+"="+word(), "?dryRun="+word(), "?dryRun=All", "?limit="+word(), "?labelSelector="+word()+"&watch=1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if strings.Contains(path, "watch=") {
		cancel()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, strings.NewReader(pick("", "{}", word())))
	r.Method = pick("GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", word())
	r.Header.Set("User-Agent", word())
	r.Header.Set("Content-Type", pick("application/json", word(), "application/merge-patch+json", "application/apply-patch+yaml"))
	r.Header.Set("Accept", pick("application/json", word()))
	srv.ServeHTTP(httptest.NewRecorder(), r)
}

// scrapeOf returns the answer to a scrape.
func scrapeOf(t *testing.T, srv http.Handler) string {
	t.Helper()
	var answer *httptest.ResponseRecorder
	for range 2 { // the first one counts itself only after it is written
		answer = httptest.NewRecorder()
		srv.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", bytes.NewReader(nil)))
		require.Equal(t, http.StatusOK, answer.Code)
	}
	return answer.Body.String()
}
