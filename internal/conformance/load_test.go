package conformance

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/registry"
)

var (
	loadClients = flag.Int("load-clients", 10, "how many clients send the worst bodies at once")
	loadGets    = flag.Int("load-gets", 20, "how many gets another client does alone, and then among them")
	loadEvery   = flag.Duration("load-every", 0, "how long that client waits between two gets")
	loadSends   = flag.Int("load-sends", 1, "how many bodies each client sends at least; they go on until the gets are done")
	loadApart   = flag.Bool("load-apart", false, "the clients with the bodies are a process of their own, with the lowest priority, so that they do not take the processors from the server")
	loadAgainst = flag.String("load-against", "", "what is set in such a process: the URL of the server")
	loadGood    = flag.Bool("load-good", false, "what is set in the process of the client that does no harm")
)

// costly are bodies that take the most memory, of those that are known, and are of several encodings.
func costly() []body {
	text := strings.Repeat(" ", *bodySize/2)
	return []body{
		{what: "a list of numbers", method: "POST", path: sackPath, typ: "application/json", data: repeated(`{"metadata":{"name":"y"},"content":{"a":[%s]}}`, "1.5")},
		{
			what: "operations and text", method: "PATCH", path: hamperPath + "/x", typ: "application/json-patch+json",
			data: []byte(`[{"op":"add","path":"/text","value":"` + text + `"}` + strings.Repeat(`,{"op":"copy","from":"/names","path":"/names/-"}`, 9_000) + `]`),
		},
		{what: "YAML text", method: "POST", path: hamperPath, typ: "application/yaml", data: []byte("text: \"" + strings.Repeat("a b ", mostYAML/4-10) + "\"")},
		{what: "CBOR numbers", method: "POST", path: sackPath, typ: cborType, data: slices.Concat([]byte("\xbf\x41z\x9f"), bytes.Repeat([]byte{0x20}, *bodySize/3), []byte("\xff\xff"))},
	}
}

// answers counts the answers by their code. A request that was not answered counts as zero.
type answers [600]atomic.Int64

// attackers are clients that send costly bodies over connections of their own, each as a user of its
// own, and do not wait when they are told to. They stop with the context, but not before each has
// sent what it has to.
func attackers(ctx context.Context, url string) (counted *answers, wait func()) {
	counted = new(answers)
	bodies := costly()
	var all sync.WaitGroup
	for i := range *loadClients {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for sent := 0; sent < *loadSends || ctx.Err() == nil; sent++ {
				b := bodies[(i+sent)%len(bodies)]
				counted[post(client, b.method, url+b.path, b.typ, b.data, "attacker-"+strconv.Itoa(i))].Add(1)
			}
		})
	}
	return counted, all.Wait
}

// attackersApart are the same clients in a process of their own, which yields to every other.
func attackersApart(ctx context.Context, t *testing.T, url string) (counted *answers, wait func()) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(ctx, "nice", "-n", "19", program, "-test.run", "^"+t.Name()+"$", "-test.v", "-load-against", url, //nolint:gosec // ourselves
		"-load-clients", strconv.Itoa(*loadClients), "-load-sends", strconv.Itoa(*loadSends), "-body-size", strconv.Itoa(*bodySize))
	c.WaitDelay = time.Minute
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	counted = new(answers)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var code int
			var n int64
			if _, err := fmt.Sscanf(lines.Text(), "answered %d %d", &code, &n); err == nil {
				counted[code].Store(n)
			}
		}
	}()
	return counted, func() {
		<-read
		_ = c.Wait() // the context has ended it
	}
}

// getsApart measures the gets of a client in a process of its own, as clients are. In the server's process, each of them
// would wait for its turn at both ends.
func getsApart(t *testing.T, url string) (took []time.Duration) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), program, "-test.run", "^"+t.Name()+"$", "-test.v", "-load-against", url, "-load-good", //nolint:gosec // ourselves
		"-load-gets", strconv.Itoa(*loadGets), "-load-every", loadEvery.String()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		var ns int64
		if _, err := fmt.Sscanf(line, "took %d", &ns); err == nil {
			took = append(took, time.Duration(ns))
		}
	}
	require.Len(t, took, *loadGets)
	return took
}

// onlyGets is what the process of that client does.
func onlyGets(t *testing.T) {
	t.Helper()
	for _, took := range gets(t, *loadAgainst) {
		_, _ = fmt.Fprintf(os.Stdout, "took %d\n", took)
	}
}

// attackOnly is what the process of the clients does.
func attackOnly(t *testing.T) {
	t.Helper()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	counted, wait := attackers(ctx, *loadAgainst)
	wait()
	for code := range counted {
		if n := counted[code].Load(); n > 0 {
			_, _ = fmt.Fprintf(os.Stdout, "answered %d %d\n", code, n)
		}
	}
}

// post sends a request and returns the code of the answer, or zero if there was none.
func post(client *http.Client, method, url, contentType string, data []byte, user string) (code int) {
	r, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(data))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-User", user)
	res, err := client.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// gets measures the gets of a client that does no harm, in order of the time they took.
func gets(t *testing.T, url string) []time.Duration {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	took := make([]time.Duration, *loadGets)
	for i := range took {
		began := time.Now()
		require.Equal(t, 200, post(client, "GET", url+hamperPath+"/x", "", nil, "good"))
		took[i] = time.Since(began)
		time.Sleep(*loadEvery)
	}
	slices.Sort(took)
	return took
}

// lateness measures, until the context ends, by how much a goroutine wakes up too late that takes no lock and waits for
// nobody. What gets take beyond that is the server's doing.
func lateness(ctx context.Context) <-chan []time.Duration {
	measured := make(chan []time.Duration, 1)
	go func() {
		var took []time.Duration
		for ctx.Err() == nil {
			const pause = 5 * time.Millisecond
			began := time.Now()
			time.Sleep(pause)
			took = append(took, time.Since(began)-pause)
		}
		slices.Sort(took)
		measured <- took
	}()
	return measured
}

// Clients that send the worst bodies at once are answered within the memory that the limits give, and
// do not take the server from others. "make memory-load" does it with 1,000 clients, and states the
// peak of the resident memory and what a get takes alone and among them.
func TestS1_WorstBodiesAtOnce(t *testing.T) {
	switch {
	case *loadGood:
		onlyGets(t)
		return
	case *loadAgainst != "":
		attackOnly(t)
		return
	}
	measure := gets
	if *loadApart {
		measure = getsApart
	}
	s := startInMemory(t, withCBOR, everybody, kindwright.Serve(
		registry.Kind[Hamper]{Group: group, Version: "v1", Plural: "hampers"},
		registry.Kind[Sack]{Group: group, Version: "v1", Plural: "sacks"}))
	s.tidy()
	web := httptest.NewServer(s.api)
	defer web.Close()
	alone := measure(t, web.URL)

	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	resident := residentMemory("VmRSS:")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, stop := context.WithCancel(t.Context())
	var counted *answers
	var wait func()
	if *loadApart {
		counted, wait = attackersApart(ctx, t, web.URL)
		time.Sleep(10 * time.Second) // the clients have come
	} else {
		counted, wait = attackers(ctx, web.URL)
	}
	late := lateness(ctx)
	among := measure(t, web.URL)
	stop()
	wait()
	runtime.ReadMemStats(&after)
	peak := residentMemory("VmHWM:")

	var sent int64
	for code := range counted {
		if n := counted[code].Load(); n > 0 {
			sent += n
			t.Logf("%d answers with %d", n, code)
		}
		if code != http.StatusGatewayTimeout { // the time of a request may end while its body waits
			require.False(t, code >= 500 && counted[code].Load() > 0, "code %d", code)
		}
	}
	require.GreaterOrEqual(t, sent, int64(*loadClients**loadSends))
	t.Logf("%d clients: resident %.1f MiB before, %.1f MiB at the peak; allocated %.1f MiB for each body",
		*loadClients, mebibytes(resident), mebibytes(peak), mebibytes(after.TotalAlloc-before.TotalAlloc)/float64(sent))
	p99 := func(took []time.Duration) time.Duration { return took[(len(took)-1)*99/100] }
	t.Logf("a get: p50 %v, p99 %v alone; p50 %v, p99 %v among them", alone[len(alone)/2], p99(alone), among[len(among)/2], p99(among))
	if took := <-late; len(took) > 0 {
		t.Logf("a goroutine of the server that only sleeps is late by p50 %v, p99 %v among them: so long, the machine or the collector of garbage keeps it", took[len(took)/2], p99(took))
	}
	require.LessOrEqual(t, mebibytes(after.TotalAlloc-before.TotalAlloc), 40*float64(sent+int64(*loadGets)), "with what the clients take, and the race detector")
	require.Equal(t, 200, post(web.Client(), "GET", web.URL+hamperPath+"/x", "", nil, "good"))
}

// tally is a body that counts what is read of it.
type tally struct {
	io.Reader

	read int
}

func (c *tally) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// A request without a credential is refused before its body is read.
func TestS10_BodiesWithoutCredential(t *testing.T) {
	s := memoryServer(t)
	data := bytes.Repeat([]byte(" "), *bodySize)
	for method, path := range map[string]string{"POST": hamperPath, "PUT": hamperPath + "/x", "PATCH": hamperPath + "/x", "DELETE": hamperPath} {
		for _, contentType := range []string{"application/json", "application/yaml", cborType, "application/vnd.kubernetes.protobuf"} {
			body := &tally{Reader: bytes.NewReader(data)}
			r := httptest.NewRequest(method, path, body)
			r.ContentLength = int64(len(data))
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s.api.ServeHTTP(w, r)
			runtime.ReadMemStats(&after)
			require.Equal(t, 403, w.Code, "%s %s: %s", method, contentType, w.Body)
			require.Zero(t, body.read, "%s %s", method, contentType)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10), "%s %s", method, contentType)
		}
	}
}

// A scalar of any length is read or refused in memory that is a small multiple of its length, and the
// answer does not repeat it.
func TestS22_LongScalars(t *testing.T) {
	s := memoryServer(t)
	digits := strings.Repeat("9", effort.Of(*bodySize)-200)
	for _, c := range []struct{ what, text string }{
		{"an integer", `{"metadata":{"name":"y"},"items":[{"value":` + digits + `}]}`},
		{"an unknown integer", `{"metadata":{"name":"y"},"z":-` + digits + `}`},
		{"a fraction", `{"metadata":{"name":"y"},"items":[{"value":0.` + digits + `}]}`},
		{"an exponent", `{"metadata":{"name":"y"},"items":[{"value":1e` + digits + `}]}`},
		{"a small exponent", `{"metadata":{"name":"y"},"items":[{"value":1e-` + digits + `}]}`},
		{"a time", `{"metadata":{"name":"y","creationTimestamp":"2026-01-02T03:04:05.` + digits + `Z"}}`},
		{"a name", `{"metadata":{"name":"` + digits + `"}}`},
		{"a label", `{"metadata":{"name":"y","labels":{"a":"` + digits + `"}}}`},
		{"an owner", `{"metadata":{"name":"y","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"` + digits + `"}]}}`},
		{"a resource version", `{"metadata":{"name":"y","resourceVersion":"` + digits + `"}}`},
	} {
		for _, b := range []body{
			{method: "POST", path: hamperPath + "?dryRun=All", typ: "application/json"},
			{method: "PUT", path: hamperPath + "/x?dryRun=All", typ: "application/json"},
			{method: "PATCH", path: hamperPath + "/x?dryRun=All", typ: "application/merge-patch+json"},
		} {
			b.what, b.data = c.what, []byte(c.text)
			f := s.spends(b)
			require.LessOrEqual(t, f.allocated, *bodyLimit, "%s %s", b.method, c.what)
			require.NotContains(t, string(f.answer), digits[:400], "%s %s", b.method, c.what)
		}
	}
}
