package aggregate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// What belongs to a back end is there as soon as a server has started: a controller that is told
// otherwise takes its objects for deleted.
func TestOPS_08_ARestartHidesNoBackEnd(t *testing.T) {
	w := newWorld(t, nil) // for its authorities
	w.kindwright("boats", "v1")
	db := memory.New()
	defer func() { require.NoError(t, db.Close()) }()
	for round := range 6 {
		behind, err := aggregate.New(aggregate.Config{Certificate: keyPairFunc(w), Resolver: w, AllowLoopback: true})
		require.NoError(t, err)
		srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()), kindwright.Aggregate(behind),
			kindwright.Authenticate(byHeader), kindwright.Authorize(noted), kindwright.LogTo(logr.Discard()))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, srv.Start(ctx))
		ask := func(path string) *httptest.ResponseRecorder {
			r, out := httptest.NewRequest(http.MethodGet, path, http.NoBody), httptest.NewRecorder()
			r.Header.Set("X-User", "alice")
			srv.ServeHTTP(out, r)
			return out
		}
		if round == 0 {
			w.http = httptest.NewServer(srv)
			t.Cleanup(w.http.Close)
			w.register("boats", "v1")
			w.await("v1.boats.example.dev", "Passed")
		}
		groups := ask("/apis").Body.String()
		require.Contains(t, groups, `"boats.example.dev"`, "round %d", round)
		out := ask(boats)
		require.Equal(t, 200, out.Code, out.Body.String())
		cancel()
		srv.Wait()
	}
}
