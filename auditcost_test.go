package kindwright_test

import (
	"path/filepath"
	"slices"
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

// auditPolicies are what BenchmarkAudit compares.
func auditPolicies() map[string]*audit.Policy {
	return map[string]*audit.Policy{
		"no": nil, "None": {Rules: []audit.Rule{{Level: audit.LevelNone}}},
		"Metadata": {OmitStages: []audit.Stage{audit.StageRequestReceived}, Rules: []audit.Rule{{Level: audit.LevelMetadata}}},
	}
}

// audited is a server with a policy, and a file that is written before a request ends.
func audited(b *testing.B, policy *audit.Policy) *kindwright.Server {
	b.Helper()
	opts := []kindwright.Option{kindwright.LogTo(logr.Discard())}
	if policy != nil {
		l, err := auditlog.Open(filepath.Join(b.TempDir(), "audit.json"), auditlog.Options{Mode: audit.ModeBlocking})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, l.Close()) })
		opts = append(opts, kindwright.Audit(*policy, l))
	}
	return benchServer(b, 1, opts...)
}

// sixteenAtOnce sends n gets, 16 at a time, and returns how much of the processors they took.
func sixteenAtOnce(b *testing.B, srv *kindwright.Server, n int) time.Duration {
	b.Helper()
	const writers = 16
	before := processorTime(b)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			r := request("GET", gadgetPath+"/g000000", "")
			r.Header.Set("User-Agent", "kubectl/v1.36.0 (linux/amd64) kubernetes/0000000")
			for i := w; i < n; i += writers {
				send(srv, r)
			}
		})
	}
	all.Wait()
	return processorTime(b) - before
}

// BenchmarkAudit is what one record costs a get, at 16 requests at a time and with a file that is
// written before the request ends: compare cpu-ns/op of the cases.
func BenchmarkAudit(b *testing.B) {
	for name, policy := range auditPolicies() {
		b.Run(name, func(b *testing.B) {
			srv := audited(b, policy)
			b.ReportAllocs()
			b.ResetTimer()
			b.ReportMetric(float64(sixteenAtOnce(b, srv, b.N))/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkAuditBeside is the same difference on a machine that has other work: short rounds of the cases
// take turns, so that all meet the same. It reports the median of what a policy adds to a get of the
// same turn.
func BenchmarkAuditBeside(b *testing.B) {
	const round = 1000
	servers := map[string]*kindwright.Server{}
	for name, policy := range auditPolicies() {
		servers[name] = audited(b, policy)
		sixteenAtOnce(b, servers[name], round)
	}
	names := []string{"no", "None", "Metadata"}
	added := map[string][]float64{}
	for turn := range max(b.N/round, 3) {
		took := map[string]time.Duration{}
		for i := range names { // whoever is first in a turn may pay for what the last one has left behind
			name := names[(turn+i)%len(names)]
			took[name] = sixteenAtOnce(b, servers[name], round)
		}
		for _, name := range names[1:] {
			added[name] = append(added[name], float64(took[name]-took["no"])/round)
		}
	}
	for name, all := range added {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], "added-cpu-ns-"+name+"/op")
	}
}
