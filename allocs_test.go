//go:build !race

package kindwright_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// workload is one request that benchmarks repeat. Requests that write make something new each time.
type workload struct {
	name    string
	most    float64 // allocations, with a margin of about a tenth
	code    int
	request func(i int) *http.Request
}

// kibibyte is a field that makes an object about 1 KiB large.
var kibibyte = strings.Repeat("lorem ip", 96)

func gadgetBody(name, text string) string {
	return fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":%q},"data":{"text":%q}}`, name, text)
}

// workloads are the requests whose costs are held, for a server with 1,000 gadgets.
func workloads() []workload {
	const one = gadgetPath + "/g000000"
	patch := func(name, mediaType, query string, body func(i int) string) func(int) *http.Request {
		return func(i int) *http.Request {
			r := request("PATCH", gadgetPath+"/"+name+query, body(i))
			r.Header.Set("Content-Type", mediaType)
			return r
		}
	}
	return []workload{
		{"get", 15, 200, func(int) *http.Request { return request("GET", one, "") }},
		{"list", 55, 200, func(int) *http.Request { return request("GET", gadgetPath, "") }},
		{"create", 93, 201, func(i int) *http.Request {
			return request("POST", gadgetPath, gadgetBody(fmt.Sprintf("new%d", i), kibibyte))
		}},
		{"update", 97, 200, func(i int) *http.Request {
			return request("PUT", one, gadgetBody("g000000", fmt.Sprint(i)+kibibyte))
		}},
		{"merge-patch", 100, 200, patch("g000001", "application/merge-patch+json", "", func(i int) string {
			return fmt.Sprintf(`{"data":{"text":"%d%s"}}`, i, kibibyte)
		})},
		{"apply", 123, 200, patch("g000002", "application/apply-patch+yaml", "?fieldManager=m&force=true", func(i int) string {
			return gadgetBody("g000002", fmt.Sprint(i)+kibibyte)
		})},
		{"apply-unchanged", 82, 200, patch("g000003", "application/apply-patch+yaml", "?fieldManager=m&force=true", func(int) string {
			return gadgetBody("g000003", kibibyte)
		})},
		{"delete", 62, 200, func(i int) *http.Request { return request("DELETE", fmt.Sprintf("%s/g%06d", gadgetPath, i), "") }},
	}
}

// BenchmarkRequests are whole requests through the chain, without the network.
func BenchmarkRequests(b *testing.B) {
	for _, w := range workloads() {
		b.Run(w.name, func(b *testing.B) {
			srv := benchServer(b, max(1000, b.N))
			requests := make([]*http.Request, b.N)
			for i := range requests {
				requests[i] = w.request(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, r := range requests {
				if got := send(srv, r); got.code != w.code {
					b.Fatal(got.code)
				}
			}
		})
	}
}

// TestRequestsAllocateLittle holds what requests allocate, the work of the server's own goroutines and of the test's
// writer included.
func TestRequestsAllocateLittle(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			const runs = 200
			srv := benchServer(t, runs+2)
			requests := make([]*http.Request, runs+1)
			for i := range requests {
				requests[i] = w.request(i)
			}
			next := 0
			got := testing.AllocsPerRun(runs, func() {
				if answer := send(srv, requests[next]); answer.code != w.code {
					t.Fatal(answer.code)
				}
				next++
			})
			t.Logf("%s: %v allocations", w.name, got)
			if got > w.most {
				t.Errorf("%v allocations, at most %v are meant", got, w.most)
			}
		})
	}
}
