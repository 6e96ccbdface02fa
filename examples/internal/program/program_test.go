package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/leak"
)

// asServer in the environment makes the test binary act as the server. Tests that kill the server
// need a separate process.
const asServer = "KINDWRIGHT_TEST_AS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		os.Exit(beServer())
	}
	leak.Main(m)
}

// beServer runs the server with the arguments of this process. The parent process holds the other
// end of its standard input. When the parent is gone, so is the server.
func beServer() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitFailure)
	}()
	return command(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// command runs the program with the store of a single server.
func command(ctx context.Context, args []string, out, errOut io.Writer) int {
	return Run(ctx, args, out, errOut, &Files{})
}

// announcement ends the output of a server that has started to serve.
const announcement = "api-resources\n\n"

// printed collects a server's output and reports when the server has announced itself.
type printed struct {
	mu        sync.Mutex
	text      bytes.Buffer
	announced chan struct{}
	closed    bool
}

func newPrinted() *printed { return &printed{announced: make(chan struct{})} }

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b)
	if !p.closed && strings.HasSuffix(p.text.String(), announcement) {
		p.closed = true
		close(p.announced)
	}
	return len(b), nil
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// server is a server that runs in this process.
type server struct {
	dir        string // its data directory
	kubeconfig string // the file it announced
	out        *printed
	errOut     *printed
	cancel     context.CancelFunc
	ended      chan struct{}
	code       int // once ended
}

// serveIn runs a server on a data directory and a free port, and waits until it serves. The server
// stops with the test.
func serveIn(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s := &server{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), out: newPrinted(), errOut: newPrinted(), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.ended)
		s.code = command(ctx, append([]string{"--listen=127.0.0.1:0", "--data-dir=" + dir}, args...), s.out, s.errOut)
	}()
	t.Cleanup(func() { s.stop() })
	select {
	case <-s.out.announced:
	case <-s.ended:
		require.FailNow(t, "the server did not start", "code %d\n%s%s", s.code, s.out, s.errOut)
	}
	return s
}

// stop interrupts the server and returns its exit code.
func (s *server) stop() int {
	s.cancel()
	<-s.ended
	return s.code
}

// refusal is the end of a server that does not start.
type refusal struct {
	code        int
	out, errOut string
}

// refused runs a server that is expected to end by itself.
func refused(t *testing.T, args ...string) refusal {
	t.Helper()
	out, errOut := newPrinted(), newPrinted()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-out.announced:
			cancel() // otherwise the test would wait forever
		case <-ctx.Done():
		}
	}()
	code := command(ctx, args, out, errOut)
	return refusal{code, out.String(), errOut.String()}
}

// freeAddress returns an address that was free a moment ago. It is below the ports that systems use
// for outgoing connections, so none of those takes it while a server restarts.
func freeAddress(t *testing.T) string {
	t.Helper()
	for port := 20000 + os.Getpid()%10000; port < 32000; port++ {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

// tree returns every file and directory below dir, with its permissions and a digest of its
// contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%d bytes %x", len(data), sha256.Sum256(data))
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Mode().String() + " " + content
		return err
	}))
	return found
}

// writeTo writes a file below a temporary directory of the test and returns its path.
func writeTo(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
