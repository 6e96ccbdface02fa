package connection_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// asking notes the addresses that it is asked for, and connects to one server.
type asking struct {
	to    net.Addr
	asked []string
}

func (n *asking) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.asked = append(n.asked, address)
	return new(net.Dialer).DialContext(ctx, network, n.to.String())
}

// EGRESS-13: every sort of connection goes where it is led, to its server or to the proxy before it.
func TestEGRESS_13_ConnectionsAreLedThroughATunnel(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Host) }))
	defer srv.Close()
	dir := t.TempDir()
	answer(t, dir, "v1", map[string]any{"token": "a"})
	read := func(cluster, user string) connection.Connection {
		c, err := connection.Read(write(t, dir, cluster, user), func(error) {})
		require.NoError(t, err)
		return c
	}
	for name, c := range map[string]struct {
		connection.Connection
		asked string
	}{
		"file":   {read("server: 'http://hook.internal:8080'", ""), "hook.internal:8080"},
		"plugin": {read("server: 'http://hook.internal:8080'", pluginFile(t, dir, "v1", "interactiveMode: Never")), "hook.internal:8080"},
		"proxy":  {read("server: 'http://hook.internal:8080', proxy-url: 'http://proxy.internal:3128'", ""), "proxy.internal:3128"},
		"none":   {connection.Connection{URL: "http://hook.internal:8080"}, "hook.internal:8080"},
	} {
		n := &asking{to: srv.Listener.Addr()}
		led, err := c.Through(n.dial)
		require.NoError(t, err, name)
		said, err := led.Post(t.Context(), nil)
		require.NoError(t, err, name)
		require.Equal(t, "hook.internal:8080", string(said), name)
		require.Equal(t, []string{c.asked}, n.asked, name)
		led.Client.CloseIdleConnections()
	}

	same, err := connection.Connection{URL: srv.URL}.Through(nil)
	require.NoError(t, err)
	require.Nil(t, same.Client)
	_, err = connection.Connection{Client: &http.Client{Transport: &http.Transport{}}}.Through((&asking{}).dial)
	require.ErrorContains(t, err, "a transport of the type *http.Transport cannot be led through a tunnel")
}

// Connections that are made anew for a changed certificate go through the tunnel too.
func TestEGRESS_13_ATunnelOutlivesCertificates(t *testing.T) {
	dir := t.TempDir()
	authority, err := selfsigned.NewAuthority("clients")
	require.NoError(t, err)
	renew := func() {
		pair, err := authority.Client("me")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Cert, 0o600))
	}
	renew()
	c, err := connection.Read(write(t, dir, "server: 'https://hook.internal'", "client-certificate: tls.crt, client-key: tls.key"), func(error) {})
	require.NoError(t, err)
	dead := errors.New("the tunnel is dead")
	c, err = c.Through(func(context.Context, string, string) (net.Conn, error) { return nil, dead })
	require.NoError(t, err)
	for range 3 {
		_, err = c.Post(t.Context(), nil)
		require.ErrorIs(t, err, dead)
		renew()
		require.NoError(t, os.Chtimes(filepath.Join(dir, "tls.crt"), time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)))
		time.Sleep(1100 * time.Millisecond) // files are looked at once in a second
	}
}
