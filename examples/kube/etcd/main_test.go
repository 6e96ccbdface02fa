package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// output collects what the program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var address = regexp.MustCompile(`standing in on (http://\S+),`)

func TestItIsHealthyAndTellsWhereTheDataIs(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	log, ended := &output{}, make(chan int, 1)
	go func() {
		ended <- command(ctx, []string{
			"--listen-peer-urls=http://127.0.0.1:0", "--data-dir=" + dir, "--advertise-client-urls=http://127.0.0.1:0", "--listen-client-urls=http://127.0.0.1:0", "--unsafe-no-fsync=true",
		}, io.Discard, log)
	}()
	require.Eventually(t, func() bool { return address.MatchString(log.String()) || len(ended) > 0 }, time.Minute, time.Millisecond)
	url := address.FindStringSubmatch(log.String())[1]
	ask := func(path string) (int, map[string]any) {
		answer, err := http.Get(url + path)
		require.NoError(t, err)
		defer func() { require.NoError(t, answer.Body.Close()) }()
		out := map[string]any{}
		_ = json.NewDecoder(answer.Body).Decode(&out) // what is not found is plain text
		return answer.StatusCode, out
	}
	code, health := ask("/health")
	require.Equal(t, 200, code)
	require.Equal(t, "true", health["health"])
	_, told := ask("/kindwright")
	require.Equal(t, dir, told["dataDir"])
	code, _ = ask("/v3/kv/range")
	require.Equal(t, http.StatusNotImplemented, code)
	cancel()
	require.Zero(t, <-ended)
}

func TestHelpAndRefusals(t *testing.T) {
	out := &output{}
	require.Zero(t, command(t.Context(), []string{"--help"}, out, io.Discard))
	require.Regexp(t, `(?m)^\s*--unsafe-no-fsync\b`, out.String())
	for flag, args := range map[string][]string{
		"--no-such-flag": {"--no-such-flag"}, "--data-dir": {"--data-dir="}, "--listen-client-urls": {"--data-dir=" + t.TempDir(), "--listen-client-urls=https://127.0.0.1:0"},
	} {
		log := &output{}
		require.NotZero(t, command(t.Context(), args, io.Discard, log))
		require.Contains(t, log.String(), flag)
	}
}
