package tracing_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/tracing"
)

// slow prints the parts of requests that take long.
type slow struct{ atLeast time.Duration }

func (t slow) Begin(ctx context.Context, r tracing.Request) (context.Context, tracing.Span) {
	return ctx, &request{slow: t, name: r.Name}
}

type request struct {
	slow
	name string
}

func (r *request) Part(name string, start, end time.Time) {
	if took := end.Sub(start); took >= r.atLeast {
		fmt.Printf("%s: %s took %v\n", r.name, name, took)
	}
}

func (r *request) Call(*http.Request) tracing.Call { return call{} }

func (r *request) End(tracing.Answer) {}

// call is a request to another server, which is not measured here.
type call struct{}

func (call) End(int, error) {}

func Example() {
	ctx, span := slow{atLeast: time.Second}.Begin(context.Background(), tracing.Request{Name: "POST /api/v1/nodes"})
	ctx = tracing.NewContext(ctx, span) // the server does this for each request

	start := time.Unix(0, 0)
	tracing.FromContext(ctx).Part("authorization", start, start.Add(time.Millisecond))
	tracing.FromContext(ctx).Part("mutating-webhook", start, start.Add(2*time.Second))
	// Output: POST /api/v1/nodes: mutating-webhook took 2s
}
