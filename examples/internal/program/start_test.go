package program

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// programVariable names a server binary that BenchmarkStart starts instead of the test binary; see
// scripts/measure.sh.
const programVariable = "KINDWRIGHT_SERVER"

// idleFor is how long a server is idle before its memory is measured.
const idleFor = 5 * time.Second

// fill makes a data directory with a number of stored widgets of 1 KiB.
func fill(b *testing.B, objects int) string {
	b.Helper()
	dir := b.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, dataFile))
	require.NoError(b, err)
	srv, err := kindwright.New(db, kindwright.Serve(append(definitions(), kinds.ControlPlane())...))
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	require.NoError(b, srv.Start(ctx))
	target := registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}, Namespace: "default"}
	next := make(chan int)
	var writers sync.WaitGroup
	for range 256 { // they share syncs
		writers.Go(func() {
			for i := range next {
				body := fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"widget-%06d"},"spec":{"size":7,"notes":{"text":%q}}}`,
					i, strings.Repeat("x", 740))
				if _, err := srv.Engine().Create(ctx, target, []byte(body), registry.WriteOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	writers.Wait()
	cancel()
	srv.Wait()
	require.NoError(b, db.Close())
	return dir
}

// resident returns the memory of a process in MiB.
func resident(b *testing.B, p *process) float64 {
	b.Helper()
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(p.cmd.Process.Pid)).Output()
	require.NoError(b, err)
	kib, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	require.NoError(b, err)
	return kib / 1024
}

// BenchmarkStart measures the time from exec until the server serves, and its memory then.
func BenchmarkStart(b *testing.B) {
	program := os.Getenv(programVariable)
	if program == "" {
		self, err := os.Executable()
		require.NoError(b, err)
		program = self
	}
	for _, objects := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			dir := fill(b, objects)
			first := launchProgram(b, program, "--data-dir="+dir, "--listen=127.0.0.1:0") // makes the certificates
			first.serving(b)
			require.Equal(b, 0, first.interrupt(b))
			for b.Loop() {
				p := launchProgram(b, program, "--data-dir="+dir, "--listen=127.0.0.1:0")
				p.serving(b)
				b.StopTimer()
				require.Equal(b, http.StatusOK, anonymous(b, filepath.Join(dir, "kubeconfig")).do(b, "GET", "/readyz", "").code)
				b.ReportMetric(resident(b, p), "ready-MiB")
				time.Sleep(idleFor)
				b.ReportMetric(resident(b, p), "idle-MiB")
				p.kill()
				b.StartTimer()
			}
			info, err := os.Stat(filepath.Join(dir, dataFile))
			require.NoError(b, err)
			b.ReportMetric(float64(info.Size())/(1<<20), "file-MiB")
		})
	}
}
