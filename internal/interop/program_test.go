package interop

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// etcdVariable in the environment has the endpoints of an etcd. The binary of programVariable is that of
// examples/cluster then, and remoteVariable the unix socket of internal/remotestore on the same etcd,
// because storage/etcd cannot be linked here.
const (
	etcdVariable   = "KINDWRIGHT_ETCD"
	remoteVariable = "KINDWRIGHT_REMOTE"
)

// program is examples/server in a separate process, on bbolt, or examples/cluster on etcd.
type program struct {
	name        string // of the store on etcd
	dir, tokens string
	address     string // clients reconnect to the same port
	process     *exec.Cmd
	ended       chan struct{} // closed when the process is gone
	out         *buffer
	refused     atomic.Int64 // connections
}

func serveProgram(t *testing.T) *server {
	t.Helper()
	p := &program{name: rand.Text(), dir: filepath.Join(t.TempDir(), "data"), address: "127.0.0.1:0"}
	p.tokens = writeFile(t, t.TempDir(), "tokens.csv", tokens)
	p.start(t)
	t.Cleanup(p.kill)
	s := &server{door: &door{}, life: p, kubeconfig: filepath.Join(p.dir, "kubeconfig")}
	cfg, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	cfg.QPS, cfg.Dial = -1, p.dial
	s.reach = func(c *rest.Config) *rest.Config {
		c.Wrap(s.wrap)
		return c
	}
	s.Config = s.reach(cfg)
	at, err := url.Parse(cfg.Host)
	require.NoError(t, err)
	p.address = at.Host
	return s
}

// refusals is the number of refused connections after which further ones wait for the server.
// client-go doubles its delay after each refusal, up to half a minute, until there was none for two
// minutes. Only a test restarts a server 20 times within a minute, on a machine so busy that a
// restart takes a second.
const refusals = 10

// dial connects to the server.
func (p *program) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		connection, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil || p.refused.Add(1) <= refusals {
			return connection, err
		}
		select {
		case <-time.After(often):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// start starts the process and returns when it serves.
func (p *program) start(t *testing.T) {
	t.Helper()
	p.out, p.ended = &buffer{}, make(chan struct{})
	args := []string{"--listen=" + p.address, "--data-dir=" + p.dir, "--token-auth-file=" + p.tokens, "--authorization-mode=AlwaysDeny"}
	if etcd := os.Getenv(etcdVariable); etcd != "" {
		args = append(args, "--etcd-servers="+etcd, "--etcd-prefix=/"+p.name)
	}
	p.process = exec.Command(os.Getenv(programVariable), args...)
	p.process.Stdout, p.process.Stderr = p.out, p.out
	require.NoError(t, p.process.Start())
	go func(process *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = process.Wait() // ProcessState holds the result
	}(p.process, p.ended)
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "Serving on https://") || p.gone() }, waitLimit, often)
	require.False(t, p.gone(), "the server ended:\n%s", p.out)
}

func (p *program) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *program) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.process.Process.Signal(syscall.SIGTERM))
	<-p.ended
	require.Zero(t, p.process.ProcessState.ExitCode(), "the server ended badly:\n%s", p.out)
}

// kill ends the process in any state. It may have ended already.
func (p *program) kill() {
	_ = p.process.Process.Kill()
	<-p.ended
}

func (p *program) withStore(t *testing.T, f func(storage.Backend)) {
	t.Helper()
	db, err := p.open(t.Context())
	require.NoError(t, err)
	f(db)
	require.NoError(t, db.Close())
}

// open opens the store of a server that is stopped.
func (p *program) open(ctx context.Context) (storage.Backend, error) {
	if os.Getenv(etcdVariable) != "" {
		return remotestore.Open(ctx, "unix", os.Getenv(remoteVariable), p.name)
	}
	return bbolt.Open(filepath.Join(p.dir, "kindwright.db"))
}
