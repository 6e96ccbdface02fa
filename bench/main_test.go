package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/bench/driver"
	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/server"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestMain(m *testing.M) {
	if server.IsChild() {
		os.Exit(server.Main())
	}
	os.Exit(m.Run())
}

// small holds the flags of a very short run.
var small = []string{
	"-operations=20", "-list-operations=1", "-objects=100", "-scratch=64", "-watchers=2", "-deliveries=20",
	"-memory-objects=100", "-idle-watchers=3", "-churn=100ms", "-settle=0s", "-time=0s",
}

func runs(t *testing.T, args ...string) (code int, out, progress string) {
	var stdout, stderr bytes.Buffer
	args = append(append([]string{"-dir=" + t.TempDir()}, small...), args...)
	code = command(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestRunMeasuresEachServerInEachRound(t *testing.T) {
	dir := t.TempDir()
	file, tables, profiles := filepath.Join(dir, "out.json"), filepath.Join(dir, "out.md"), filepath.Join(dir, "profiles")
	code, out, progress := runs(t, "-run=^(get/c16|list/gzip|memory/load-100)$", "-rounds=3", "-json="+file, "-markdown="+tables, "-profile="+profiles)
	require.Zero(t, code, progress)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(data, &r))
	var order []string
	for _, one := range r.Results {
		if one.Workload == "get/c16" {
			order = append(order, one.Target)
			assert.Equal(t, 20, one.Operations)
			assert.Zero(t, one.Errors)
			assert.Positive(t, one.ServerCPU)
		}
	}
	assert.Equal(t, "bbolt memory limit limit memory bbolt bbolt memory limit", strings.Join(order, " "), "A B, B A")
	assert.Len(t, r.Results, 27)
	require.Len(t, r.Summary, 9)
	first := r.Summary[0]
	assert.Equal(t, [3]string{"configmaps", "get/c16", "bbolt"}, [3]string{first.Shape, first.Workload, first.Target})
	assert.Equal(t, 3, first.Rounds)
	assert.Positive(t, first.Ratios["limit"])
	assert.Positive(t, first.Ratios["memory"])
	assert.LessOrEqual(t, first.ServerCPURange[0], first.ServerCPU)
	assert.GreaterOrEqual(t, first.ServerCPURange[1], first.ServerCPU)
	assert.Positive(t, r.Machine.Cores)

	assert.Contains(t, out, "### configmaps\n")
	assert.Contains(t, out, "| get/c16 | bbolt |")
	assert.Contains(t, out, "### configmaps: memory\n")
	assert.Contains(t, out, "* list/gzip by limit: the answer is not compressed", "not served is never silence")
	assert.Contains(t, out, "go -C bench run . -dir=")
	written, err := os.ReadFile(tables)
	require.NoError(t, err)
	assert.Equal(t, out, string(written))

	made, err := filepath.Glob(filepath.Join(profiles, "*"))
	require.NoError(t, err)
	assert.Contains(t, made, filepath.Join(profiles, "configmaps-bbolt-get-c16.pprof"))
	assert.Contains(t, made, filepath.Join(profiles, "configmaps-memory-list-gzip.pprof"))
	assert.Contains(t, made, filepath.Join(profiles, "configmaps-memory-memory-load-100-heap.pprof"))
}

// A peer may be any server. Here it is one of ours, in this process, with its own certificate
// authority.
func TestPeerIsMeasuredBeside(t *testing.T) {
	ours, err := server.New(memory.New(), "secret")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, ours.Start(ctx))
	t.Cleanup(func() { stop(); ours.Wait() })
	definitions := 0
	peer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") {
			definitions++
			w.WriteHeader(http.StatusCreated)
			return
		}
		ours.ServeHTTP(w, r)
	}))
	peer.EnableHTTP2 = true
	peer.StartTLS()
	t.Cleanup(peer.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: peer.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))

	common := []string{"-backend=none", "-shape=gadgets", "-rounds=1", "-peer=" + peer.URL + "/", "-peer-name=other"}
	code, out, progress := runs(t, append(common, "-run=^(get/c1|update/c16|delete/c16)$", "-peer-install", "-peer-token=@"+token, "-peer-ca="+ca)...)
	require.Zero(t, code, progress)
	assert.Equal(t, 1, definitions)
	for _, row := range []string{"get/c1 | other", "get/c1 | limit", "update/c16 | other", "delete/c16 | other"} {
		assert.Contains(t, out, "| "+row+" |")
	}
	assert.NotContains(t, out, "secret")

	code, _, progress = runs(t, append(common, "-run=^get/c1$", "-limit=false", "-peer-token", "secret", "-peer-insecure")...)
	require.Zero(t, code, progress)
	code, _, progress = runs(t, append(common, "-run=^get/c1$", "-limit=false", "-peer-token=secret")...)
	assert.Equal(t, exitErrors, code)
	assert.Contains(t, progress, "certificate")
	code, _, progress = runs(t, append(common, "-run=^get/c1$", "-limit=false", "-peer-token=wrong", "-peer-insecure")...)
	assert.Equal(t, exitErrors, code, "a refusal is an error: %s", progress)
	assert.Contains(t, progress, "401")
}

func TestKindFromTemplates(t *testing.T) {
	dir := t.TempDir()
	body, patch := filepath.Join(dir, "body"), filepath.Join(dir, "patch")
	require.NoError(t, os.WriteFile(body, []byte(`{"metadata":{${version}"name":"${name}"},"seq":"${seq}"}`), 0o600))
	require.NoError(t, os.WriteFile(patch, []byte(`{"seq":"${seq}"}`), 0o600))
	code, out, progress := runs(t, "-backend=none", "-collection=/apis/x/v1/namespaces/${namespace}/things", "-body="+body, "-patch="+patch,
		"-run=^(get/c1|patch/c16|watch/2)$", "-rounds=2")
	require.Zero(t, code, progress)
	assert.Contains(t, out, "### things\n")
}

func TestErrorsAreTheExitCode(t *testing.T) {
	r := report{Results: []result{{Result: driver.Result{Errors: 2}}, {}}}
	assert.Equal(t, 2, r.errors())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, progress bytes.Buffer
	assert.Equal(t, exitErrors, command(ctx, append([]string{"-run=^get/c1$", "-dir=" + t.TempDir()}, small...), &out, &progress))
	assert.Contains(t, progress.String(), "canceled")
}

func TestNamesOfWorkloads(t *testing.T) {
	code, out, _ := runs(t, "-list")
	assert.Zero(t, code)
	assert.Contains(t, out, "get/c16 ")
	assert.Contains(t, out, "memory/churn ")
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"extra":                       `"extra"`,
		"-run=(":                      "-run",
		"-backend=disk":               `"disk"`,
		"-shape=round":                `"round"`,
		"-collection=/x":              "-body",
		"-watchers=1,x":               "-watchers",
		"-memory-objects=0":           "-memory-objects",
		"-idle-watchers=":             "-idle-watchers",
		"-rounds=0":                   "-rounds",
		"-objects=150":                "-objects",
		"-scratch=10":                 "-scratch",
		"-peer-pid=x":                 "-peer-pid",
		"-peer-ca=/no/such":           "-peer-ca",
		"-peer-token=@/no/such":       "-peer-token",
		"-backend=none -limit=false":  "no server",
		"-nosuch":                     "nosuch",
		"-collection=/x -body=go.mod": "-patch",
	} {
		code, _, progress := runs(t, strings.Fields(args)...)
		assert.Equal(t, exitUsage, code, args)
		assert.Contains(t, progress, want, args)
	}
	code, _, progress := runs(t, "-h")
	assert.Zero(t, code)
	assert.Contains(t, progress, "-peer-token")
}

func TestCommandLineIsQuotedWithoutTokens(t *testing.T) {
	got := quoted([]string{"-run", "^get|x's", "-peer-token", "a", "--peer-token=b", "-peer", "https://127.0.0.1:1"})
	assert.Equal(t, `-run '^get|x'\''s' -peer-token TOKEN -peer-token=TOKEN -peer https://127.0.0.1:1`, strings.Join(got, " "))
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	at := func(target string, round int, cpu float64) result {
		return result{Shape: "s", Result: driver.Result{Target: target, Workload: "w", Round: round, ServerCPU: cpu, Operations: 1}}
	}
	r := report{Results: []result{
		at("a", 0, 10), at("b", 0, 100), at("b", 1, 10), at("a", 1, 5), at("a", 2, 30), at("b", 2, 300),
		{Shape: "s", Result: driver.Result{Target: "c", Workload: "w", NotServed: "415 a|b\nc"}},
	}}
	r.Summary = r.summarise()
	require.Len(t, r.Summary, 3)
	assert.InDelta(t, 0.1, r.Summary[0].Ratios["b"], 1e-9)
	assert.InDelta(t, 10, r.Summary[1].Ratios["a"], 1e-9)
	assert.NotContains(t, r.Summary[0].Ratios, "c")
	assert.InDelta(t, 10, r.Summary[0].ServerCPU, 0)
	assert.Contains(t, r.tables(), `* w by c: 415 a\|b c`)
	assert.Contains(t, r.tables(), "| w | a | 10.0 (5.00–30.0) |")
}

func TestLine(t *testing.T) {
	assert.Contains(t, line("s", driver.Result{NotServed: "415"}), "not served: 415")
	text := line("s", driver.Result{Workload: "w", Operations: 3, PerSecond: 1, Errors: 2, FirstError: "why", Figures: map[string]float64{"b": 2, "a": 1}})
	assert.Contains(t, text, "a=1 b=2")
	assert.Contains(t, text, "ERRORS: 2, first: why")
}

// The purpose of the program: a server that loses an event must be reported.
func TestFaultyServerIsReported(t *testing.T) {
	id, err := server.NewIdentity("secret")
	require.NoError(t, err)
	child, err := server.Start(t.Context(), id, server.Limit, t.TempDir(), limit.Faults{DropEvery: 10})
	require.NoError(t, err)
	defer func() { assert.NoError(t, child.Stop()) }()
	code, out, progress := runs(t, "-backend=none", "-limit=false", "-rounds=1", "-run=^watch/2$", "-patience=3s",
		"-peer="+child.URL, "-peer-name=faulty", "-peer-insecure", "-peer-token=secret")
	assert.Equal(t, exitErrors, code)
	assert.Contains(t, progress, "20 missed")
	assert.Contains(t, out, "20 errors")
}
