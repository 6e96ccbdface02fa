package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What TestAPIServerMetricsLabelsWithAllowList of Kubernetes asks for: values of labels that are not
// allowed are one series.
func TestFLAG_LabelsOfMetricsAreLimited(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "labels.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte("apiserver_request_total,code: \"201,500\"\n"), 0o600))
	for flag, value := range map[string]string{
		"--allow-metric-labels=": `"apiserver_request_total,code=201,500"`, "--allow-metric-labels-manifest=": manifest,
	} {
		s := run(t, "--data-dir="+t.TempDir(), flag+value, "--disabled-metrics=apiserver_request_duration_seconds,go_goroutines")
		require.NotContains(t, s.log.String(), "metric", "the flags have an effect")
		s.text(t, "master", "/api/v1/namespaces/default", 200)
		s.text(t, "master", "/api/v1/namespaces/none", 404)
		text := s.text(t, "master", "/metrics", 200)
		require.NotContains(t, text, "apiserver_request_duration_seconds")
		require.Contains(t, text, "\ndisabled_metrics_total 2\n")
		require.Regexp(t, `\ncardinality_enforcement_unexpected_categorizations_total [1-9]`, text)
		codes := map[string]bool{}
		for _, found := range regexp.MustCompile(`apiserver_request_total\{.*code="(\w*)"`).FindAllStringSubmatch(text, -1) {
			codes[found[1]] = true
		}
		require.Equal(t, map[string]bool{"unexpected": true}, codes)
		require.Zero(t, s.stop())
	}
	require.Contains(t, refused(t, "--disabled-metrics=a b"), `"a b" is not the name of a metric`)
	require.Contains(t, refused(t, "--allow-metric-labels=a=b"), `"a": must be a metric and a label`)
	require.Contains(t, refused(t, `--allow-metric-labels="a,b=c"`, "--allow-metric-labels-manifest="+manifest), "contradict each other")
	require.Contains(t, refused(t, "--allow-metric-labels-manifest="+manifest+".gone"), "no such file")
	require.NoError(t, os.WriteFile(manifest, []byte("- a\n"), 0o600))
	require.Contains(t, refused(t, "--allow-metric-labels-manifest="+manifest), "labels.yaml: ")
}
