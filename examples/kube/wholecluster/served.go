package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// served is how many requests the server has answered, by what they cost it.
type served struct{ reads, writes, watches float64 }

// count adds what the running server has answered since it began, or since the last call. It is called before the
// server ends, with which its counters end.
func (c *cluster) count(ctx context.Context) error {
	text, err := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("/metrics: %w", err)
	}
	now := served{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "verb" {
				now.add(label.GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	c.served.reads += now.reads - c.last.reads
	c.served.writes += now.writes - c.last.writes
	c.served.watches += now.watches - c.last.watches
	c.last = now
	return nil
}

func (s *served) add(verb string, n float64) {
	switch verb {
	case "GET", "LIST":
		s.reads += n
	case "WATCH":
		s.watches += n
	case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		s.writes += n
	}
}
