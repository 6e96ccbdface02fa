package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/config"
)

const tracingHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"

func TestTRACE_01_03_TheFieldsAreRead(t *testing.T) {
	c, err := config.ParseTracing([]byte(tracingHead + "endpoint: collector:4317\nsamplingRatePerMillion: 250\n"))
	require.NoError(t, err)
	require.Equal(t, "collector:4317", *c.Endpoint)
	require.EqualValues(t, 250, *c.SamplingRatePerMillion)
	c, err = config.ParseTracing([]byte(tracingHead))
	require.NoError(t, err)
	require.Equal(t, config.TracingConfiguration{}, c, "neither is set")
}

// The words are those of Kubernetes.
func TestTRACE_05_WhatIsWrongIsNamed(t *testing.T) {
	for body, want := range map[string]string{
		"samplingRatePerMillion: -1":      "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
		"samplingRatePerMillion: 1000001": "samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to one million",
		"samplingRatePerMillion: 1.5":     "samplingRatePerMillion: ",
		"endpoint: http://c:4317":         `endpoint: Invalid value: "http://c:4317": unsupported scheme: http.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md`,
		"endpoint: 'dns://%'":             `endpoint: Invalid value: "dns://%": parse`,
		"endpoint: 5":                     "endpoint: ",
		"endPoint: x":                     "endPoint",
		"sampling: 1":                     "sampling",
		"endpoint: a\nendpoint: b":        "endpoint",
	} {
		_, err := config.ParseTracing([]byte(tracingHead + body))
		require.ErrorContains(t, err, want, body)
	}
	for _, good := range []string{
		"endpoint: localhost:4317", "endpoint: dns:///c:4317", "endpoint: unix:///run/c.sock", "endpoint: unix-abstract://c",
		"samplingRatePerMillion: 0", "samplingRatePerMillion: 1000000", `endpoint: ""`,
	} {
		_, err := config.ParseTracing([]byte(tracingHead + good))
		require.NoError(t, err, good)
	}
}
