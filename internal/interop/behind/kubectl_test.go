package behind

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
)

func tlsOf(pool *x509.CertPool, certs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12}
}

// exit is kubectl's exit after an error.
type exit struct {
	message string
	code    int
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// kubectl runs kubectl's own code in this process.
type kubectl struct {
	t          testing.TB
	kubeconfig string
	cache      string
}

func (h *host) kubectl() *kubectl {
	return &kubectl{h.t, h.kubeconfig, h.t.TempDir()}
}

// start runs kubectl and returns its exit code. An argument - stands for a file with the input: the
// code of kubectl would read that of the test.
func (k *kubectl) start(in string, out io.Writer, args ...string) (code int) {
	if in != "" {
		file := filepath.Join(k.t.TempDir(), "in.yaml")
		require.NoError(k.t, os.WriteFile(file, []byte(in), 0o600))
		for i := range args {
			if args[i] == "-" {
				args[i] = file
			}
		}
	}
	defer func() {
		if e, ok := recover().(exit); ok {
			_, _ = fmt.Fprintln(out, e.message)
			code = e.code
		}
	}()
	command := kubectlcmd.NewKubectlCommand(kubectlcmd.KubectlOptions{
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50),
		IOStreams:   genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
	})
	command.SetArgs(append([]string{"--kubeconfig", k.kubeconfig, "--cache-dir", filepath.Join(k.cache, "cache")}, args...))
	command.SetOut(out)
	command.SetErr(out)
	if err := command.ExecuteContext(k.t.Context()); err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	return 0
}

// pipe runs kubectl with an input. It must succeed.
func (k *kubectl) pipe(in string, args ...string) string {
	k.t.Helper()
	var out buffer
	require.Zero(k.t, k.start(in, &out, args...), "kubectl %s:\n%s", strings.Join(args, " "), out.String())
	return out.String()
}

// run runs kubectl, which must succeed and print lines that match regular expressions.
func (k *kubectl) run(command string, lines ...string) string {
	k.t.Helper()
	out := k.pipe("", strings.Fields(command)...)
	for _, line := range lines {
		require.Regexp(k.t, "(?m)"+line, out)
	}
	return out
}

// fails runs kubectl, which must fail with a matching error.
func (k *kubectl) fails(command string, lines ...string) {
	k.t.Helper()
	var out buffer
	require.NotZero(k.t, k.start("", &out, strings.Fields(command)...), "kubectl %s:\n%s", command, out.String())
	for _, line := range lines {
		require.Regexp(k.t, "(?m)"+line, out.String())
	}
}
