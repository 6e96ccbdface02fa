package main

import (
	"bytes"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test binary stand in for the programs that are measured, where it is called by their names.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		pretend("listen-client-urls", false)
	case "kube-apiserver":
		pretend("secure-port", true)
	default:
		os.Exit(m.Run())
	}
}

// pretend serves on the address that a flag names until the process is ended.
func pretend(address string, secure bool) {
	var where string
	for _, arg := range os.Args[1:] {
		if value, found := strings.CutPrefix(arg, "--"+address+"="); found {
			where = value
		}
	}
	if u, err := url.Parse(where); err == nil && u.Host != "" {
		where = u.Port()
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+where)
	if err != nil {
		os.Exit(3)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case secure && r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "", http.StatusUnauthorized)
		case r.URL.Path == "/openapi/v3":
			_, _ = io.WriteString(w, `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}}}`)
		case os.Getenv("MEASURE_TEST_BROKEN") == r.URL.Path:
			http.Error(w, "", http.StatusInternalServerError)
		}
	}))
	s.Listener = l
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	select {}
}

func assets(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	return dir
}

func TestMeasuresBothPrograms(t *testing.T) {
	var out, progress bytes.Buffer
	require.NoError(t, command(t.Context(), []string{"-n=1", "-idle=1ms", "-settle=1ms", "ours=" + assets(t)}, &out, &progress))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, `^\| ours \| \d+ ms \| \d+ ms \| [1-9]\d* MiB \| \d+ ms \| [1-9]\d* MiB \| [1-9]\d* MiB \|$`, lines[2])
	require.Contains(t, progress.String(), "ours 1/1: ")
}

func TestTellsWhatCannotBeMeasured(t *testing.T) {
	fails := func(args ...string) error { return command(t.Context(), args, io.Discard, io.Discard) }
	require.ErrorContains(t, fails(), "usage")
	require.ErrorContains(t, fails("-n=0", "a=b"), "usage")
	require.ErrorContains(t, fails("dir"), "want name=directory")
	require.ErrorIs(t, fails("-h"), flag.ErrHelp)
	require.ErrorIs(t, fails("a="+t.TempDir()), os.ErrNotExist)
	t.Setenv("MEASURE_TEST_BROKEN", "/openapi/v3/api/v1")
	require.ErrorContains(t, fails("-n=1", "-idle=1ms", "a="+assets(t)), "/openapi/v3/api/v1: 500")
}

func TestMedian(t *testing.T) {
	all := []result{{ready: 3, idle: 1}, {ready: 1, idle: 2}, {ready: 2, idle: 9}}
	require.Equal(t, result{ready: 2 * time.Nanosecond, idle: 2}, median(all))
}
