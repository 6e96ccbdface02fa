package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// lifeOf runs a server of one host for a while.
func lifeOf(t *testing.T, db storage.Backend, host string, during func(leases registry.Front[kinds.Lease])) {
	t.Helper()
	srv, err := kindwright.New(db, kindwright.Serve(Kinds(Options{Host: host})))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, srv.Start(ctx))
	during(registry.From[kinds.Lease](srv.Engine()).AsSystem())
	stop()
	srv.Wait()
}

func TestEveryServerHasALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		one, two := newIdentity("one"), newIdentity("two")
		lifeOf(t, db, "one", func(leases registry.Front[kinds.Lease]) {
			made, err := leases.Get(t.Context(), identityNamespace, one.name())
			require.NoError(t, err)
			require.Regexp(t, "^apiserver-[a-z2-7]{26}$", made.Name)
			require.Equal(t, map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "one"}, made.Labels)
			require.EqualValues(t, 3600, *made.Spec.LeaseDurationSeconds)
			time.Sleep(time.Minute)
			renewed, err := leases.Get(t.Context(), identityNamespace, one.name())
			require.NoError(t, err)
			require.GreaterOrEqual(t, renewed.Spec.RenewTime.Sub(made.Spec.RenewTime.Time), 40*time.Second)
			require.Equal(t, made.Spec.HolderIdentity, renewed.Spec.HolderIdentity)
		})
		lifeOf(t, db, "two", func(leases registry.Front[kinds.Lease]) {
			for _, name := range []string{one.name(), two.name()} {
				_, err := leases.Get(t.Context(), identityNamespace, name)
				require.NoError(t, err, "a server that has just stopped may come back")
			}
			time.Sleep(2*time.Hour + time.Minute)
			_, err := leases.Get(t.Context(), identityNamespace, one.name())
			require.True(t, status.IsNotFound(err), "%v", err)
			_, err = leases.Get(t.Context(), identityNamespace, two.name())
			require.NoError(t, err)
		})
		require.NoError(t, db.Close())
	})
}

// Clients compute the name of a server's lease from its host.
func TestALeaseIsNamedAsThatOfKubeAPIServer(t *testing.T) {
	require.Equal(t, "apiserver-lgabes5ywnaqeagh5dny4zlzs4", newIdentity("node-1").name())
	require.NotEqual(t, newIdentity("node-1").name(), newIdentity("node-2").name())
}
