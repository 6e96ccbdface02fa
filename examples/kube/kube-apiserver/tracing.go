package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/tracing/otel"
)

// lastSpans is how long the end of the server waits for a collector that takes the spans of its last requests.
const lastSpans = 5 * time.Second

// spans says where the spans of requests are sent.
// Source: TRACE-05.
type spans struct {
	file          string
	configuration *config.TracingConfiguration // nil: no request is followed
}

// read reads the file of --tracing-config-file.
func (s *spans) read(known gates) error {
	if s.file == "" {
		return nil
	}
	if !known[gateTracing].on {
		return errors.New("--tracing-config-file: the feature gate " + gateTracing + " is off")
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return fmt.Errorf("--tracing-config-file: %w", err)
	}
	c, err := config.ParseTracing(text)
	if err != nil {
		return fmt.Errorf("--tracing-config-file: %s: %w", s.file, err)
	}
	s.configuration = &c
	return nil
}

// open returns the option that has requests followed, and a function that ends that after the server. The
// collector stands beside the server, unless it is on this machine.
func (s *spans) open(ctx context.Context, log logr.Logger, instance string, through *egress.Selector) (option []kindwright.Option, end func() error, err error) {
	if s.configuration == nil {
		return nil, func() error { return nil }, nil
	}
	given := otel.Options{Instance: instance, Log: log.WithName("tracing")}
	here := s.configuration.Endpoint != nil && strings.HasPrefix(*s.configuration.Endpoint, "unix")
	if dial := through.Dialer(egress.ControlPlane); dial != nil && !here {
		given.Dial = func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }
	}
	exporter, err := otel.Open(ctx, *s.configuration, given)
	if err != nil {
		return nil, nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	return []kindwright.Option{kindwright.TraceTo(exporter)}, func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		return exporter.Shutdown(last)
	}, nil
}
