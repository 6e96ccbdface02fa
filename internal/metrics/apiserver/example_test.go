package apiserver_test

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
)

func Example() {
	var registry metrics.Registry
	requests := apiserver.NewRequests(&registry)

	// When a kind is installed:
	widgets := requests.Serve(apiserver.Resource{Group: "example.com", Version: "v1", Resource: "widgets"})

	// For each request, once it is parsed and again at its end:
	running := widgets.Begin(apiserver.Call{Verb: apiserver.List, Scope: apiserver.NamespaceScope}, false, false)
	running.End(apiserver.Outcome{Code: 200, Duration: 3 * time.Millisecond, Sent: 4096})

	var text bytes.Buffer
	if err := metrics.Write(&text, registry.Families()); err != nil {
		fmt.Println(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "apiserver_request_total") {
			fmt.Print(line)
		}
	}

	// When it is removed, its series go:
	widgets.Release()
	// Output:
	// apiserver_request_total{verb="LIST",dry_run="",group="example.com",version="v1",resource="widgets",subresource="",scope="namespace",component="apiserver",code="200"} 1
}
