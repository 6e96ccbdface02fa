package config

import (
	"net/url"
	"strings"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/status"
)

// TracingConfiguration is the document that says where the spans of requests are sent, and which requests
// have one. The module tracing/otel does what it says.
// Source: TRACE-01 to TRACE-05.
type TracingConfiguration struct {
	// Endpoint is where a collector takes OTLP over gRPC, without TLS: a host and a port, or a target of
	// gRPC with the scheme dns, unix or unix-abstract. Default: localhost:4317.
	Endpoint *string `json:"endpoint,omitempty"`

	// SamplingRatePerMillion is how many of a million requests have a span whose sender does not say
	// whether they should. Default: 0.
	SamplingRatePerMillion *int32 `json:"samplingRatePerMillion,omitempty"`
}

// maxSamplingRate is the rate at which every request has a span.
const maxSamplingRate = 1_000_000

var tracingKind = documents.Kind{
	Name: "TracingConfiguration", Group: "apiserver.config.k8s.io", AnyDomain: "apiserver", Versions: []string{"v1", "v1beta1", "v1alpha1"},
}

// ParseTracing reads the document and validates it. Errors name the field.
func ParseTracing(document []byte) (TracingConfiguration, error) {
	c, err := documents.Parse[TracingConfiguration](document, tracingKind)
	if err != nil {
		return c, err
	}
	return c, c.Validate()
}

// Validate reports everything that is wrong with a configuration, with the path of each field.
func (c TracingConfiguration) Validate() error {
	var f status.Fields
	if rate := c.SamplingRatePerMillion; rate != nil {
		switch at := f.At("samplingRatePerMillion"); {
		case *rate < 0:
			at.Invalid(*rate, "sampling rate must be positive")
		case *rate > maxSamplingRate:
			at.Invalid(*rate, "sampling rate per million must be less than or equal to one million")
		}
	}
	if c.Endpoint != nil {
		checkCollector(f.At("endpoint"), *c.Endpoint)
	}
	return documents.Problems(f.Errors())
}

// checkCollector judges the address of a collector. One without a scheme is a name that DNS knows.
func checkCollector(at status.Field, endpoint string) {
	if !strings.Contains(endpoint, "//") {
		endpoint = "dns://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		at.Invalid(endpoint, err.Error())
		return
	}
	switch u.Scheme {
	case "dns", "unix", "unix-abstract":
	default:
		at.Invalid(endpoint, "unsupported scheme: "+u.Scheme+
			".  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md")
	}
}
