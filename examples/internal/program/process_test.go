package program

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is a server in a separate process, which can be killed.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer // the process ends when this is closed, even by our own death
	out    *printed
	errOut *printed
	ended  chan struct{}
}

// launch starts this test binary as the server and does not wait until it serves. The process does not outlive the test.
func launch(t testing.TB, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return launchProgram(t, self, args...)
}

func launchProgram(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), out: newPrinted(), errOut: newPrinted(), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asServer+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errOut
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState holds the result
	}()
	t.Cleanup(p.kill)
	return p
}

// serving waits until the server has announced itself.
func (p *process) serving(t testing.TB) {
	t.Helper()
	select {
	case <-p.out.announced:
	case <-p.ended:
		require.FailNow(t, "the server did not start", "%s\n%s%s", p.cmd.ProcessState, p.out, p.errOut)
	}
}

// kill ends the process like kill -9, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// interrupt asks the server to stop, and returns its exit code.
func (p *process) interrupt(t testing.TB) int {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}
