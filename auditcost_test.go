package kindwright_test

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	auditlog "github.com/kindwright/kindwright/audit/log"
)

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAudit is what one record costs a get, at 16 requests at a time and with a file that is
// written before the request ends: compare cpu-ns/op of the cases.
func BenchmarkAudit(b *testing.B) {
	for name, policy := range map[string]*audit.Policy{
		"no": nil, "None": {Rules: []audit.Rule{{Level: audit.LevelNone}}},
		"Metadata": {OmitStages: []audit.Stage{audit.StageRequestReceived}, Rules: []audit.Rule{{Level: audit.LevelMetadata}}},
	} {
		b.Run(name, func(b *testing.B) {
			opts := []kindwright.Option{kindwright.LogTo(logr.Discard())}
			if policy != nil {
				l, err := auditlog.Open(filepath.Join(b.TempDir(), "audit.json"), auditlog.Options{Mode: audit.ModeBlocking})
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, l.Close()) })
				opts = append(opts, kindwright.Audit(*policy, l))
			}
			srv := benchServer(b, 1, opts...)
			const writers = 16
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					r := request("GET", gadgetPath+"/g000000", "")
					r.Header.Set("User-Agent", "kubectl/v1.36.0 (linux/amd64) kubernetes/0000000")
					for i := w; i < b.N; i += writers {
						send(srv, r)
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
