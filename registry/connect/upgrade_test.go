package connect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// HTTP/2 has no connection to give away, and a server inside the process has none at all. Both are told, and nothing is sent.
func TestUpgradesWhereThereIsNoConnection(t *testing.T) {
	for name, change := range map[string]func(r *http.Request){
		"HTTP/2":           func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0 },
		"HTTP/1.0":         func(r *http.Request) { r.Proto, r.ProtoMinor = "HTTP/1.0", 0 },
		"another protocol": func(r *http.Request) { r.Header.Set("Upgrade", "h2c") },
		"no header":        func(r *http.Request) { r.Header.Del("Connection") },
		"in the process":   func(*http.Request) {},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Header.Set("Connection", "upgrade")
		r.Header.Set("Upgrade", "echo")
		change(r)
		w := httptest.NewRecorder()
		_, _, err := connect.Upgrade(w, r, "echo")
		require.Equal(t, http.StatusBadRequest, status.CodeOf(err), "%s: %v", name, err)
		require.False(t, w.Flushed, name)
		require.Empty(t, w.Body.String(), name)
		r.Header.Set("Upgrade", "websocket")
		_, err = connect.AcceptWebSocket(w, r)
		require.Equal(t, http.StatusBadRequest, status.CodeOf(err), "%s: %v", name, err)
	}
}

func TestConnectionsThatCannotBeServed(t *testing.T) {
	serve := func(http.ResponseWriter, *http.Request, *registry.Call[gear], *registry.NoOptions) error { return nil }
	for text, c := range map[string]connect.Endpoint[gear, registry.NoOptions]{
		"no function Serve":        {Name: "x"},
		`method "HEAD"`:            {Name: "x", Serve: serve, Methods: []string{"HEAD"}},
		"given twice":              {Name: "x", Serve: serve, Methods: []string{"GET", "GET"}},
		`origin "example.com"`:     {Name: "x", Serve: serve, Origins: []string{"example.com"}},
		`origin "https://a.com/"`:  {Name: "x", Serve: serve, Origins: []string{"https://a.com/"}},
		`subresource "a/b"`:        {Name: "a/b", Serve: serve},
		"objects of Go type int64": {},
	} {
		kind := registry.Kind[gear]{Group: "example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"}, Subresources: []registry.Endpoint{c}}
		if strings.Contains(text, "int64") {
			kind.Subresources = []registry.Endpoint{connect.Endpoint[int64, registry.NoOptions]{Name: "x", Serve: func(http.ResponseWriter, *http.Request, *registry.Call[int64], *registry.NoOptions) error { return nil }}}
		}
		_, err := kind.Resource()
		require.ErrorContains(t, err, text)
	}
}

type gear struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}
