package leak

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that only notes that it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCheckFailsForAGoroutineThatIsLeft(t *testing.T) {
	before := Running()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); <-stop }()
	left := &recorder{TB: t}
	before.Check(left)
	require.True(t, left.failed)

	// One that is known, or that is about to end, is not reported.
	Running().Check(t)
	close(stop)
	before.Check(t)
	<-stopped
}
