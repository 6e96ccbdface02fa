package apitest_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// dial returns a client made only from the data of an Endpoint, as another program would.
func dial(t *testing.T, ca, cert, key []byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		require.NoError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestListenTLSServesOtherPrograms(t *testing.T) {
	srv := apitest.New(t, Widgets)
	e := srv.ListenTLS()
	require.Same(t, e, srv.ListenTLS())
	over := client.For(dial(t, e.CA, e.Cert, e.Key), Widgets, client.At(e.URL))
	w, err := over.Create(t.Context(), widget("a"))
	require.NoError(t, err)
	got, err := client.For(srv.Client(), Widgets).Get(t.Context(), w.Key())
	require.NoError(t, err, "the same server")
	require.Equal(t, w, got)
	for event, err := range over.Watch(t.Context(), client.In("default")) {
		require.NoError(t, err)
		if event.Type == client.Synced {
			require.NoError(t, over.Delete(t.Context(), w.Key()))
		}
		if event.Type == meta.Deleted {
			require.Equal(t, w.UID, event.Object.UID)
			break
		}
	}
	cert, key, err := e.Certificate("ann", "shop")
	require.NoError(t, err)
	_, err = client.For(dial(t, e.CA, cert, key), Widgets, client.At(e.URL)).Get(t.Context(), w.Key())
	require.True(t, status.IsForbidden(err))
	require.ErrorContains(t, err, `User "ann"`)
	_, err = client.For(dial(t, e.CA, nil, nil), Widgets, client.At(e.URL)).Get(t.Context(), w.Key())
	require.ErrorContains(t, err, `User "system:anonymous"`)

	other := apitest.New(t, Widgets).ListenTLS()
	_, err = client.For(dial(t, other.CA, e.Cert, e.Key), Widgets, client.At(e.URL)).Get(t.Context(), w.Key())
	require.ErrorContains(t, err, "certificate")
	_, err = client.For(dial(t, e.CA, other.Cert, other.Key), Widgets, client.At(e.URL)).Get(t.Context(), w.Key())
	require.True(t, status.IsUnauthorized(err))
}

func TestTheEndOfAServerEndsItsConnections(t *testing.T) {
	problems := within(t, func(s *scope) {
		srv := apitest.New(s, Widgets)
		e := srv.ListenTLS()
		for range 3 {
			c := dial(t, e.CA, e.Cert, e.Key)
			res, err := c.Get(e.URL + widgetsPath + "?watch=1") // over HTTP/2, and never closed
			if err != nil || res.StatusCode != 200 {
				s.Errorf("%v", err)
			}
			go func() { _, _ = io.Copy(io.Discard, res.Body) }()
		}
	})
	require.Empty(t, problems)
}
