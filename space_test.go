package kindwright_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// crowded is a backend that has no space while full is set.
type crowded struct {
	storage.Backend
	full atomic.Bool
}

func (c *crowded) Room() error {
	if c.full.Load() {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, syscall.ENOSPC)
	}
	return nil
}

func (c *crowded) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	frees := false
	for _, op := range ops {
		frees = frees || op.Frees || op.Type == storage.OpDelete
	}
	if err := c.Room(); err != nil && !frees {
		return 0, err
	}
	return c.Backend.Commit(ctx, ops)
}

func TestSTORE_08_AFullDiskRefusesWritesWithTheReasonAndTheRestGoesOn(t *testing.T) {
	b := &crowded{Backend: memory.New()}
	srv, err := kindwright.New(b, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewServer(srv)
	t.Cleanup(func() { cancel(); web.Close(); srv.Wait(); require.NoError(t, b.Close()) })
	h := &host{Server: srv, url: web.URL, t: t}
	for _, name := range []string{"held", "free"} {
		code, _ := h.do("POST", gadgetPath, `{"metadata":{"name":"`+name+`","finalizers":["example.dev/`+name+`"]}}`)
		require.Equal(t, 201, code)
	}
	b.full.Store(true)

	answer := h.request("POST", gadgetPath, `{"metadata":{"name":"y"}}`)
	require.Equal(t, 503, answer.StatusCode)
	require.Equal(t, "5", answer.Header.Get("Retry-After"))
	code, got := h.do("POST", gadgetPath, `{"metadata":{"name":"y"}}`)
	require.Equal(t, 503, code)
	require.Contains(t, got["message"], "507 Insufficient Storage")
	for _, path := range []string{"/readyz", "/healthz", "/readyz/store-space"} {
		require.Equal(t, 500, h.request("GET", path, "").StatusCode, path)
	}
	require.Equal(t, 200, h.request("GET", "/livez", "").StatusCode, "a restart would not mend the disk")
	require.Equal(t, 200, h.request("GET", "/readyz?exclude=store-space", "").StatusCode, "for those who send deletions here")

	code, _ = h.do("GET", gadgetPath+"/held", "")
	require.Equal(t, 200, code)
	code, _ = h.do("PATCH", gadgetPath+"/free", `{"metadata":{"finalizers":["example.dev/free","example.dev/more"]}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 503, code, "it frees nothing")
	code, got = h.do("DELETE", gadgetPath+"/held", "")
	require.Equal(t, 200, code)
	require.Contains(t, fmt.Sprint(got), "deletionTimestamp", "a finalizer holds it")
	code, _ = h.do("PATCH", gadgetPath+"/held", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 503, code, "not every write to such an object frees")
	code, _ = h.do("PATCH", gadgetPath+"/held", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 200, code)
	code, _ = h.do("GET", gadgetPath+"/held", "")
	require.Equal(t, 404, code)

	b.full.Store(false)
	code, _ = h.do("POST", gadgetPath, `{"metadata":{"name":"y"}}`)
	require.Equal(t, 201, code, "without a restart")
	require.Equal(t, 200, h.request("GET", "/readyz", "").StatusCode)
}
