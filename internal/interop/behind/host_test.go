package behind

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

var (
	peers     = flag.String("peers", "", "a directory with kube-apiserver and etcd: the host is that kube-apiserver; or "+standIn+"; without it, nothing runs")
	rotations = flag.Int("rotations", 1, "how often each certificate, authority and token is exchanged under load")
	away      = flag.Duration("away", 12*time.Second, "how long the host does not answer")
)

// standIn as the value of -peers lets the stand-in of examples/kube be the host.
const standIn = "stand-in"

// waitLimit bounds every wait for something that happens soon on an idle machine.
const waitLimit = 2 * time.Minute

// often is the pause between two looks.
const often = 50 * time.Millisecond

// programs is the directory with what TestMain builds.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	if *peers == "" {
		return // a host is another program, which takes a while to build or is not there
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the other one sleeps
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(exit{message, code}) })
	dir, err := os.MkdirTemp("", "behind-*")
	if err == nil {
		programs, err = dir, build(dir)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // a temporary directory
	os.Exit(code)
}

func build(dir string) error {
	top := filepath.Join("..", "..", "..")
	builds := map[string]string{"./examples/extension": top}
	if *peers == standIn {
		builds["./kube-apiserver"] = filepath.Join(top, "examples", "kube")
	}
	for path, module := range builds {
		command := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(path)), path)
		command.Dir = module
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", path, err, out)
		}
	}
	return nil
}

// process is a program that runs for a test.
type process struct {
	*exec.Cmd
	out   *tail
	ended chan struct{} // closed when it has ended
}

// tail keeps the last lines that a program prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 64 << 10

// Write implements io.Writer.
func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-tailBytes):]
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func launch(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(program, args...), out: &tail{}, ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.out, p.out
	require.NoError(t, p.Start())
	go func() {
		defer close(p.ended)
		_ = p.Wait() // it is killed
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last of what %s said:\n%s", filepath.Base(program), p.out.String()[max(0, len(p.out.String())-4096):])
		}
	})
	return p
}

// kill ends the program at once.
func (p *process) kill() {
	_ = p.Process.Signal(syscall.SIGCONT) // it may have ended
	_ = p.Process.Kill()
	<-p.ended
}

// host is a server with an aggregator.
type host struct {
	t                         testing.TB
	dir, address, url         string
	serving, clients, proxies *selfsigned.Authority
	server                    *process
	program                   string
	args                      []string
	admin                     *rest.Config
	kubeconfig                string // of the administrator
}

func authority(t testing.TB, name string) *selfsigned.Authority {
	t.Helper()
	a, err := selfsigned.NewAuthority(name)
	require.NoError(t, err)
	return a
}

// freeAddress returns a loopback address that nobody listens at.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// path is that of a file of the host.
func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

// write replaces a file in one step, as those do that renew certificates.
func (h *host) write(name string, content []byte) string {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(h.path(name+".new"), content, 0o600))
	require.NoError(h.t, os.Rename(h.path(name+".new"), h.path(name)))
	return h.path(name)
}

func (h *host) writePair(name string, p selfsigned.Pair, err error) {
	h.t.Helper()
	require.NoError(h.t, err)
	h.write(name+".key", p.Key)
	h.write(name+".crt", p.Cert)
}

// The tokens of the host. root may do everything, ann nothing.
const tokens = "root-token,root,root-uid,system:masters\nann-token,ann,ann-uid,\"devs,ops\"\ncap-token,cap,cap-uid,captains\n"

// newHost starts a host.
func newHost(t testing.TB, more ...string) *host {
	t.Helper()
	h := &host{
		t: t, dir: t.TempDir(), serving: authority(t, "serving"), clients: authority(t, "clients"), proxies: authority(t, "proxies"),
		address: freeAddress(t),
	}
	h.url = "https://" + h.address
	p, err := h.serving.Serving("127.0.0.1")
	h.writePair("serving", p, err)
	p, err = h.proxies.Client("front")
	h.writePair("proxy", p, err)
	h.write("proxies.pem", h.proxies.PEM())
	h.write("host-ca.pem", h.serving.PEM())
	h.write("tokens.csv", []byte(tokens))
	h.writeAccountKeys()
	_, port, err := net.SplitHostPort(h.address)
	require.NoError(t, err)
	h.args = append([]string{
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--authorization-mode=RBAC", "--token-auth-file=" + h.path("tokens.csv"),
		"--tls-cert-file=" + h.path("serving.crt"), "--tls-private-key-file=" + h.path("serving.key"),
		"--client-ca-file=" + h.write("clients.pem", h.clients.PEM()),
		"--service-account-issuer=https://host.invalid", "--service-account-key-file=" + h.path("account.pub"),
		"--service-account-signing-key-file=" + h.path("account.key"), "--service-cluster-ip-range=10.99.0.0/24",
		"--requestheader-client-ca-file=" + h.path("proxies.pem"), "--requestheader-allowed-names=front",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + h.path("proxy.crt"), "--proxy-client-key-file=" + h.path("proxy.key"),
		"--enable-aggregator-routing=false",
	}, more...)
	if *peers == standIn {
		h.program = filepath.Join(programs, "kube-apiserver")
		h.args = append(h.args, "--data-dir="+h.path("data"), "--aggregator-allow-loopback")
	} else {
		h.program = filepath.Join(*peers, "kube-apiserver")
		h.args = append(h.args, "--etcd-servers=http://"+h.startEtcd(), "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--disable-admission-plugins=ServiceAccount")
	}
	h.kubeconfig = h.connection("root.kubeconfig", "root-token")
	h.admin, err = clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	require.NoError(t, err)
	h.admin.QPS = -1
	h.start()
	return h
}

func (h *host) startEtcd() (client string) {
	h.t.Helper()
	client, peer := freeAddress(h.t), freeAddress(h.t)
	launch(h.t, filepath.Join(*peers, "etcd"), "--name=a", "--data-dir="+h.path("etcd"), "--log-level=error",
		"--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=a=http://"+peer)
	return client
}

// start starts the host and waits until it is ready.
func (h *host) start() {
	h.t.Helper()
	h.server = launch(h.t, h.program, h.args...)
	require.Eventually(h.t, func() bool {
		select {
		case <-h.server.ended:
			require.FailNow(h.t, "the host has ended", h.server.out.String())
		default:
		}
		code, _ := h.do("root-token", http.MethodGet, "/readyz", "")
		return code == http.StatusOK
	}, waitLimit, often)
}

// writeAccountKeys makes the keys that sign the tokens of service accounts.
func (h *host) writeAccountKeys() {
	h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(h.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(h.t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(h.t, err)
	h.write("account.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	h.write("account.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}

// connection writes a kubeconfig whose token and authority are in files of their own.
func (h *host) connection(name, token string) string {
	h.t.Helper()
	file := h.write(name+".token", []byte(token))
	return h.write(name, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: host
contexts: [{name: host, context: {cluster: host, user: me, namespace: default}}]
clusters: [{name: host, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: me, user: {tokenFile: %q}}]
`, h.url, h.path("host-ca.pem"), file))
}

// client is an HTTP client that trusts the host's authority of now.
func (h *host) client() *http.Client {
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(h.path("host-ca.pem"))
	require.NoError(h.t, err)
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tlsOf(pool), DisableKeepAlives: true}, Timeout: time.Minute}
}

// do sends a request to the host with a token, and header fields.
func (h *host) do(token, method, path, body string, fields ...string) (int, string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, h.url+path, bytes.NewReader([]byte(body)))
	require.NoError(h.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "Content-Type" {
			r.Header.Del(fields[i]) // a request has one
		}
		r.Header.Add(fields[i], fields[i+1])
	}
	res, err := h.client().Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(text)
}

// must sends a request as root, which must succeed.
func (h *host) must(method, path, body string, fields ...string) string {
	h.t.Helper()
	code, text := h.do("root-token", method, path, body, fields...)
	require.Less(h.t, code, 300, text)
	require.NotZero(h.t, code, text)
	return text
}
