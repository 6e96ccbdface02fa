package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingBinariesAreNamed(t *testing.T) {
	o := options{nodes: 20, pods: 1000}
	err := o.check()
	for _, said := range []string{"-server is missing", "-kcm is missing: KCM=", "-scheduler is missing: SCHEDULER=", "-kwok is missing: KWOK="} {
		require.ErrorContains(t, err, said)
	}
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	o.server, o.manager, o.scheduler, o.kwok = file, file, file, "/no/such/file"
	err = o.check()
	require.Equal(t, 4, strings.Count(err.Error(), "\n")+1, "%v", err)
	require.ErrorContains(t, err, "-kwok: ")

	require.NoError(t, os.Chmod(file, 0o700)) //nolint:gosec // a program
	o.kwok = file
	require.NoError(t, o.check())
	o.pods = 2201
	require.ErrorContains(t, o.check(), "-nodes 20")
}

func TestAProgramThatEndsIsReported(t *testing.T) {
	dir := t.TempDir()
	p := &program{name: "false", path: "/bin/false", dir: dir}
	c := &cluster{programs: []*program{p}}
	require.NoError(t, p.start(t.Context()))
	require.NoError(t, <-waited(p, c), "the error of a program that has ended")
	c.stop()
	require.NoError(t, c.died())
	require.ErrorContains(t, (&program{name: "none", path: "/no/such/file", dir: dir}).start(t.Context()), "start none")
}

// waited waits until the end of a program is reported.
func waited(p *program, c *cluster) <-chan error {
	out := make(chan error, 1)
	go func() {
		err := <-p.ended
		p.ended <- err
		if c.died() == nil {
			out <- os.ErrInvalid
		}
		close(out)
	}()
	return out
}
