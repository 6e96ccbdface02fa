package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = time.Minute      // for a program to answer
	stopTimeout  = 30 * time.Second // for a program to end
)

// run starts both programs of a directory once.
func run(ctx context.Context, assets string, idle, settle time.Duration) (r result, err error) {
	dir, err := os.MkdirTemp("", "measure-*")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := files(dir); err != nil {
		return r, err
	}
	ports, err := freePorts(ctx)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	etcdURL := "http://127.0.0.1:" + ports[0]
	etcd, err := start(ctx, dir, filepath.Join(assets, "etcd"), "--advertise-client-urls="+etcdURL,
		"--data-dir="+filepath.Join(dir, "etcd"),
		"--listen-client-urls="+etcdURL, "--listen-peer-urls=http://127.0.0.1:"+ports[1], "--unsafe-no-fsync=true")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, etcd.stop()) }()
	if err := await(ctx, &client{url: etcdURL}, "/health"); err != nil {
		return r, err
	}
	began := time.Now()
	server, err := start(ctx, dir, filepath.Join(assets, "kube-apiserver"), "--advertise-address=127.0.0.1",
		"--allow-privileged=true", "--authorization-mode=RBAC",
		"--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(dir, "certificates"), "--disable-admission-plugins=ServiceAccount", "--etcd-servers="+etcdURL,
		"--secure-port="+ports[2], "--service-account-issuer=https://127.0.0.1:"+ports[2]+"/", "--service-account-key-file="+filepath.Join(dir, "key.pem"),
		"--service-account-signing-key-file="+filepath.Join(dir, "key.pem"), "--service-cluster-ip-range=10.0.0.0/24", "--token-auth-file="+filepath.Join(dir, "tokens.csv"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	c := &client{url: "https://127.0.0.1:" + ports[2], http: http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}} //nolint:gosec // a server that was just started, with a certificate it made itself
	defer c.http.CloseIdleConnections()
	if err := await(ctx, c, "/readyz"); err != nil {
		return r, err
	}
	r.ready, r.both = time.Since(began), time.Since(begin)
	return r, measure(ctx, c, []*process{etcd, server}, idle, settle, &r)
}

// measure measures servers that are ready.
func measure(ctx context.Context, c *client, programs []*process, idle, settle time.Duration, r *result) error {
	for _, step := range []struct {
		wait   time.Duration
		memory *int64
	}{{idle, &r.idle}, {0, &r.read}, {settle, &r.settled}} {
		if step.memory == &r.read {
			began := time.Now()
			if err := readAll(ctx, c); err != nil {
				return err
			}
			r.documents = time.Since(began)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step.wait):
		}
		for _, p := range programs {
			n, err := resident(p.command.Process.Pid)
			if err != nil {
				return err
			}
			*step.memory += n
		}
	}
	return nil
}

// files writes the key of service accounts and the token of an administrator.
func files(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "key.pem"), text, 0o600),
		os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600),
	)
}

// freePorts returns three ports that are free now.
func freePorts(ctx context.Context) (out [3]string, err error) {
	for i := range out {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return out, err
		}
		defer func() { _ = l.Close() }() // there are no connections yet
		_, out[i], _ = net.SplitHostPort(l.Addr().String())
	}
	return out, nil
}

// A process is a running program.
type process struct{ command *exec.Cmd }

// start runs a program with its output in a file of the directory.
func start(ctx context.Context, dir, path string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the program has its own
	p := &process{command: exec.CommandContext(ctx, path, args...)}
	p.command.Stdout, p.command.Stderr = log, log
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.WaitDelay = stopTimeout
	return p, p.command.Start()
}

// stop ends the program as envtest does.
func (p *process) stop() error {
	kill := time.AfterFunc(stopTimeout, func() { _ = p.command.Process.Kill() }) // Wait reports it
	defer kill.Stop()
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	var exit *exec.ExitError
	if err := p.command.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// resident returns a program's memory in bytes.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory: it has ended", pid)
}

// token is the bearer token of an administrator.
const token = "measure"

// A client sends requests to one server.
type client struct {
	url  string
	http http.Client
}

// get returns the body of a 200 response.
func (c *client) get(ctx context.Context, path, accept string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", accept)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it is read
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return body, err
}

// await repeats a request until the response is 200.
func await(ctx context.Context, c *client, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := c.get(ctx, path, "*/*")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// readAll reads discovery and both versions of OpenAPI: everything that a client reads at startup,
// and more.
func readAll(ctx context.Context, c *client) error {
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, d := range [][2]string{{"/api", aggregated}, {"/apis", aggregated}, {"/openapi/v2", "application/json"}, {"/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}} {
		if _, err := c.get(ctx, d[0], d[1]); err != nil {
			return err
		}
	}
	index, err := c.get(ctx, "/openapi/v3", "application/json")
	if err != nil {
		return err
	}
	var told struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(index, &told); err != nil {
		return err
	}
	for _, p := range told.Paths {
		if _, err := c.get(ctx, p.ServerRelativeURL, "application/json"); err != nil {
			return err
		}
	}
	return nil
}
