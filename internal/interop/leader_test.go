package interop

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate takes part in an election until it is stopped. led is closed once it leads.
type candidate struct {
	led  chan struct{}
	stop func()
}

func stand(t *testing.T, client kubernetes.Interface, name string, release bool) *candidate {
	c := &candidate{led: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	c.stop = func() { cancel(); running.Wait() }
	t.Cleanup(c.stop)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "election"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 2 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.led) },
			OnStoppedLeading: func() {},
		},
	})
	require.NoError(t, err)
	running.Go(func() { elector.Run(ctx) })
	return c
}

func (c *candidate) leads(t *testing.T) {
	t.Helper()
	select {
	case <-c.led:
	case <-time.After(waitLimit):
		require.Fail(t, "no candidate leads")
	}
}

// Two candidates and then a third: a leader that steps down is replaced at once, one that vanishes
// when its lease expires.
func TestLEASE_02_LeaderElectionHandsOver(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		first := stand(t, client, "first", true)
		first.leads(t)
		second := stand(t, client, "second", false)
		select {
		case <-second.led:
			require.Fail(t, "two candidates lead")
		default:
		}
		first.stop()
		second.leads(t)
		lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "election", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "second", *lease.Spec.HolderIdentity)
		second.stop()
		third := stand(t, client, "third", true)
		third.leads(t)
		lease, err = client.CoordinationV1().Leases("kube-system").Get(t.Context(), "election", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "third", *lease.Spec.HolderIdentity)
		require.GreaterOrEqual(t, *lease.Spec.LeaseTransitions, int32(2))
	})
}
