package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The clock of a process is not documented for processes that are not children; /proc is.
func TestClockAgreesWithProc(t *testing.T) {
	pid := os.Getpid()
	read := func(of func(int) (time.Duration, error)) time.Duration {
		d, err := of(pid)
		require.NoError(t, err)
		return d
	}
	start := read(accounted)
	burn(func() bool { return read(accounted) >= start+100*time.Millisecond })
	before := read(accounted)
	clock := read(cpu)
	after := read(accounted)
	assert.GreaterOrEqual(t, clock+2*tick, before)
	assert.LessOrEqual(t, clock, after+2*tick)
}

func TestPeakOutlivesTheMemoryUntilItIsReset(t *testing.T) {
	self := Group{os.Getpid()}
	debug.FreeOSMemory() // otherwise memory of an earlier test would be reused
	idle, err := self.Resident()
	require.NoError(t, err)
	held := make([]byte, 64<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	high, err := self.Peak()
	require.NoError(t, err)
	assert.Greater(t, high, idle+32<<20)
	require.NoError(t, self.ResetPeak())
	now, err := self.Resident()
	require.NoError(t, err)
	low, err := self.Peak()
	require.NoError(t, err)
	assert.InDelta(t, now, low, 16<<20, "the peak begins anew where the process stands")
	runtime.KeepAlive(held)
}

func TestMappedFilesAreTheProgramAtLeast(t *testing.T) {
	self := Group{os.Getpid()}
	n, err := self.Mapped()
	require.NoError(t, err)
	assert.Greater(t, n, int64(1<<20), "the code that runs comes from a file")
	all, err := self.Resident()
	require.NoError(t, err)
	assert.Less(t, n, all)
}
