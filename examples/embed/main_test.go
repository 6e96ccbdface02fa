package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// start runs the program and returns its address and a function that stops it.
func start(t *testing.T) (host string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-listen", "127.0.0.1:0"}, out)
		_ = out.CloseWithError(io.EOF)
		done <- err
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, in) }()
	host = regexp.MustCompile(`http://([^ ]+)\. Try`).FindStringSubmatch(line)[1]
	stopped := false
	stop = func() error {
		cancel()
		stopped = true
		return <-done
	}
	t.Cleanup(func() {
		if !stopped {
			require.NoError(t, stop())
		}
	})
	return host, stop
}

func read(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := c.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

func TestTheServiceAndItsAPI(t *testing.T) {
	host, stop := start(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	h := &http.Client{Transport: transport}
	as := func(user string) *client.Client[Order] {
		return client.For(h, orders, client.At("http://"+user+host+"/shop"))
	}
	order := func(team, name string, count int32) *Order {
		return &Order{ObjectMeta: meta.Named(team, name), Spec: OrderSpec{Article: "tea", Count: count}}
	}

	require.Equal(t, "Hello.\n", read(t, h, "http://"+host+"/hello"), "the host's own routes")
	_, err := as("ann:apple@").Create(t.Context(), order("red", "a", 3))
	require.NoError(t, err)
	o, err := as("bob:banana@").Create(t.Context(), order("blue", "b", 0))
	require.NoError(t, err)
	require.EqualValues(t, 1, o.Spec.Count, "the default")
	_, err = as("ann:apple@").Create(t.Context(), order("blue", "c", 1))
	require.True(t, status.IsForbidden(err), "%v", err)
	_, err = as("ann:banana@").Get(t.Context(), meta.Key{Namespace: "red", Name: "a"})
	require.True(t, status.IsUnauthorized(err), "%v", err)
	_, err = as("").Get(t.Context(), meta.Key{Namespace: "red", Name: "a"})
	require.True(t, status.IsForbidden(err), "%v", err)
	require.Equal(t, "4\n", read(t, h, "http://"+host+"/total"), "the host sees all teams")
	require.Contains(t, read(t, h, "http://ann:apple@"+host+"/shop/openapi/v3"), `"/shop/openapi/v3/apis/shop.example.com/v1`, "links know where the API is mounted")

	ended := make(chan error, 1)
	synced := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for e, err := range as("ann:apple@").Watch(ctx, client.In("red")) {
			switch {
			case err != nil:
				ended <- err
				return
			case e.Type == client.Synced:
				close(synced)
			}
		}
	}()
	<-synced
	require.NoError(t, stop(), "a watch does not hold up the end of the service")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestWrongFlagsAreReported(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"-listen", "nowhere"}, io.Discard), "nowhere")
	require.ErrorContains(t, run(t.Context(), []string{"-what"}, io.Discard), "-what")
}
