package webhook_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/webhook"
)

// When a webhook is replaced, connections to it that are kept lead nowhere. The next write was refused with
// "EOF", although its other server answers. A webhook that breaks off a new connection is broken.
func TestX7_WHK_04_AConnectionThatHasEndedIsNoFailure(t *testing.T) {
	var asked, breaks atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if breaks.Add(-1) >= 0 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		converting(t, honest)(w, r)
	}))
	srv.StartTLS() // with HTTP/1.1, as in a cluster
	t.Cleanup(srv.Close)
	convert := converter(t, webhook.Config{
		URL: srv.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
	}, "v1")
	for range 3 {
		_, err := convert(t.Context(), v2, []object{pot("a")})
		require.NoError(t, err)
		breaks.Store(1)
	}
	require.EqualValues(t, 5, asked.Load())
	breaks.Store(2)
	_, err := convert(t.Context(), v2, []object{pot("a")})
	require.ErrorContains(t, err, "EOF")
	require.EqualValues(t, 7, asked.Load(), "once more, over a new connection")
}
