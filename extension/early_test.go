package extension

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// awayStore is a store that cannot be reached at first.
type awayStore struct {
	storage.Backend
	there atomic.Bool
}

// Revision implements storage.Backend.
func (s *awayStore) Revision(ctx context.Context) (storage.Revision, error) {
	if !s.there.Load() {
		return 0, fmt.Errorf("no quorum: %w", storage.ErrUnavailable)
	}
	return s.Backend.Revision(ctx)
}

// Trap 20: without the store, the documents are there, so that clients and the end of namespaces do not
// wait for them. All else is refused with the advice to come again, and /readyz says why.
func TestDISC_09_DocumentsBeforeTheStore(t *testing.T) {
	w := newWorld(t)
	w.grant()
	db := memory.New()
	defer func() { require.NoError(t, db.Close()) }()
	store := &awayStore{Backend: db}
	s := w.serve(Config{}, store)
	defer s.stop()
	h := s.aggregator(w.front(w.proxies, "front"))
	s.settle(t, h, 503)
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	documents := []string{"/api", "/apis", "/apis/fleet.example.com", "/apis/fleet.example.com/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/fleet.example.com/v1", "/version"}
	early := map[string]string{}
	for _, path := range documents {
		code, header, body := s.do(h, "GET", path, "", append([]string{"Accept", aggregated + ",application/json"}, captain...)...)
		require.Equal(t, 200, code, "%s: %s", path, body)
		require.NotEmpty(t, header.Get("Etag"), path)
		early[path] = body
	}
	require.Contains(t, early["/apis/fleet.example.com/v1"], `"ships"`)
	require.Contains(t, early["/apis"], `"APIGroupDiscoveryList"`)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		code, header, body := s.do(h, method, shipsPath, "", captain...)
		require.Equal(t, 503, code, body)
		require.NotEmpty(t, header.Get("Retry-After"))
	}
	code, _, body := s.do(h, "GET", "/apis", "")
	require.Equal(t, 401, code, "documents have readers that are known, as ever: %s", body)
	code, _, _ = s.do(h, "GET", "/metrics", "", captain...)
	require.Equal(t, 503, code)
	code, _, body = s.do(h, "GET", "/readyz", "", captain...)
	require.Equal(t, 500, code)
	require.Contains(t, body, "[-]etcd failed")
	code, _, _ = s.do(h, "GET", "/livez", "", captain...)
	require.Equal(t, 200, code)

	store.there.Store(true)
	s.settle(t, h, 200)
	code, _, body = s.do(h, "GET", "/readyz", "", captain...)
	require.Equal(t, 200, code, body)
	for _, path := range documents {
		code, _, body := s.do(h, "GET", path, "", append([]string{"Accept", aggregated + ",application/json"}, captain...)...)
		require.Equal(t, 200, code, path)
		require.Equal(t, early[path], body, "%s stays as it was", path)
	}
}
