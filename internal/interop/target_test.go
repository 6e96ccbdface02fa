package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kindwright/kindwright/storage"
)

// waitLimit bounds every wait for something that happens at once on an idle machine.
const waitLimit = 60 * time.Second

// often is the interval between two checks of a condition.
const often = 10 * time.Millisecond

// programVariable in the environment names the binary of examples/server. Otherwise the tests build
// it.
const programVariable = "KINDWRIGHT_EXAMPLE_SERVER"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "interop-*")
	if err == nil {
		err = prepare(dir)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // a temporary directory
	os.Exit(code)
}

// prepare builds the server and sets up state that the clients' code keeps for a whole process.
func prepare(dir string) error {
	ctrl.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the other handler sleeps outside of the bubble's clock
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(exit{message, code}) })
	editor := filepath.Join(dir, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i.bak -e 's/^  size: .*/  size: 55/' -e 's/^  phase: .*/  phase: Edited/' \"$1\"\n"), 0o700); err != nil {
		return err
	}
	if err := os.Setenv("KUBE_EDITOR", editor); err != nil {
		return err
	}
	if os.Getenv(programVariable) != "" {
		return nil
	}
	program := filepath.Join(dir, "server")
	build := exec.Command("go", "build", "-o", program, "./examples/server")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build examples/server: %w\n%s", err, out)
	}
	return os.Setenv(programVariable, program)
}

// server is a running server, with what clients need to reach it. It sets no media types, so
// clients send their defaults. Its administrator is "admin", a member of system:masters. The bearer
// token "ann-token" belongs to ann, who has no permissions.
type server struct {
	*rest.Config // of the administrator
	*door
	life

	kubeconfig string // the path of a file

	// reach completes the configuration of a client that has read the kubeconfig.
	reach func(*rest.Config) *rest.Config
}

// life controls the life of a server.
type life interface {
	// stop stops the server gracefully and returns when it has ended.
	stop(t *testing.T)

	// start starts it again with the same address and the same objects.
	start(t *testing.T)

	// withStore calls f with the store of a server that is stopped.
	withStore(t *testing.T, f func(storage.Backend))
}

const tokens = "ann-token,ann,u-1,\n"

// forget makes the server lose its history, as if time had passed. The server is down during that
// time.
func (s *server) forget(t *testing.T) {
	t.Helper()
	s.stop(t)
	s.withStore(t, func(b storage.Backend) {
		head, err := b.Revision(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Compact(t.Context(), head))
	})
	s.start(t)
}

// targets are the kinds of servers under test.
func targets() map[string]func(*testing.T) *server {
	if os.Getenv(etcdVariable) != "" {
		return map[string]func(*testing.T) *server{"examples-cluster": serveProgram}
	}
	if *realKubectl != "" { // a separate kubectl: only the server sees its requests
		return map[string]func(*testing.T) *server{"apitest": serveInProcess}
	}
	return map[string]func(*testing.T) *server{"apitest": serveInProcess, "examples-server": serveProgram}
}

// each runs a test against every kind of server.
func each(t *testing.T, test func(t *testing.T, s *server)) {
	t.Parallel()
	for name, serve := range targets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, serve(t))
		})
	}
}
