package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/registry"
)

// metricLimits are the flags that restrict what /metrics shows.
type metricLimits struct {
	disabled []string
	allowed  map[string]string // values by "metric,label"
	manifest string            // a file with the same

	limits metrics.Limits
}

func (m *metricLimits) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&m.disabled, "disabled-metrics", nil, "names of metrics that are not shown")
	f.StringToStringVar(&m.allowed, "allow-metric-labels", nil,
		`the values of a label that are shown, such as "apiserver_request_total,code=200,201"; `+
			`others are shown as "unexpected"`)
	f.StringVar(&m.manifest, "allow-metric-labels-manifest", "",
		"YAML file with the same, as a mapping")
}

// metricName and metricLabel are the names of metrics, and of their labels.
var (
	metricName  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	metricLabel = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*,[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// maxMetricManifest is the size of the largest file of labels.
const maxMetricManifest = 1 << 20

// check reads the flags.
func (m *metricLimits) check() (problems []error) {
	for _, name := range m.disabled {
		if !metricName.MatchString(name) {
			problems = append(problems,
				fmt.Errorf("--disabled-metrics: %q is not the name of a metric", name))
		}
	}
	flag, allowed := "--allow-metric-labels", m.allowed
	switch {
	case m.manifest == "":
	case m.allowed != nil:
		return append(problems, errors.New("--allow-metric-labels and --allow-metric-labels-manifest "+
			"contradict each other: set one of them"))
	default:
		var err error
		flag += "-manifest"
		if allowed, err = readManifest(m.manifest); err != nil {
			return append(problems, fmt.Errorf("%s: %w", flag, err))
		}
	}
	m.limits = metrics.Limits{Disabled: m.disabled, Allowed: map[string]map[string][]string{}}
	for key, values := range allowed {
		if !metricLabel.MatchString(key) {
			problems = append(problems, fmt.Errorf(
				"%s: %q: must be a metric and a label, such as apiserver_request_total,code", flag, key))
			continue
		}
		metric, label, _ := strings.Cut(key, ",")
		if m.limits.Allowed[metric] == nil {
			m.limits.Allowed[metric] = map[string][]string{}
		}
		m.limits.Allowed[metric][label] = strings.Split(values, ",")
	}
	return problems
}

// readManifest reads the values of labels from a file.
func readManifest(path string) (allowed map[string]string, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	if data, err = yaml.ToJSON(data, maxMetricManifest); err == nil {
		err = json.Unmarshal(data, &allowed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return allowed, nil
}

// Define implements registry.Definition.
func (m *metricLimits) Define(registry.Env) (registry.Bundle, error) {
	return registry.Bundle{}, nil
}

// CollectMetrics restricts what the registry shows.
func (m *metricLimits) CollectMetrics(r *metrics.Registry) { r.Limit(m.limits) }
