// Command wholecluster runs Kubernetes' own controller manager and scheduler against the stand-in for
// kube-apiserver, with kwok in the place of kubelets. It creates workloads, waits until the cluster is
// as it should be, and counts every object. Then it changes workloads for a while and restarts one
// program after another, the server among them.
//
// The binaries are given by flags. The program needs no other machine, network or privilege.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// stages are what kwok does.
//
//go:embed stages.yaml
var stages string

// options are the flags.
type options struct {
	server, manager, scheduler, kwok string
	etcd                             string // of the original kube-apiserver

	nodes, pods int
	churn       time.Duration
	seed        uint64
	keep        string
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "the kube-apiserver: the stand-in, or another with its flags")
	flag.StringVar(&o.etcd, "etcd", "", "the binary of etcd: the server is the original kube-apiserver, which needs it")
	flag.StringVar(&o.manager, "kcm", "", "the binary of kube-controller-manager")
	flag.StringVar(&o.scheduler, "scheduler", "", "the binary of kube-scheduler")
	flag.StringVar(&o.kwok, "kwok", "", "the binary of kwok, which plays the kubelets")
	flag.IntVar(&o.nodes, "nodes", 20, "how many nodes there are")
	flag.IntVar(&o.pods, "pods", 1000, "how many pods the largest deployment has")
	flag.DurationVar(&o.churn, "churn", time.Minute, "how long workloads change while programs restart")
	flag.Uint64Var(&o.seed, "seed", 1, "chooses the changes")
	flag.StringVar(&o.keep, "logs", "", "a directory for logs and data, which is kept (default a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "wholecluster:", err)
		os.Exit(1)
	}
}

// check reports binaries that are not given or cannot be run.
func (o *options) check() error {
	var problems []error
	for _, b := range []struct {
		flag string
		path *string
		hint string
	}{
		{"server", &o.server, "build the stand-in with: make assets OUT=directory"},
		{"kcm", &o.manager, "KCM=path of kube-controller-manager 1.36"},
		{"scheduler", &o.scheduler, "SCHEDULER=path of kube-scheduler 1.36"},
		{"kwok", &o.kwok, "KWOK=path of kwok"},
		{"etcd", &o.etcd, ""},
	} {
		if *b.path == "" && b.hint == "" {
			continue // only the original has it
		}
		if *b.path == "" {
			problems = append(problems, fmt.Errorf("-%s is missing: %s", b.flag, b.hint))
			continue
		}
		found, err := exec.LookPath(*b.path)
		if err == nil {
			*b.path, err = filepath.Abs(found) // the programs run in another directory
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("-%s: %w", b.flag, err))
		}
	}
	if o.nodes < 1 || o.pods < 1 || o.pods > o.nodes*podsPerNode {
		problems = append(problems, fmt.Errorf("-pods %d do not fit on -nodes %d, which hold %d each", o.pods, o.nodes, podsPerNode))
	}
	return errors.Join(problems...)
}

// run runs the cluster and all steps.
func (o *options) run(ctx context.Context) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "wholecluster-*"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	c, err := o.cluster(ctx, dir)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.start(ctx); err != nil {
		return errors.Join(err, c.died())
	}
	for _, s := range append(c.steps(), step{"churn with restarts", func(ctx context.Context) error { return c.churn(ctx, o.churn, o.seed) }}) {
		began := time.Now()
		if err := s.run(ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.name, err), c.died())
		}
		fmt.Printf("%-40s %6.1f s\n", s.name, time.Since(began).Seconds())
	}
	if err := c.count(ctx); err != nil {
		return err
	}
	fmt.Printf("%.0f reads, %.0f writes, %.0f watches were answered\n", c.served.reads, c.served.writes, c.served.watches)
	for _, p := range c.programs {
		now, most := p.memory()
		fmt.Printf("%-40s %6.1f s of processor time, %d MiB of memory, at most %d MiB\n", p.name, p.processor().Seconds(), now, most)
	}
	return nil
}

// withEtcd returns the arguments of etcd, and those that the original kube-apiserver needs with it.
func withEtcd(ctx context.Context, dir string) (store, server []string, err error) {
	var urls [2]string
	for i := range urls {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		urls[i] = "http://" + listener.Addr().String()
		if err := listener.Close(); err != nil {
			return nil, nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "accounts.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, nil, err
	}
	store = []string{
		"--name=one", "--data-dir=" + filepath.Join(dir, "etcd"), "--listen-client-urls=" + urls[0], "--advertise-client-urls=" + urls[0],
		"--listen-peer-urls=" + urls[1], "--initial-advertise-peer-urls=" + urls[1], "--initial-cluster=one=" + urls[1], "--log-level=warn",
	}
	return store, []string{
		"--etcd-servers=" + urls[0], "--service-account-issuer=https://example.invalid", "--service-account-key-file=" + file,
		"--service-account-signing-key-file=" + file, "--service-cluster-ip-range=10.99.0.0/16", "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
	}, nil
}

// cluster describes the programs of a cluster.
func (o *options) cluster(ctx context.Context, dir string) (*cluster, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	if err := listener.Close(); err != nil {
		return nil, err
	}
	url := "https://127.0.0.1:" + strconv.Itoa(port)
	config := filepath.Join(dir, "kubeconfig")
	for name, text := range map[string]string{
		"stages.yaml": stages,
		"tokens.csv":  "secret,admin,1,\"system:masters\"\n",
		"kubeconfig": fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
			"users: [{name: u, user: {token: secret}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", url),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1})
	if err != nil {
		return nil, err
	}
	out := &cluster{client: client, nodes: o.nodes, pods: o.pods}
	add := func(name, path string, args ...string) {
		out.programs = append(out.programs, &program{name: name, path: path, args: args, dir: dir})
	}
	server := []string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--token-auth-file=" + filepath.Join(dir, "tokens.csv"),
		"--cert-dir=" + filepath.Join(dir, "certificates"), "--allow-privileged=true",
	}
	if o.etcd == "" {
		add(serverName, o.server, append(server, "--data-dir="+filepath.Join(dir, "data"))...)
	} else {
		store, args, err := withEtcd(ctx, dir)
		if err != nil {
			return nil, err
		}
		add("etcd", o.etcd, store...)
		add(serverName, o.server, append(server, args...)...)
	}
	add("kube-controller-manager", o.manager, "--kubeconfig="+config, "--leader-elect=false", "--use-service-account-credentials=false",
		"--node-monitor-grace-period=5m", "--resource-quota-sync-period=5s", "--kube-api-qps=500", "--kube-api-burst=500", "--secure-port=0")
	add("kube-scheduler", o.scheduler, "--kubeconfig="+config, "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=500", "--secure-port=0")
	add("kwok", o.kwok, "--kubeconfig="+config, "--config="+filepath.Join(dir, "stages.yaml"), "--manage-all-nodes=true", "--cidr=10.128.0.0/16", "--node-ip=10.127.0.1")
	return out, nil
}
