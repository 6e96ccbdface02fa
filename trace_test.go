package kindwright_test

import (
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"
)

// connections are the local addresses that requests were sent from.
type connections struct{ seen map[string]bool }

// traced makes a request whose connection is noted.
func (c *connections) traced(t *testing.T, url string) *http.Request {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { c.seen[info.Conn.LocalAddr().String()] = true },
	})
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	require.NoError(t, err)
	return req
}
