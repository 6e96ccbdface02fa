package aggregate_test

import (
	"bufio"
	"crypto/tls"
	stdx509 "crypto/x509"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
)

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hop is a way to a kind of the back end: straight, as a front proxy, or through the server.
type hop struct {
	client *http.Client
	base   string
	name   string // the header that names the user
}

func hops(b *testing.B) map[string]hop {
	b.Helper()
	w := newWorld(b, func(c *aggregate.Config) { c.ProbeEvery = 30 * time.Second }) // probes are no part of a request
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	code, body := w.do("POST", boats, `{"metadata":{"name":"a"},"spec":{"sails":2}}`)
	require.Equal(b, 201, code, body)
	pool := stdx509.NewCertPool()
	pool.AddCert(w.serving.Certificate())
	direct := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		RootCAs: pool, ServerName: "boats.default.svc", Certificates: []tls.Certificate{*w.certificate}, MinVersion: tls.VersionTLS12,
	}}
	b.Cleanup(direct.CloseIdleConnections)
	return map[string]hop{
		"direct":  {&http.Client{Transport: direct}, "https://" + w.addresses["boats"], "X-Remote-User"},
		"through": {w.http.Client(), w.http.URL, "X-User"},
	}
}

func (h hop) get(b *testing.B, path string) *http.Response {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, h.base+path, http.NoBody)
	require.NoError(b, err)
	r.Header.Set(h.name, "alice")
	res, err := h.client.Do(r)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, res.StatusCode)
	return res
}

// BenchmarkGet shows what a get costs with and without this server in between: the difference is the
// price of the aggregation, with a hop over loopback in it.
func BenchmarkGet(b *testing.B) {
	for name, h := range hops(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				res := h.get(b, boats+"/a")
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
		})
	}
}

// watchers is how many watches get each event of BenchmarkWatchEvent.
const watchers = 100

// BenchmarkWatchEvent is the same for an event of a watch. The write that causes it takes the same
// way for both, and many watches share its price.
func BenchmarkWatchEvent(b *testing.B) {
	all := hops(b)
	for name, h := range all {
		b.Run(name, func(b *testing.B) {
			lines := make([]*bufio.Reader, watchers)
			for i := range lines {
				res := h.get(b, boats+"?watch=true")
				defer func() { _ = res.Body.Close() }()
				lines[i] = bufio.NewReader(res.Body)
				_, err := lines[i].ReadString('\n') // the object as it is
				require.NoError(b, err)
			}
			began := processorTime(b)
			for b.Loop() {
				relabel(b, all["direct"])
				for _, one := range lines {
					_, err := one.ReadString('\n')
					require.NoError(b, err)
				}
			}
			took := float64((processorTime(b) - began).Nanoseconds()) / 1000
			b.ReportMetric(took/float64(b.N*watchers), "cpu-µs/event")
		})
	}
}

// relabel changes the object.
func relabel(b *testing.B, through hop) {
	b.Helper()
	change := `[{"op":"add","path":"/metadata/labels","value":{"at":"` + strconv.FormatInt(time.Now().UnixNano(), 10) + `"}}]`
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPatch, through.base+boats+"/a", strings.NewReader(change))
	require.NoError(b, err)
	r.Header.Set(through.name, "alice")
	r.Header.Set("Content-Type", "application/json-patch+json")
	answer, err := through.client.Do(r)
	require.NoError(b, err)
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
}
