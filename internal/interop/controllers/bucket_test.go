package controllers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// cloud is a provider that rejects removals until a given time.
type cloud struct {
	mu      sync.Mutex
	buckets map[types.UID]string
	made    int
	until   time.Time
	asked   []time.Time // times of removals
}

func (c *cloud) Make(_ context.Context, id types.UID, region string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buckets == nil {
		c.buckets = map[types.UID]string{}
	}
	if c.buckets[id] == "" {
		c.made++
		c.buckets[id] = region + "/" + string(id)
	}
	return c.buckets[id], nil
}

func (c *cloud) Remove(_ context.Context, id types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, time.Now())
	if time.Now().Before(c.until) {
		return errors.New("the bucket is in use")
	}
	delete(c.buckets, id)
	return nil
}

func (c *cloud) has(id types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buckets[id] != ""
}

// close rejects removals for a time.
func (c *cloud) close(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(d)
}

// pauses returns the delays between attempts to remove.
func (c *cloud) pauses() (out []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range len(c.asked) - 1 {
		out = append(out, c.asked[i+1].Sub(c.asked[i]))
	}
	return out
}

// A bucket is made once, stays while its provider will not let go of it, and then goes.
func TestFinalizers(t *testing.T) {
	everywhere(t, "finalizer", func(t *testing.T, p *place) {
		c := &cloud{}
		p.run(func(m ctrl.Manager) error {
			return (&BucketReconciler{Client: m.GetClient(), Provider: c}).SetUp(m, p.options())
		})
		first := &Bucket{ObjectMeta: p.meta("photos"), Spec: BucketSpec{Region: "north"}}
		require.NoError(t, p.Create(t.Context(), first))
		p.until("there is an address", func() bool { return p.get(first) && first.Status.Address == "north/"+string(first.UID) })
		require.Equal(t, []string{BucketFinalizer}, first.Finalizers)
		require.Equal(t, int64(1), first.Generation)

		c.close(30 * p.hour)
		wrong := types.UID("00000000-0000-0000-0000-000000000000")
		require.True(t, apierrors.IsConflict(p.Delete(t.Context(), first, client.Preconditions{UID: &wrong})))
		require.NoError(t, p.Delete(t.Context(), first, client.Preconditions{UID: &first.UID}))
		p.until("the provider was asked", func() bool { return len(c.pauses()) > 0 })
		require.True(t, p.get(first))
		require.NotNil(t, first.DeletionTimestamp)
		more := clone(first)
		more.Finalizers = append(more.Finalizers, "example.com/late")
		err := p.Update(t.Context(), more)
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted")
		require.True(t, c.has(first.UID))
		p.gone(first)
		require.False(t, c.has(first.UID))
		if p.virtual {
			pause := time.Minute
			for _, took := range c.pauses() {
				require.Equal(t, pause, took)
				pause = min(2*pause, 6*time.Hour)
			}
			require.Len(t, c.pauses(), 13, "nine that double, of 8 hours and a half together, and then one every 6 hours")
		}

		second := &Bucket{ObjectMeta: p.meta("photos"), Spec: BucketSpec{Region: "south"}}
		require.NoError(t, p.Create(t.Context(), second))
		p.until("the next of the name has an address of its own", func() bool { return p.get(second) && second.Status.Address == "south/"+string(second.UID) })
		require.NoError(t, p.DeleteAllOf(t.Context(), &Bucket{}, client.InNamespace(p.namespace)))
		p.gone(second)
		require.Equal(t, 2, c.made)
	})
}

// Changes without an event are found when the manager reconciles everything again, as it does every
// ten hours.
func TestResync(t *testing.T) {
	everywhere(t, "resync", func(t *testing.T, p *place) {
		c, every := &cloud{}, 10*p.hour
		m := p.manager(manager.Options{Cache: cache.Options{SyncPeriod: &every}}, func(m ctrl.Manager) error {
			return (&BucketReconciler{Client: m.GetClient(), Provider: c}).SetUp(m, p.options())
		})
		p.start(m)
		b := &Bucket{ObjectMeta: p.meta("photos"), Spec: BucketSpec{Region: "north"}}
		require.NoError(t, p.Create(t.Context(), b))
		p.until("there is a bucket", func() bool { return p.get(b) && b.Status.Address != "" })
		p.rest()
		times := 1
		if p.virtual {
			times = 20
		}
		began := time.Now()
		for range times {
			require.NoError(t, c.Remove(t.Context(), b.UID)) // without an event
			p.until("it is made again", func() bool { return c.has(b.UID) })
		}
		if p.virtual { // it is spread by a tenth, and may be just over when the bucket is lost
			require.InDelta(t, 200, time.Since(began).Hours(), 200)
			require.Greater(t, time.Since(began), 100*time.Hour)
		}
		require.Equal(t, 1+times, c.made)
	})
}
