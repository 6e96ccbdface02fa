package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// burn uses processor time until enough returns true.
func burn(enough func() bool) (x uint64) {
	for !enough() {
		for i := range uint64(1 << 16) {
			x = x*31 + i
		}
	}
	return x
}

func TestProcessorTimeGoesOnWithWork(t *testing.T) {
	self := Group{os.Getpid()}
	before, err := self.CPU()
	require.NoError(t, err)
	burn(func() bool {
		now, err := self.CPU()
		require.NoError(t, err)
		return now >= before+100*time.Millisecond // a stopped clock fails by the test's timeout
	})
	twice, err := Group{os.Getpid(), os.Getpid()}.CPU()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, twice, 2*before+200*time.Millisecond, "a group is the sum of its processes")
}

func TestResidentMemoryHoldsWhatIsTouched(t *testing.T) {
	self := Group{os.Getpid()}
	debug.FreeOSMemory() // otherwise memory of an earlier test would be reused
	before, err := self.Resident()
	require.NoError(t, err)
	held := make([]byte, 64<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	after, err := self.Resident()
	require.NoError(t, err)
	assert.Greater(t, after, before+32<<20)
	runtime.KeepAlive(held)
}

func TestMissingProcess(t *testing.T) {
	const missing = 1<<22 + 1 // above every pid on Linux
	for name, of := range map[string]func(Group) error{
		"CPU":      func(g Group) error { _, err := g.CPU(); return err },
		"Resident": func(g Group) error { _, err := g.Resident(); return err },
		"Mapped":   func(g Group) error { _, err := g.Mapped(); return err },
		"Peak":     func(g Group) error { _, err := g.Peak(); return err },
		"Reset":    Group.ResetPeak,
	} {
		require.Error(t, of(Group{missing}), name)
		require.NoError(t, of(nil), name)
	}
}

func TestParseGroup(t *testing.T) {
	g, err := ParseGroup("12, 7,")
	require.NoError(t, err)
	assert.Equal(t, Group{12, 7}, g)
	g, err = ParseGroup("")
	require.NoError(t, err)
	assert.Empty(t, g)
	for _, bad := range []string{"x", "1;2", "-4", "0"} {
		_, err := ParseGroup(bad)
		require.ErrorContains(t, err, "process id", bad)
	}
}

func TestProcessorTimeAsPsWritesIt(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0:00.12":       120 * time.Millisecond,
		"  1:02.50\n":   62500 * time.Millisecond,
		"01:00:01":      time.Hour + time.Second,
		"2-01:00:00":    49 * time.Hour,
		"1000:00.00":    1000 * time.Minute,
		"1-00:00:00.50": 24*time.Hour + 500*time.Millisecond,
	} {
		got, err := parseElapsed(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, bad := range []string{"", "x", "1:x", "x-1:00"} {
		_, err := parseElapsed(bad)
		require.Error(t, err, bad)
	}
}

func TestMachineIsOneLine(t *testing.T) {
	m := ThisMachine()
	assert.Equal(t, runtime.NumCPU(), m.Cores)
	line := m.String()
	assert.Contains(t, line, m.Go)
	assert.NotContains(t, line, "\n")
	assert.Equal(t, "2 cores, plan9/mips, go1", Machine{System: "plan9/mips", Cores: 2, Go: "go1"}.String())
}

func TestField(t *testing.T) {
	assert.Equal(t, "b c", field("x: y\na  : b c\n", "a"))
	assert.Empty(t, field("x: y\n", "a"))
	assert.Empty(t, text(strings.Repeat("/no", 3)))
}
