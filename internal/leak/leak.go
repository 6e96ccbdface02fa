package leak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Goroutines is the set of goroutines that ran at one moment.
type Goroutines map[string]bool

// grace is how long a goroutine that is ending may take. Only a test that fails waits so long.
const grace = 2 * time.Second

// Running returns the goroutines that run now.
func Running() Goroutines {
	before := Goroutines{}
	for _, stack := range stacks() {
		before[number(stack)] = true
	}
	return before
}

// Check fails the test if goroutines run that are not in before. It waits for those that are about
// to end.
func (before Goroutines) Check(t testing.TB) {
	t.Helper()
	if left := before.left(); len(left) > 0 {
		t.Errorf("%d goroutines are left:\n\n%s", len(left), strings.Join(left, "\n\n"))
	}
}

// Main runs the tests of a package and exits. It fails when they pass but leave goroutines behind.
func Main(m *testing.M) {
	before := Running()
	code := m.Run()
	if left := before.left(); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines are left:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// left returns the stacks of the goroutines that are not in before and do not end soon.
func (before Goroutines) left() []string {
	pause := time.Millisecond
	for deadline := time.Now().Add(grace); ; pause = min(2*pause, 100*time.Millisecond) {
		left := slices.DeleteFunc(stacks(), func(stack string) bool {
			return before[number(stack)] || ofRuntime(stack)
		})
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

// ofRuntime reports whether a goroutine belongs to the runtime, os/signal or package testing, which
// start some on first use and never stop them.
func ofRuntime(stack string) bool {
	_, top, _ := strings.Cut(stack, "\n")
	return strings.HasPrefix(top, "testing.(*T).Run(") || strings.HasPrefix(top, "os/signal.") ||
		strings.Contains(stack, "\ncreated by os/signal.") || strings.Contains(stack, "\ncreated by runtime.")
}

// stacks returns the stack of each goroutine but the one that calls.
func stacks() []string {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			all := strings.Split(string(bytes.TrimSpace(buf[:n])), "\n\n")
			return all[1:] // the first is the caller's
		}
	}
}

// number returns N of a stack that begins with "goroutine N [state]:".
func number(stack string) string {
	n, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
	return n
}
