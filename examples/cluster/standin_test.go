package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// spoken finds the address in what the stand-in prints.
var spoken = regexp.MustCompile(`serving on (https://[0-9.:]+), data in (\S+)`)

// listening reads what a program prints and gives the address to found, once.
type listening struct {
	mu    sync.Mutex
	text  strings.Builder
	found chan string
	told  bool
}

func (l *listening) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	if m := spoken.FindStringSubmatch(l.text.String()); m != nil && !l.told {
		l.told = true
		l.found <- m[1]
	}
	return len(b), nil
}

// The stand-in for kube-apiserver takes a real etcd where the original does, and several of them are
// one API.
func TestStandInsOnEtcd(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kube-apiserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./kube-apiserver")
	build.Dir = filepath.Join("..", "kube")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	etcds := etcdtest.Start(t, 1, etcdtest.Options{})
	tokens := filepath.Join(dir, "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte(credentials), 0o600))
	var servers []*running
	for i := range 2 {
		out := &listening{found: make(chan string, 1)}
		cmd := exec.CommandContext(t.Context(), program, "--secure-port=0", "--bind-address=127.0.0.1", "--token-auth-file="+tokens,
			"--etcd-servers="+strings.Join(etcds.Endpoints(), ","), fmt.Sprintf("--cert-dir=%s/%d", dir, i))
		cmd.Stdout, cmd.Stderr = io.Discard, out
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			t.Log(<-ended)
		})
		select {
		case url := <-out.found:
			servers = append(servers, &running{t: t, url: url})
		case err := <-ended:
			ended <- err
			require.FailNow(t, "the stand-in did not start", "%s", out.text.String())
		}
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	code, made := servers[0].do("POST", maps, `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, "%v", made)
	code, found := servers[1].do("GET", maps+"/a", "")
	require.Equal(t, 200, code)
	require.Equal(t, made["metadata"], found["metadata"])
}
