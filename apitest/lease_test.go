package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

var leases = client.Resource[kinds.Lease]{Group: "coordination.k8s.io", Version: "v1", Plural: "leases"}

const (
	leaseDuration = time.Minute
	renewEvery    = 20 * time.Second
)

var errHeld = errors.New("another candidate holds the lease")

// candidate takes a lease when it is free or expired, and renews it until ctx ends. It calls led
// whenever it takes or renews the lease.
func candidate(ctx context.Context, c *client.Client[kinds.Lease], name string, led func(name string)) {
	for ctx.Err() == nil {
		_, err := c.Modify(ctx, meta.Key{Namespace: "kube-system", Name: "lock"}, func(l *kinds.Lease) error {
			holder := l.Spec.HolderIdentity
			if holder != nil && *holder != name && time.Since(l.Spec.RenewTime.Time) < leaseDuration {
				return errHeld
			}
			now := meta.NewMicroTime(time.Now())
			l.Spec.HolderIdentity, l.Spec.RenewTime = &name, &now
			return nil
		})
		if err == nil {
			led(name)
		}
		select {
		case <-time.After(renewEvery):
		case <-ctx.Done():
		}
	}
}

func TestLEASE_02_ALeaseExpiresInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t)
		c := client.For(srv.Client(), leases)
		_, err := c.Create(t.Context(), &kinds.Lease{ObjectMeta: meta.Named("kube-system", "lock")})
		require.NoError(t, err)

		var mu sync.Mutex
		last, leader := map[string]time.Time{}, ""
		var terms []string
		led := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			if leader != name && leader != "" && time.Since(last[leader]) < leaseDuration {
				t.Errorf("%s leads %s after %s has renewed", name, time.Since(last[leader]), leader)
			}
			if leader != name {
				terms = append(terms, name)
			}
			leader, last[name] = name, time.Now()
		}
		var running sync.WaitGroup
		for i := range 3 {
			// Each is lost after some hours, without a word.
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*2*time.Hour)
			defer cancel()
			time.Sleep(100 * time.Millisecond)
			running.Go(func() {
				candidate(ctx, client.For(srv.As(fmt.Sprint("candidate-", i), "system:masters"), leases), fmt.Sprint("candidate-", i), led)
			})
		}
		running.Wait()
		require.Equal(t, []string{"candidate-0", "candidate-1", "candidate-2"}, terms)
	})
}
