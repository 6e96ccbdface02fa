package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage/memory"
)

// bearer adds a token, which kubectl sends over TLS.
type bearer struct{ to http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return b.to.RoundTrip(r)
}

// The program does its work, ends in order, and leaves a lease that nobody holds.
func TestTheProgramEndsInOrder(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute) // ends a run that hangs
	defer stop()
	p := program{address: "127.0.0.1:0", token: "secret"}
	p.started = func(srv *kindwright.Server, _ string) {
		go func() {
			defer stop()
			transport := client.InProcess(srv)
			defer transport.Close()
			all := client.For(&http.Client{Transport: bearer{transport}}, sites)
			if _, err := all.Create(ctx, site(2)); err != nil {
				return
			}
			for event, err := range all.Watch(ctx, client.Selection{}) {
				if err != nil || event.Object != nil && event.Object.Status.Pages == 2 {
					return
				}
			}
		}()
	}
	require.NoError(t, p.run(ctx, db))
	require.ErrorIs(t, ctx.Err(), context.Canceled)

	srv := apitest.Config{Backend: db}.New(t, sites, kinds.ConfigMaps())
	made, err := client.For(srv.Client(), sites).Get(t.Context(), meta.Key{Namespace: "default", Name: "a"})
	require.NoError(t, err)
	require.EqualValues(t, 2, made.Status.Pages)
	leases := client.For(srv.Client(), client.Resource[kinds.Lease]{Group: "coordination.k8s.io", Version: "v1", Plural: "leases"})
	lease, err := leases.Get(t.Context(), meta.Key{Namespace: "kube-system", Name: "sites.web.example.com"})
	require.NoError(t, err)
	require.Empty(t, *lease.Spec.HolderIdentity, "released, so the next leader need not wait")
}

func TestAServerThatCannotServeEndsTheProgram(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.ErrorContains(t, program{address: "nowhere", token: "secret"}.run(t.Context(), db), "nowhere")
}
