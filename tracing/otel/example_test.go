package otel_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/tracing/otel"
)

func Example() {
	c, err := config.ParseTracing([]byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: collector.example:4317
samplingRatePerMillion: 100
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	exporter, err := otel.Open(ctx, c, otel.Options{Service: "bookshop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := kindwright.New(memory.New(), kindwright.Serve(kinds.ControlPlane()), kindwright.TraceTo(exporter))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(srv.Chain()[8:10])
	fmt.Println(exporter.Shutdown(ctx)) // after the server
	// Output:
	// [trace impersonate]
	// <nil>
}
