package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/examples/internal/program"
	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		serveInstead()
	}
	etcdtest.Main(m)
}

// printed collects what a program prints.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
	said chan struct{}
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(b, []byte("Serving on")) {
		close(p.said)
	}
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// running is a server in this process.
type running struct {
	t    *testing.T
	url  string
	stop func() int
}

const credentials = "administrator,admin,1,\"system:masters\"\n"

// serve starts a server with a data directory of its own.
func serve(t *testing.T, args ...string) *running {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte(credentials), 0o600))
	out, errOut := &printed{said: make(chan struct{})}, &printed{said: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	args = append([]string{"--listen=127.0.0.1:0", "--data-dir=" + filepath.Join(dir, "data"), "--token-auth-file=" + tokens}, args...)
	go func() { ended <- program.Run(ctx, args, out, errOut, &cluster{}) }()
	stop := sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	select {
	case <-out.said:
	case code := <-ended:
		ended <- code
		require.FailNow(t, "the server did not start", "%d\n%s", code, errOut)
	}
	_, rest, _ := strings.Cut(out.String(), "https://")
	address, _, _ := strings.Cut(rest, ",")
	return &running{t: t, url: "https://" + address, stop: stop}
}

// do sends a request and returns the code and the answer.
func (r *running) do(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer administrator")
	req.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, res.Body.Close()) }()
	data, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	var doc map[string]any
	_ = json.Unmarshal(data, &doc) // some answers are text
	return res.StatusCode, doc
}

func names(list map[string]any) (out []string) {
	items, _ := list["items"].([]any)
	for _, item := range items {
		metadata, _ := item.(map[string]any)["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		out = append(out, name)
	}
	return out
}

const gadgets = "/apis/example.dev/v1/namespaces/default/gadgets"

// Servers that begin at the same time on an empty etcd serve one API: what one of them has answered,
// the others know with their next answer.
func TestServersBesideEachOther(t *testing.T) {
	etcds := etcdtest.Start(t, 1, etcdtest.Options{})
	flag := "--etcd-servers=" + strings.Join(etcds.Endpoints(), ",")
	servers := make([]*running, 3)
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() { servers[i] = serve(t, flag) })
	}
	starting.Wait()
	for round := range 20 {
		writer, reader := servers[round%3], servers[(round+1)%3]
		name := "g" + string(rune('a'+round))
		code, made := writer.do("POST", gadgets, `{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"`+name+`"}}`)
		require.Equal(t, 201, code, "%v", made)
		code, found := reader.do("GET", gadgets+"/"+name, "")
		require.Equal(t, 200, code)
		require.Equal(t, made["metadata"], found["metadata"])
		_, list := servers[(round+2)%3].do("GET", gadgets, "")
		require.Contains(t, names(list), name)
		code, _ = reader.do("DELETE", gadgets+"/"+name, "")
		require.Equal(t, 200, code)
		code, _ = writer.do("GET", gadgets+"/"+name, "")
		require.Equal(t, 404, code)
	}
	// A definition that one of them took is served by all.
	code, made := servers[0].do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	require.Equal(t, 201, code, "%v", made)
	for _, s := range servers {
		require.Eventually(t, func() bool {
			code, _ := s.do("GET", "/apis/shop.example.com/v1/namespaces/default/orders", "")
			return code == 200
		}, time.Minute, 10*time.Millisecond)
	}
	// A server that returns finds everything.
	require.Zero(t, servers[0].stop())
	again := serve(t, flag)
	code, _ = again.do("GET", "/apis/shop.example.com/v1/namespaces/default/orders", "")
	require.Equal(t, 200, code)
	// Another prefix is another API.
	other := serve(t, flag, "--etcd-prefix=/other")
	code, _ = other.do("GET", "/apis/shop.example.com/v1/namespaces/default/orders", "")
	require.Equal(t, 404, code)
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"orders.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Namespaced","names":{"plural":"orders","singular":"order","kind":"Order","listKind":"OrderList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

func TestWhatIsWrongWithEtcdIsSaid(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	require.NoError(t, os.WriteFile(garbage, []byte("no certificate"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no servers":         {nil, 2, "--etcd-servers"},
		"half a certificate": {[]string{"--etcd-servers=https://127.0.0.1:1", "--etcd-certfile=x"}, 2, "--etcd-keyfile"},
		"no password":        {[]string{"--etcd-servers=http://127.0.0.1:1", "--etcd-username=x"}, 2, "--etcd-password-file"},
		"negative size":      {[]string{"--etcd-servers=http://127.0.0.1:1", "--etcd-max-request-bytes=-1"}, 2, "--etcd-max-request-bytes"},
		"garbage":            {[]string{"--etcd-servers=https://127.0.0.1:1", "--etcd-cafile=" + garbage}, 1, "garbage.pem"},
		"missing file":       {[]string{"--etcd-servers=https://127.0.0.1:1", "--etcd-cafile=" + garbage + "x"}, 1, "--etcd-cafile"},
		"no URL":             {[]string{"--etcd-servers=localhost"}, 1, "not a URL"},
		"prefix":             {[]string{"--etcd-servers=http://127.0.0.1:1", "--etcd-prefix=x/"}, 1, "prefix"},
		"nobody listens":     {[]string{"--etcd-servers=http://" + closed.Addr().String()}, 1, closed.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			errOut := &printed{said: make(chan struct{})}
			dir := t.TempDir()
			args := append([]string{"--listen=127.0.0.1:0", "--data-dir=" + filepath.Join(dir, "data")}, c.args...)
			require.Equal(t, c.code, program.Run(t.Context(), args, io.Discard, errOut, &cluster{}), errOut)
			require.Contains(t, errOut.String(), c.says)
		})
	}
}

// What the cluster says about a store that is not this program's, or that has lost a part, ends the
// program with what to do, and nothing is written.
func TestWhatIsWrongWithTheStoreIsSaid(t *testing.T) {
	etcds := etcdtest.Start(t, 1, etcdtest.Options{})
	client := etcds.Client(t)
	newest := func() int64 {
		r, err := client.Get(t.Context(), "none")
		require.NoError(t, err)
		return r.Header.Revision
	}
	servers := "--etcd-servers=" + strings.Join(etcds.Endpoints(), ",")
	made := serve(t, servers, "--etcd-prefix=/ours")
	code, _ := made.do("POST", gadgets, `{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"a"}}`)
	require.Equal(t, 201, code)
	require.Zero(t, made.stop())
	for _, c := range []struct {
		name, prefix, says string
		spoil              func() error
	}{
		{"a foreign prefix", "/registry", "give another prefix", func() error {
			_, err := client.Put(t.Context(), "/registry/pods/default/a", "foreign")
			return err
		}},
		{"a prefix within ours", "/ours/below", "give another prefix", func() error { return nil }},
		{"another owner", "/ours", `belongs to "gadgets"`, func() error {
			_, err := client.Put(t.Context(), "/ours/m/owner", `{"format":1,"name":"gadgets"}`)
			return err
		}},
		{"a newer format", "/ours", "use a newer release", func() error {
			_, err := client.Put(t.Context(), "/ours/m/owner", `{"format":2,"name":"example.dev"}`)
			return err
		}},
		{"no base", "/ours", "/ours/m/base is missing", func() error {
			_, err := client.Delete(t.Context(), "/ours/m/base")
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.spoil())
			before := newest()
			errOut := &printed{said: make(chan struct{})}
			args := []string{"--listen=127.0.0.1:0", "--data-dir=" + filepath.Join(t.TempDir(), "data"), servers, "--etcd-prefix=" + c.prefix}
			require.Equal(t, 1, program.Run(t.Context(), args, io.Discard, errOut, &cluster{}), errOut)
			require.Contains(t, errOut.String(), c.says)
			require.Equal(t, before, newest(), "something was written")
		})
	}
}

// What is wrong with certificates ends the program with what to do. The
// backend's own tests of these, and of passwords, are in storage/etcd/etcdtest.
func TestWhatIsWrongWithCredentialsOfEtcdIsSaid(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	pair := func(name string, a *selfsigned.Authority) (cert, key string) {
		p, err := a.Client(name)
		require.NoError(t, err)
		return file(name+".crt", p.Cert), file(name+".key", p.Key)
	}
	ours, err := selfsigned.NewAuthority("ours")
	require.NoError(t, err)
	theirs, err := selfsigned.NewAuthority("theirs")
	require.NoError(t, err)
	short, err := selfsigned.NewAuthorityFor("short", time.Nanosecond)
	require.NoError(t, err)
	serving, err := ours.Serving("127.0.0.1")
	require.NoError(t, err)
	ca, other := file("ca.crt", ours.PEM()), file("other.crt", theirs.PEM())
	both := file("both.crt", append(ours.PEM(), short.PEM()...))
	etcds := etcdtest.Start(t, 1, etcdtest.Options{Cert: file("etcd.crt", serving.Cert), Key: file("etcd.key", serving.Key), ClientCA: both})
	cert, key := pair("good", ours)
	foreign, foreignKey := pair("foreign", theirs)
	expired, expiredKey := pair("expired", short)
	servers := "--etcd-servers=" + strings.Join(etcds.Endpoints(), ",")
	good := serve(t, servers, "--etcd-cafile="+ca, "--etcd-certfile="+cert, "--etcd-keyfile="+key)
	require.Zero(t, good.stop())
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"the wrong authority":   {[]string{"--etcd-cafile=" + other, "--etcd-certfile=" + cert, "--etcd-keyfile=" + key}, "give the CA that signed it"},
		"no certificate":        {[]string{"--etcd-cafile=" + ca}, "etcd asks for a certificate"},
		"a foreign certificate": {[]string{"--etcd-cafile=" + ca, "--etcd-certfile=" + foreign, "--etcd-keyfile=" + foreignKey}, "--trusted-ca-file"},
		"an expired one":        {[]string{"--etcd-cafile=" + ca, "--etcd-certfile=" + expired, "--etcd-keyfile=" + expiredKey}, "expired"},
		"a key of another":      {[]string{"--etcd-cafile=" + ca, "--etcd-certfile=" + cert, "--etcd-keyfile=" + foreignKey}, "private key does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			errOut := &printed{said: make(chan struct{})}
			args := append([]string{"--listen=127.0.0.1:0", "--data-dir=" + filepath.Join(t.TempDir(), "data"), servers, "--etcd-prefix=/none"}, c.args...)
			code := program.Run(t.Context(), args, io.Discard, errOut, &cluster{})
			require.Equal(t, 1, code, errOut)
			require.Contains(t, errOut.String(), c.says)
		})
	}
}

// Which tests of the core's suites run on etcd. Their make targets run them all.
var (
	requirements = flag.String("requirements", "Test(UPDATE|CREATE|DEL|PATCH|SSA|NAME)_", "regular expression of the requirements to ask of etcd")
	clients      = flag.String("clients", "", "regular expression of the tests of internal/interop to run on etcd; by default none: linking them takes a minute")
	soaked       = flag.Int("soaked", 5_000, "how many events the soak delivers on etcd")
)

// remote serves stores on etcd to a process of tests that cannot link etcd. It returns the environment
// that the process needs.
func remote(t *testing.T, etcds *etcdtest.Cluster) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- remotestore.Serve(ctx, l, func(name string) (storage.Backend, error) {
			return etcd.Open(ctx, etcd.Config{Endpoints: etcds.Endpoints(), Prefix: "/" + name, Owner: owner})
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	return append(os.Environ(), "KINDWRIGHT_REMOTE="+path)
}

// suite runs tests of another directory on etcd.
func suite(t *testing.T, env []string, dir, run string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-timeout=60m", "-v", ".", "-run=" + run}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join("..", "..", "internal", dir), env
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	t.Logf("%d tests of internal/%s passed", bytes.Count(text, []byte("--- PASS: ")), dir)
	require.Contains(t, string(text), "--- PASS: ", "no test was run")
}

// The requirements of the core, on etcd.
func TestRequirements(t *testing.T) {
	suite(t, remote(t, etcdtest.Start(t, 1, etcdtest.Options{})), "conformance", "("+*requirements+")/remote")
}

// Watches under everything that can go wrong, on etcd.
func TestSoakOnEtcd(t *testing.T) {
	suite(t, remote(t, etcdtest.Start(t, 1, etcdtest.Options{})), "soak", "^TestSoak$", fmt.Sprintf("-events=%d", *soaked))
}

// Real clients against this program.
func TestClientsOnEtcd(t *testing.T) {
	if *clients == "" {
		return
	}
	program := filepath.Join(t.TempDir(), "cluster")
	text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)
	on := func(run string, args ...string) {
		etcds := etcdtest.Start(t, 1, etcdtest.Options{})
		env := append(remote(t, etcds), "KINDWRIGHT_EXAMPLE_SERVER="+program, "KINDWRIGHT_ETCD="+strings.Join(etcds.Endpoints(), ","))
		suite(t, env, "interop", "("+run+")/examples-cluster", args...)
	}
	if *clients != "." {
		on(*clients)
		return
	}
	// Some tests compact, which is for an etcd as a whole. Those whose informers never start over have another one.
	const resumed = "SurviveRestarts"
	on(".", "-skip="+resumed)
	on(resumed)
}
