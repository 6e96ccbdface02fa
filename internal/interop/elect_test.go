package interop

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
)

// elect is like stand, for a candidate of package client.
func elect(t *testing.T, s *server, name string) *candidate {
	t.Helper()
	h, err := rest.HTTPClientFor(s.Config)
	require.NoError(t, err)
	url, _, err := rest.DefaultServerUrlFor(s.Config)
	require.NoError(t, err)
	c := &candidate{led: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	c.stop = func() { cancel(); running.Wait() }
	t.Cleanup(c.stop)
	e := client.Election{
		Lease: meta.Key{Namespace: "kube-system", Name: "election"}, Identity: name, Release: true,
		Duration: 2 * time.Second, Deadline: 1500 * time.Millisecond, Retry: 100 * time.Millisecond,
	}
	running.Go(func() {
		err := client.Elect(ctx, h, e, func(ctx context.Context) error {
			close(c.led)
			<-ctx.Done()
			return ctx.Err()
		}, client.At(url.String()))
		if ctx.Err() == nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return c
}

// Candidates of client-go and of package client compete for one lease. Each waits for the other and
// takes over from it.
func TestLEASE_02_BothKindsOfCandidates(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		kube, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		holder := func() string {
			lease, err := kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "election", metav1.GetOptions{})
			require.NoError(t, err)
			require.NotNil(t, lease.Spec.RenewTime)
			return *lease.Spec.HolderIdentity
		}
		waits := func(c *candidate) {
			t.Helper()
			select {
			case <-c.led:
				require.Fail(t, "two candidates lead")
			case <-time.After(2500 * time.Millisecond): // longer than a lease without renewals
			}
		}
		theirs := stand(t, kube, "theirs", true)
		theirs.leads(t)
		ours := elect(t, s, "ours")
		waits(ours)
		require.Equal(t, "theirs", holder())
		theirs.stop()
		ours.leads(t)
		require.Equal(t, "ours", holder())
		again := stand(t, kube, "again", false) // it stops without releasing the lease
		waits(again)
		ours.stop()
		again.leads(t)
		again.stop()
		last := elect(t, s, "last")
		last.leads(t)
		require.Equal(t, "last", holder())
	})
}
